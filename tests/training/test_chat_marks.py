"""Marks of chat templates as models bring them: found, spoken with nothing stripped, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.tiny_tokenizer import tiny_tokenizer
from tests.training.tiny import (
    Scripted,
    preset,
    retriever,
    rl_rows,
    save_tiny_model,
    searching,
    trained_runs,
    training_set,
)
from trailforge.protocols.environment import Environment
from trailforge.schemas import ChatMessage, InvalidInput
from trailforge.training.chat_marks import CHATML, END, START, frame_of, own_frame
from trailforge.training.masks import masked_tokens, observation_ids, prepare_tokenizer, prompt_ids, teach
from trailforge.training.trl.rl import train_rl
from trailforge.training.weights import load_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

_LOOP = "{% for m in messages %}"
_CHATML = "{{ '<|im_start|>' + m['role'] + '\n' + text + '<|im_end|>\n' }}"
_LAST = "{% if m['role'] == 'assistant' and not loop.last %}{% set text = m['content'].split('</think>')[-1] %}"
_TEXT = "{% else %}{% set text = m['content'] %}{% endif %}"
QWEN3 = _LOOP + _LAST + _TEXT + _CHATML + "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
"""Drops the thoughts of all turns but the last."""
R1 = (
    "{{ bos_token }}"
    + _LOOP
    + _LAST
    + _TEXT
    + "{% if m['role'] == 'system' %}{{ text }}{% elif m['role'] == 'user' %}{{ '<｜User｜>' + text }}"
    "{% else %}{{ '<｜Assistant｜>' + text + '<｜end｜>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<｜Assistant｜><think>\n' }}{% endif %}"
)
"""Its own marks, the rules without any, thoughts dropped, and the next turn begun with one."""
LLAMA = (
    "{% if date_string is not defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
    "{{ bos_token }}" + _LOOP + "{{ '<|header|>' + m['role'] + '<|/header|>\n\n' }}"
    "{% if m['role'] == 'system' %}{{ 'Today: ' + date_string + '\n\n' }}{% endif %}"
    "{{ m['content'] | trim + '<|eot|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|header|>assistant<|/header|>\n\n' }}{% endif %}"
)
"""Trims, and says the date."""
NO_RULES = (
    _LOOP
    + "{% if m['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}[{{ m['content'] }}]{% endfor %}"
)
NUMBERED = _LOOP + "{{ '<｜User｜>' + loop.index | string + m['content'] + '<｜end｜>' }}{% endfor %}"
R1_MARKS = ("<｜begin｜>", "<｜end｜>", "<｜User｜>", "<｜Assistant｜>")
LLAMA_MARKS = ("<|begin|>", "<|header|>", "<|/header|>", "<|eot|>")

EPISODE = (
    ChatMessage(role="system", content="Rules."),
    ChatMessage(role="user", content="Who directed it? "),
    ChatMessage(role="assistant", content="<think>I search.</think><search>director</search>\n"),
    ChatMessage(role="tool", content="<result>\nBy Ada.\n</result>\n"),
    ChatMessage(role="assistant", content="<think>Ada did.</think>\n<answer>Ada</answer>"),
)


def tokenizer_of(template: str, marks: tuple[str, ...] = ()) -> Any:
    """A tokenizer that knows these marks and, unless it has some, ChatML's."""
    tokenizer: Any = tiny_tokenizer(*marks)
    if marks:
        plain = json.loads(tokenizer.backend_tokenizer.to_str())
        plain["added_tokens"] = [each for each in plain["added_tokens"] if each["content"] not in (START, END)]
        from tokenizers import Tokenizer
        from transformers import PreTrainedTokenizerFast

        special = {"bos_token": marks[0], "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(plain)), **special)
    tokenizer.chat_template = template
    return tokenizer


MODELS = [(QWEN3, ()), (R1, R1_MARKS), (LLAMA, LLAMA_MARKS)]
IDS = ["qwen3", "r1-distill", "llama"]


def test_marks_are_those_of_the_template() -> None:
    r1, llama = (own_frame(tokenizer_of(*model)) for model in MODELS[1:])
    assert r1 is not None and llama is not None
    assert (r1.end, r1.after_end, r1.before("assistant")) == ("<｜end｜>", "", "<｜Assistant｜>")
    assert r1.before("system") == "<｜begin｜>" and r1.before("user", is_first=True) == "<｜begin｜><｜User｜>"
    assert (llama.end, llama.after("tool")) == ("<|eot|>", "<|eot|>")
    assert llama.before("system").startswith("<|begin|><|header|>system<|/header|>\n\nToday: 26 Jul 2024")
    assert llama.before("tool") == "<|header|>user<|/header|>\n\n"


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_nothing_is_stripped_and_the_agents_turns_alone_are_trained(model: tuple[str, tuple[str, ...]]) -> None:
    """Thoughts of earlier turns, spaces and line ends stand as they were written."""
    tokenizer = tokenizer_of(*model)
    prepare_tokenizer(tokenizer)
    frame = frame_of(tokenizer)
    assert (frame == CHATML) == (not model[1]) and teach(tokenizer) == []
    made = masked_tokens(tokenizer, EPISODE)
    assert [tokenizer.decode(run) for run in trained_runs(made)] == [EPISODE[n].content + frame.end for n in (2, 4)]
    text = tokenizer.decode(made.input_ids)
    assert all(message.content in text for message in EPISODE)


@pytest.mark.parametrize("model", MODELS, ids=IDS)
def test_a_rollouts_tokens_are_the_training_tokens(model: tuple[str, tuple[str, ...]]) -> None:
    """The prompt, a turn, what stands between two turns, a turn: id for id what training makes of the whole."""
    tokenizer = tokenizer_of(*model)
    prepare_tokenizer(tokenizer)
    end = frame_of(tokenizer).end
    ids = prompt_ids(tokenizer, EPISODE[:2])
    ids += tokenizer.encode(EPISODE[2].content + end, add_special_tokens=False)
    ids += observation_ids(tokenizer, EPISODE[3].content)
    ids += tokenizer.encode(EPISODE[4].content + end, add_special_tokens=False)
    whole = masked_tokens(tokenizer, EPISODE).input_ids
    assert whole[: len(ids)] == ids
    assert tokenizer.decode(whole[len(ids) :]) == frame_of(tokenizer).after_end


@pytest.mark.parametrize("model", MODELS[1:], ids=IDS[1:])
def test_the_template_that_is_saved_says_the_same(model: tuple[str, tuple[str, ...]]) -> None:
    """The same text is trained; and read again the template has the same marks."""
    tokenizer = tokenizer_of(*model)
    prepare_tokenizer(tokenizer)
    chat = [{"role": message.role, "content": message.content} for message in EPISODE]
    theirs = tokenizer.apply_chat_template(chat, return_dict=True, return_assistant_tokens_mask=True)
    ours = masked_tokens(tokenizer, EPISODE)
    learnt = [token for token, is_in in zip(theirs["input_ids"], theirs["assistant_masks"], strict=True) if is_in]
    assert tokenizer.decode(theirs["input_ids"]) == tokenizer.decode(ours.input_ids)
    assert tokenizer.decode(learnt) == "".join(tokenizer.decode(run) for run in trained_runs(ours))
    frame = frame_of(tokenizer)
    assert own_frame(tokenizer_of(tokenizer.chat_template, model[1])) == frame
    prepare_tokenizer(tokenizer)
    assert frame_of(tokenizer) == frame and tokenizer.eos_token == frame.end


@pytest.mark.parametrize("template", [NO_RULES, NUMBERED, "{{ messages[0]['content'] }}", "{% broken"])
def test_a_template_without_regular_marks_is_refused(template: str) -> None:
    tokenizer = tokenizer_of(template, R1_MARKS)
    assert own_frame(tokenizer) is None
    with pytest.raises(InvalidInput, match=r"no token .* chat template of regular marks.*train sft"):
        prepare_tokenizer(tokenizer)


def test_reinforcement_starts_from_a_model_that_speaks_as_r1_distill_does(tmp_path: Path) -> None:
    """Without supervised training; its loss is on the agent's tokens, and what comes of it speaks so too."""
    base = save_tiny_model(tmp_path / "base", tokenizer=tokenizer_of(R1, R1_MARKS))
    rows = training_set(tmp_path / "set", rl=rl_rows(copies=1))
    prompts: list[str] = []

    def script(text: str, number: int) -> str:
        prompts.append(text)
        return searching(text, number)

    model = train_rl(
        rows,
        preset(),
        tmp_path / "out",
        environment=Environment(documents=retriever(), top_k=1),
        base_model=str(base),
        max_steps=1,
        open_generator=lambda trainer: Scripted(trainer.processing_class, script),
    )
    assert prompts[0].startswith("<｜begin｜>Think, then") and prompts[0].endswith("<｜Assistant｜>")
    between = "</search><｜end｜><｜User｜><tool_response>"
    assert any(between in text for text in prompts) and not any("im_start" in text for text in prompts)
    assert load_tokenizer(str(model)).eos_token == "<｜end｜>"
    (reward,) = json.loads((tmp_path / "out" / "training.json").read_text())["rewards"]
    assert 0.0 < reward < 1.0
