"""Estimate token counts without a tokenizer, and handle special tokens and invisible characters in text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

_TOKEN = re.compile(r"[A-Za-z0-9]{1,4}|[^\sA-Za-z0-9]")
_KINDS = "".join("a" if each.isalnum() else " " if each.isspace() else "." for each in map(chr, range(128))).encode()
_KINDS += b"." * 128
"""For each ASCII character: a letter or digit, white space, or another one."""


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens without a tokenizer, rather too high than too low.

    A word of ASCII letters and digits counts as one token for every four begun characters, and every other character
    but white space as one. On English Wikipedia text that is about 1.4 times a WordPiece count.
    """
    if not text.isascii():
        return len(_TOKEN.findall(text))
    kinds = text.encode().translate(_KINDS)  # a third of the time, as no token is made
    for letters in (b"aaaa", b"aaa", b"aa"):
        kinds = kinds.replace(letters, b".")
    return len(kinds) - kinds.count(b" ")


_PIECE = re.compile(r"\d|[^\W\d_]{1,6}|[^\w\s]|\n")


def count_tokens(text: str) -> int:
    """Return about the number of tokens that a model's tokenizer makes of English: words by their length, digits and
    marks one by one.
    """
    return len(_PIECE.findall(text))


class _Turn(Protocol):
    @property
    def content(self) -> str: ...


def count_conversation(turns: Iterable[_Turn]) -> int:
    """Count the tokens of all turns with `count_tokens`, for the column `token_estimate`. SmolLM2's tokenizer makes 0.5
    to 7 % less of the demo's conversations, template included."""
    return sum(count_tokens(turn.content) for turn in turns)


_INVISIBLE = (
    *range(0x80, 0xA0),  # C1 controls
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFEFF, 0xFFA0),  # soft hyphen, fillers …
    *range(0x180B, 0x1810),  # Mongolian selectors
    *range(0x200B, 0x2010),  # zero width; marks of direction
    *range(0x2028, 0x202F),  # ends of line and paragraph; what turns the direction of writing
    *range(0x2060, 0x2070),  # word joiner, invisible operators, more of direction
    *range(0xFE00, 0xFE10),  # variation selectors, in which text can be hidden
    *range(0xFFF0, 0xFFFC),  # annotations
    *range(0x13430, 0x13440),  # format controls of hieroglyphs, shorthand and music
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),  # tags and more selectors: whole texts can be hidden in them
)
_CONTROLS = (
    {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
    | {0x7F: "\u2421"}
    | dict.fromkeys(_INVISIBLE, "\ufffd")
)
"""What is shown in place of control characters and of all others that nobody would see."""


def visible(text: str) -> str:
    """Return the text with a visible sign for each control or invisible character, one for one, so that positions stay
    the same.
    """
    return text.translate(_CONTROLS)


@dataclass(frozen=True, slots=True)
class Markers:
    """Special tokens by which a family of models marks turns, tools and media in its chat template."""

    source: str
    """Where the tokens are documented: the `tokenizer_config.json` and the chat template of a repository at
    huggingface.co."""
    patterns: tuple[str, ...]
    """Regular expressions, each of which begins with `<`, `[` or `]`. Tokens that are bare words are left out."""


_BARS = r"<\|[^<>|\s]++\|>"
"""ChatML, and all that write bars as it does: `<|im_start|>`, `<|start_header_id|>`, `<|user|>`."""
_WIDE_BARS = r"<｜[^<>｜\s]++｜>"

CHAT_MARKERS: Mapping[str, Markers] = {
    "Baichuan": Markers("baichuan-inc/Baichuan2-13B-Chat", (r"<reserved_\d++>",)),
    "Cohere": Markers(
        "CohereLabs/c4ai-command-r-v01", (_BARS, "<(?:BOS|EOS|EOP|MASK)_TOKEN>", "<(?:PAD|UNK|CLS|SEP)>")
    ),
    "DeepSeek": Markers("deepseek-ai/DeepSeek-V3", (_WIDE_BARS,)),
    "ERNIE": Markers("baidu/ERNIE-4.5-21B-A3B-PT", (_BARS,)),
    "EXAONE": Markers("LGAI-EXAONE/EXAONE-4.0-32B", (r"\[\|[^\[\]|\s]++\|\]", r"\[BOS\]")),
    "FunctionGemma": Markers(
        "google/functiongemma-270m-it", ("<(?:start|end)_function_(?:call|response|declaration)>",)
    ),
    "Gemma 1 to 3n": Markers(
        "google/gemma-3n-E4B-it",
        ("<(?:bos|eos|pad|unk)>", "<(?:start|end)_of_(?:turn|image|audio)>", "<(?:image|audio)_soft_token>"),
    ),
    "Gemma 4": Markers("google/gemma-4-E4B-it", (r"<\|[a-z_\"]++>", r"<[a-z_]++\|>", _BARS)),
    "GLM": Markers("zai-org/GLM-4.5", (_BARS, r"\[[gs]MASK\]", "<(?:sop|eop)>", "</?arg_(?:key|value)>")),
    "gpt-oss": Markers("openai/gpt-oss-120b", (_BARS,)),
    "Granite": Markers("ibm-granite/granite-4.0-h-small", (_BARS,)),
    "Hunyuan": Markers("tencent/Hunyuan-A13B-Instruct", (_BARS, _WIDE_BARS)),
    "InternLM": Markers("internlm/internlm-chat-7b", (_BARS, "<eo[ah]>")),
    "Kimi": Markers("moonshotai/Kimi-K2-Instruct", (_BARS, r"\[(?:BOS|EOS|EOT|start_header_id|end_header_id)\]")),
    "Ling": Markers("inclusionAI/Ling-mini-2.0", (_BARS, "<role>(?=(?:SYSTEM|HUMAN|ASSISTANT|OBSERVATION)</role>)")),
    "Llama 2": Markers("meta-llama/Llama-2-7b-chat-hf", ("</?s>", "<unk>", "<</?SYS>>", r"\[/?INST\]")),
    "Llama 3 and 4": Markers("meta-llama/Llama-4-Scout-17B-16E-Instruct", (_BARS,)),
    "LongCat": Markers("meituan-longcat/LongCat-Flash-Chat", ("</?longcat_[a-z_]++>",)),
    "MiniCPM": Markers("openbmb/MiniCPM-2B-dpo-bf16", ("<用户>", "<AI>", _BARS)),
    "MiniMax": Markers(
        "MiniMaxAI/MiniMax-M2",
        (
            r"\]~!?b[\[\]]",
            r"\[e~\[",
            r"\]![a-z]~\[",
            r"\]<\][a-z_ ]++\[>\[",
            "</?(?:minimax|mm):[a-z_]++>",
            "<(?:beginning|end)_of_sentence>",  # Text-01 and M1
        ),
    ),
    "Mistral": Markers(
        "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
        (
            "</?s>",
            r"\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|MODEL_SETTINGS|THINK)\]",
            r"\[/?(?:TOOL_CALLS|TOOL_CONTENT)\]",
            r"\[(?:ARGS|CALL_ID|IMG|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO|TRANSCRIBE)\]",
        ),
    ),
    "Nemotron": Markers("nvidia/NVIDIA-Nemotron-Nano-9B-v2", (r"<SPECIAL_\d++>", r"<extra_id_\d++>")),
    "OLMo": Markers("allenai/Olmo-3-32B-Think", (_BARS,)),
    "Pangu": Markers("FreedomIntelligence/openPangu-Embedded-7B-V1.1", (r"\[unused\d++\]",)),
    "Phi": Markers("microsoft/phi-4", (_BARS,)),
    "Qwen": Markers("Qwen/Qwen3-32B", (_BARS,)),
    "Reka": Markers("RekaAI/reka-flash-3", ("<sep>", _BARS)),
    "Seed-Coder": Markers("ByteDance-Seed/Seed-Coder-8B-Instruct", (r"<\[(?:begin|end)▁of▁sentence\]>",)),
    "Seed-OSS": Markers("ByteDance-Seed/Seed-OSS-36B-Instruct", ("</?seed:[a-z_]++>",)),
}
"""Special tokens by family of models. Text that these models did not write must not contain any: see
`escape_chat_tokens`."""

_JOINING = (
    r"[\u0600-\u061b\u061d-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u18af\u1a00-\u1cff\ua800-\uabff"
    r"\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00010aff\U00010d00-\U00010d3f\U00010e80-\U00011fff\U0001e900-\U0001e95f]"
)
"""Letters whose shape and sense a joiner behind them changes: Arabic and its kin, the scripts of India, Mongolian …"""
_PICTURE = (
    r"[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d"
    r"\u3297\u3299\U0001f000-\U0001faff]"
)
_NEVER_SEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"  # controls; halves of surrogate pairs
    r"|[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    r"\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"  # as `_INVISIBLE` says
    r"|(?<![\u1820-\u18aa])[\u180b-\u180d\u180f]"
    r"|(?<![\U00013000-\U0001345f])[\U00013430-\U0001343f]"
    rf"|[\ufe00-\ufe0d]|(?<!{_PICTURE})\ufe0e|(?<!{_PICTURE})(?<![0-9#*](?=\ufe0f\u20e3))\ufe0f"
    rf"|(?<!{_JOINING})\u200c"
    rf"|(?<!{_JOINING})(?<!{_PICTURE})(?<!{_PICTURE}\ufe0f)\u200d|(?<=[\ufe0f]|{_PICTURE})\u200d(?!{_PICTURE})"
)
_ONLY_ASCII = re.compile(r"[\n\t\x20-\x7e]*")


def remove_invisible(text: str) -> tuple[str, int]:
    """Remove the characters that a model reads but no person sees, in which words can be hidden; returns the text and
    how many.

    Removed are controls but newline and tab, characters without width, tags, marks of direction, fillers and variation
    selectors. Joiners stay after letters of scripts that need them and between the parts of a picture, and so do the
    selectors of a picture, of a keycap and of Mongolian. A second call changes nothing.
    """
    if _ONLY_ASCII.fullmatch(text):
        return text, 0
    return _NEVER_SEEN.subn("", text)


_ESCAPED = {"<": "&lt;", "[": "&#91;", "]": "&#93;"}
_RESTORED = {escaped: plain for plain, escaped in _ESCAPED.items()}
_OVERLAPPING = 4
"""Tokens of which each begins with what the one before ends with, as in `[INST]~b]`, that are restored."""


def _before_rest(openings: Mapping[str, str]) -> re.Pattern[str]:
    """Finds what stands for the first character of a token, by that character; the rest is the group that matches."""
    every = dict.fromkeys(pattern for markers in CHAT_MARKERS.values() for pattern in markers.patterns)
    found: list[str] = []
    for opening, written in openings.items():
        plain = opening if opening == "<" else f"\\{opening}"
        rest = "|".join(pattern.removeprefix(plain) for pattern in every if pattern.startswith(plain))
        found.append(f"{written}(?=({rest}))")
    return re.compile("|".join(found))


_CHAT_TOKEN = _before_rest({"<": "<", "[": r"\[", "]": r"\]"})
_ESCAPED_TOKEN = _before_rest(_ESCAPED)


def escape_chat_tokens(text: str) -> str:
    """Turn special tokens of all known models into plain text: `<|im_end|>` becomes `&lt;|im_end|>`, `[INST]`
    `&#91;INST]`."""
    for _ in range(2):  # what is around a token, as in `<|a<turn|>`, may become one when that is taken apart
        if not any(first in text for first in _ESCAPED):
            break
        text = _CHAT_TOKEN.sub(lambda match: _ESCAPED[match[0]], text)
    return text


def restore_chat_tokens(text: str) -> str:
    """Undo `escape_chat_tokens` in text that a model was shown and repeats. Other character references stay."""
    for _ in range(_OVERLAPPING):
        text, found = _ESCAPED_TOKEN.subn(lambda match: _RESTORED[match[0]], text)
        if not found:
            break
    return text


def unescape_markers(text: str) -> str:
    """Unescape the characters that special tokens begin with, whatever follows them."""
    for escaped, plain in _RESTORED.items():
        text = text.replace(escaped, plain)
    return text


def chat_token_in(text: str) -> str | None:
    """Return the first special token of any known chat template in a text; None when there is none."""
    found = _CHAT_TOKEN.search(text)
    return found[0] + found[found.lastindex or 0] if found else None
