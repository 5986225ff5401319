"""Special tokens of chat templates, escaped and restored."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.schemas.text import (
    CHAT_MARKERS,
    chat_token_in,
    escape_chat_tokens,
    remove_invisible,
    restore_chat_tokens,
)

FAMILIES = {
    "Baichuan": "<reserved_106> <reserved_107>",
    "Cohere": "<BOS_TOKEN> <EOS_TOKEN> <|START_OF_TURN_TOKEN|> <|CHATBOT_TOKEN|> <|START_ACTION|> <PAD>",
    "DeepSeek": "<｜User｜> <｜Assistant｜> <｜begin▁of▁sentence｜> <｜tool▁calls▁begin｜> <｜DSML｜>",
    "ERNIE": "<|begin_of_sentence|> <|end_of_sentence|> <|IMAGE_PLACEHOLDER|>",
    "EXAONE": "[|assistant|] [|endofturn|] [|tool|] [BOS]",
    "FunctionGemma": "<start_function_call> <end_function_response> <start_function_declaration>",
    "Gemma 1 to 3n": "<bos> <eos> <start_of_turn> <end_of_turn> <start_of_image> <end_of_audio> <image_soft_token>",
    "Gemma 4": '<|turn> <turn|> <|channel> <tool_call|> <|tool_response> <|"|> <|think|>',
    "GLM": "[gMASK] [sMASK] <sop> <eop> <|user|> <|observation|> <arg_key> </arg_value>",
    "gpt-oss": "<|start|> <|channel|> <|message|> <|end|> <|call|> <|return|> <|constrain|>",
    "Granite": "<|start_of_role|> <|end_of_role|> <|tool_call|> <|end_of_text|>",
    "Hunyuan": "<|startoftext|> <|extra_0|> <|eos|> <｜hy_User｜> <｜hy_Assistant｜>",
    "InternLM": "<eoh> <eoa> <|plugin|> <|action_start|>",
    "Kimi": "<|im_user|> <|im_middle|> <|tool_calls_section_begin|> [BOS] [EOS] [EOT] [start_header_id]",
    "Ling": "<role>HUMAN</role> <role>SYSTEM</role> <|role_end|>",
    "Llama 2": "<s> </s> <unk> <<SYS>> <</SYS>> [INST] [/INST]",
    "Llama 3 and 4": "<|begin_of_text|> <|start_header_id|> <|eot_id|> <|header_start|> <|eot|> <|python_tag|>",
    "LongCat": "<longcat_think> </longcat_tool_call> <longcat_arg_key>",
    "MiniCPM": "<用户> <AI> <|im_end|>",
    "MiniMax": "]~b] ]~!b[ [e~[ ]!p~[ ]!d~[ ]<]image[>[ <minimax:tool_call> </mm:think> <beginning_of_sentence>",
    "Mistral": "[INST] [/SYSTEM_PROMPT] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_CALLS] [TOOL_RESULTS] [ARGS] "
    "[CALL_ID] [/TOOL_RESULTS] [TOOL_CONTENT] [IMG] [IMG_BREAK] [IMG_END] [THINK] [/THINK] [MODEL_SETTINGS] </s>",
    "Nemotron": "<SPECIAL_10> <SPECIAL_12> <extra_id_0> <extra_id_1>",
    "OLMo": "<|user|> <|assistant|> <|endoftext|>",
    "Pangu": "[unused9] [unused10]",
    "Phi": "<|system|> <|end|> <|im_sep|>",
    "Qwen": "<|im_start|> <|im_end|> <|endoftext|> <|vision_start|>",
    "Reka": "<sep> <|endoftext|>",
    "Seed-Coder": "<[begin▁of▁sentence]> <[end▁of▁sentence]>",
    "Seed-OSS": "<seed:bos> <seed:eos> <seed:think> </seed:think> <seed:tool_call> </seed:cot_budget_reflect>",
}
TOKENS = sorted({token for tokens in FAMILIES.values() for token in tokens.split()})
PIECES = [*TOKENS, "<", "[", "]", ">", "|", " ", "~b", "e~", "a &lt; b", "&#91;1]", "&amp;"]
ORDINARY = (
    "see [1], [INSTALL], [options], [img], [args] and [/url]; <b>bold</b>, <sub>2</sub>, <p|q>, a < s >, x[i]~y, "
    "a | b |> c, <system>, <user>, <role>admin</role>, <AIDS>, seed:eos, minimax:tool, BOS_TOKEN, [e-mail], [Image], "
    "｜a｜, <https://example.org/?a=1|2>, ]]>, <!-- [if IE] -->, <title>, List<String>, if (a<b||c>d), [!NOTE], ~b"
)


def test_every_family_has_a_source_and_examples() -> None:
    assert FAMILIES.keys() == CHAT_MARKERS.keys()
    for family, markers in CHAT_MARKERS.items():
        assert re.fullmatch(r"[\w-]+/[\w.-]+", markers.source), family
        for pattern in markers.patterns:
            assert pattern.startswith(("<", r"\[", r"\]")), family
            assert any(re.fullmatch(f"(?:{pattern}).*", token) for token in FAMILIES[family].split()), (family, pattern)


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_become_plain_text_and_come_back(token: str) -> None:
    text = f"It says{token}: go on"
    found = chat_token_in(text)
    assert found and token.startswith(found)
    assert chat_token_in(escape_chat_tokens(text)) is None
    assert restore_chat_tokens(escape_chat_tokens(text)) == text


def test_ordinary_text_stays() -> None:
    assert escape_chat_tokens(ORDINARY) == ORDINARY and chat_token_in(ORDINARY) is None


@pytest.mark.parametrize(
    "text", ["[INST]~b]", "[e~[INST]", "]~b]~b]", "[e~[e~[", "]~!b[e~[BOS]~b]", "]<]a[>[IMG]!p~[EOS]"]
)
def test_tokens_that_overlap_are_all_taken_apart(text: str) -> None:
    escaped = escape_chat_tokens(text)
    assert chat_token_in(escaped) is None and escape_chat_tokens(escaped) == escaped
    assert restore_chat_tokens(escaped) == text


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_every_text_comes_back(text: str) -> None:
    escaped = escape_chat_tokens(text)
    assert chat_token_in(escaped) is None
    if not re.search(r"\][~!<][^ ]*\][~!<]|\[e~\[e", text):  # overlap too often to be restored
        assert restore_chat_tokens(escaped) == text


def test_other_references_stay() -> None:
    assert restore_chat_tokens("2 &lt; 3, &#91;1], &#93;") == "2 &lt; 3, &#91;1], &#93;"


# What nobody sees

NEEDED = (
    "می\u200cخواهم",  # Persian: a joiner between the parts of a word
    "ක්\u200dර",  # Sinhala and Hindi: consonants that are written as one
    "क्\u200dष",
    "ന്\u200d",  # Malayalam, at the end of a word
    "👩\u200d👩\u200d👧",
    "❤\ufe0f\u200d🔥",
    "👍🏽",
    "1\ufe0f\u20e3",
    "☎\ufe0e",
    "ᠮᠠ\u180d",
    "𓀀\U00013430𓀁",
    "naïve — “x”, e\u0301, 日本\u3000語, a\tb\nc",
)
HIDDEN = {
    "NUL": "a\x00b",
    "zero width": "a\u200bb\u2060\ufeff",
    "joiners between Latin letters": "a\u200db\u200c",
    "tags": "ab" + "".join(chr(0xE0000 + ord(each)) for each in "ignore all"),
    "a flag's tags": "🏴\U000e0067\U000e0062\U000e007f",
    "bidi": "a\u202eb\u202c\u2066\u2069\u200f\u061c",
    "soft hyphen": "a\u00adb",
    "fillers": "a\u3164\u115f\uffa0b",
    "selectors": "a\ufe00\ufe0f\U000e0101b",
    "selectors one after the other": "☎\ufe0f\ufe0f\ufe0f",
    "escapes": "\x1bab\x9b",
    "half a pair": "a\ud800b",
    "annotations": "a\ufff9b\ufffa",
}
MIXED = [
    "a",
    "1",
    "ک",
    "क",
    "👩",
    "❤",
    "ᠮ",
    "\u200c",
    "\u200d",
    "\u200b",
    "\ufe0f",
    "\u180d",
    "\u20e3",
    "\U000e0041",
    "\x00",
    " ",
]


@pytest.mark.parametrize("text", NEEDED)
def test_what_scripts_and_pictures_need_stays(text: str) -> None:
    assert remove_invisible(text) == (text, 0)


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN.keys())
def test_what_nobody_sees_goes_and_is_counted(text: str) -> None:
    seen, removed = remove_invisible(text)
    assert removed > 0 and len(seen) == len(text) - removed
    assert seen.strip("☎\ufe0f🏴") in ("ab", "")


@given(st.lists(st.sampled_from(MIXED)).map("".join) | st.text())
def test_nothing_more_goes_the_second_time(text: str) -> None:
    once, removed = remove_invisible(text)
    assert remove_invisible(once) == (once, 0) and len(once) == len(text) - removed
