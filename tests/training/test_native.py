"""Native tool calls as tokens, in templates with the traits of Qwen3's, Llama 3's and Hermes': what is trained is what
the model wrote, behind the tokens that its server read."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import pytest

from tests.protocols.browse.test_loop import Agent, run
from tests.support.browse_agent import Road, next_turn
from tests.support.native_models import HEADERS, served, tokenizer_with, trained_turns
from tests.support.sft_rows import sft_row
from trailforge.protocols.browse import BROWSE, window_rows
from trailforge.protocols.browse.actions import BrowseTurn
from trailforge.protocols.browse.context import read_rule
from trailforge.schemas import InvalidInput, SftRow
from trailforge.training.native.tokens import native_tokens, server_messages
from trailforge.training.trl.offline import tokenise

pytestmark = pytest.mark.skipif(find_spec("trl") is None, reason="TRL, whose package has the templates, is missing")
MODELS = {"qwen3": (), "llama3_1": HEADERS, "qwen2_5": ()}
"""Chat templates by their names in TRL, with their marks. Qwen3's drops thoughts before the newest question, Llama's
trims and allows one call a turn, Qwen2.5's is of Hermes' form. The last two know no thoughts."""
every_model = pytest.mark.parametrize("model", MODELS)


def tokenizer_of(model: str) -> Any:
    template = (files("trl") / "chat_templates" / f"{model}.jinja").read_text(encoding="utf-8")
    return tokenizer_with(template, *MODELS[model])


def without_thoughts(prompt: str) -> BrowseTurn | str:
    """As a model without thoughts: it says aloud what it does."""
    turn = next_turn(prompt)
    return turn if isinstance(turn, str) else replace(turn, thought="", said=turn.thought, calls=turn.calls[:1])


async def episode(model: str, rule: str = "all") -> tuple[Agent, list[SftRow]]:
    agent = Agent(next_turn if model == "qwen3" else without_thoughts)
    done = await run(agent, Road(4), writing="native", context=read_rule(rule))
    return agent, window_rows(sft_row("u", (), protocol=BROWSE, question="q", answer="a"), done.record)


@every_model
@pytest.mark.parametrize("rule", ["all", "newest:2", "summary:150"])
async def test_each_turn_is_trained_once_behind_what_its_server_read(model: str, rule: str) -> None:
    agent, windows = await episode(model, rule)
    tokenizer = tokenizer_of(model)
    made = [each for row in windows for each in native_tokens(tokenizer, row.native, row.train)]  # type: ignore[arg-type]
    turns = trained_turns(made)
    assert [before for before, _ in turns] == served(tokenizer, agent.requests)
    written = [tokenizer.decode(own) for _, own in turns]
    assert all(text.endswith(("<|im_end|>", "<|eot_id|>")) for text in written)
    assert ANSWERS in written[-1] and all(("<think>" in text) is (model == "qwen3") for text in written[:1])


ANSWERS = "<answer>Oslo</answer>"


async def test_a_template_that_drops_thoughts_makes_rows_of_what_was_served() -> None:
    """Before a new question Qwen3 shows earlier turns without thoughts: another row begins there."""
    _, (row,) = await episode("qwen3")
    assert row.native is not None
    refusal = replace(row.native.messages[1], content="That turn cannot be read. Write it again.")
    messages = list(row.native.messages)
    messages.insert(6, refusal)
    train = [*row.train[:6], False, *row.train[6:]]
    split = replace(row.native, messages=tuple(messages))
    tokenizer = tokenizer_of("qwen3")
    made = native_tokens(tokenizer, split, train)
    assert len(made) == 2 and sum(len(trained_turns([each])) for each in made) == sum(train)
    first, second = (tokenizer.decode(each.input_ids) for each in made)
    assert first.count("<think>") == sum(train[:6]) and second.count("<think>") == sum(train[6:])
    whole = native_tokens(tokenizer_of("qwen2_5"), strip(split), train)
    assert len(whole) == 1


def strip(conversation: Any) -> Any:
    messages = tuple(replace(each, reasoning="") for each in conversation.messages)
    return replace(conversation, messages=messages)


async def test_templates_that_do_not_write_what_was_written_are_refused() -> None:
    _, (row,) = await episode("qwen3")
    assert row.native is not None
    for model in ("llama3_1", "qwen2_5"):
        with pytest.raises(InvalidInput, match="does not write the thoughts"):
            native_tokens(tokenizer_of(model), row.native, row.train)
    agent = Agent()
    done = await run(agent, Road(6), writing="native")  # two calls in the turn of the fifth stop
    (two,) = window_rows(sft_row("u", (), protocol=BROWSE, question="q", answer="a"), done.record)
    with pytest.raises(InvalidInput, match="refuses this conversation"):
        native_tokens(tokenizer_of("llama3_1"), strip(two.native), two.train)
    bare = tokenizer_of("qwen3")
    bare.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    with pytest.raises(InvalidInput, match="no token of its own"):
        native_tokens(bare, strip(row.native), row.train)


@every_model
async def test_trl_reads_the_same_tokens_from_the_same_messages(model: str) -> None:
    """TRL prepares a turn: its prompt is ours, and its completion is ours and what stands behind the end."""
    from trl.data_utils import _tokenize  # as SFTTrainer prepares a prompt and its completion

    _, (row,) = await episode(model)
    tokenizer = tokenizer_of(model)
    assert row.native is not None
    messages, tools = server_messages(row.native.messages), json.loads(row.native.tools)
    turns = trained_turns(native_tokens(tokenizer, row.native, row.train))
    for place, (before, own) in zip((n for n, flag in enumerate(row.train) if flag), turns, strict=True):
        prompt = _tokenize(tokenizer, messages[:place], tools=tools, add_generation_prompt=True)["input_ids"]
        whole = _tokenize(tokenizer, messages[: place + 1], tools=tools)["input_ids"]
        assert prompt == before and whole[: len(before) + len(own)] == [*before, *own]
        assert not tokenizer.decode(whole[len(before) + len(own) :]).strip()


async def test_sft_trains_a_mixed_set_in_the_models_own_template() -> None:
    _, (native,) = await episode("qwen3")
    done = await run(Agent(), Road(3), writing="tags")
    (tags,) = window_rows(sft_row("t", (), protocol=BROWSE, question="q", answer="a"), done.record)
    tokenizer = tokenizer_of("qwen3")
    examples, left_out = tokenise(tokenizer, [native, tags], 100_000, template=tokenizer.chat_template)
    assert left_out == {"too_long": 0, "untrained": 0}
    assert len(trained_turns(examples)) == sum(native.train) + sum(tags.train)
    assert "<tool_call>" in tokenizer.decode(examples[0].input_ids)
