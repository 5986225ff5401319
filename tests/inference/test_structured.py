"""Replies with a form: taken when they have it, repaired once when they do not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inference.support import answer, chat, completion, config, model_server
from tests.support.cut_replies import CutModel
from tests.support.kg_worlds import DUST
from tests.support.scripted import ScriptedModel
from trailforge.generators.document_bundles.drafts import reply_schema
from trailforge.generators.kg_questions.generate import schema_for
from trailforge.inference import ChatTurn, Meter, ModelClient, Request, ask_json, judge
from trailforge.inference.structured import ask_matching, strict_schema
from trailforge.mcts.policy import split_schema
from trailforge.retrieval.kg import tool as kg_filter
from trailforge.schemas import ITEM_ERRORS, ContextOverflow, MalformedReply

SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
LISTS = {"type": "array", "items": {"type": "object"}}
GOOD = '{"answer": "Lang"}'
BAD = {
    "no JSON": "Lang, I think.",
    "nothing": "",
    "JSON that breaks off": '{"answer": "La',
    "another type": '{"answer": 7}',
    "a missing field": "{}",
    "a field too many": '{"answer": "Lang", "why": "…"}',
    "two objects": f"{GOOD} {GOOD}",
    "brackets without end": "[" * 100_000,
    "not an object": '"Lang"',
}


def says(*replies: str) -> ScriptedModel:
    """A model that gives these replies in their order, and fails the test when asked for more."""
    left = list(replies)
    return ScriptedModel(lambda _: left.pop(0))


def number(text: str) -> int | None:
    match = re.fullmatch(r"The answer is (\d+)\.", text)
    return int(match[1]) if match else None


async def test_a_reply_that_follows_the_schema_is_taken_at_once() -> None:
    model, request, meter = says(GOOD), chat(), Meter()
    assert await ask_json(model, request, SCHEMA, meter) == {"answer": "Lang"}
    assert len(model.requests) == meter.calls == 1
    assert model.requests[0].prompt == request.prompt
    assert json.loads(model.requests[0].json_schema or "") == SCHEMA


@pytest.mark.parametrize(
    "text", [f"```json\n{GOOD}\n```", f"Here it is: {GOOD} Good luck!", f"\n {GOOD}\n", GOOD.replace("{", "{\n")]
)
async def test_words_around_the_object_do_no_harm(text: str) -> None:
    assert await ask_json(says(text), chat(), SCHEMA) == {"answer": "Lang"}


@pytest.mark.parametrize("text", ['[{"a": 1}]', '[{"a": 1}, {"a": 2}]', "[]"])
async def test_a_list_is_taken_where_the_schema_wants_one(text: str) -> None:
    assert await ask_json(says(text), chat(), LISTS) == json.loads(text)


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5)))
async def test_every_object_comes_back_as_it_was_written(value: dict[str, Any]) -> None:
    assert await ask_json(says(json.dumps(value)), chat(), {"type": "object"}) == value


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
async def test_what_is_no_number_passes_no_limit(number: str) -> None:
    limits = {"type": "object", "properties": {"n": {"type": "number", "minimum": 0, "maximum": 1}}}
    assert await ask_json(says(f'{{"n": {number}}}', '{"n": 1}'), chat(), limits) == {"n": 1}


async def test_half_an_emoji_in_an_escape_becomes_something_that_files_take() -> None:
    assert await ask_json(says(r'{"answer": "half \ud83d, whole \ud83d\ude42"}'), chat(), SCHEMA) == {
        "answer": "half ?, whole 🙂"
    }


@pytest.mark.parametrize("flaw", BAD)
@pytest.mark.parametrize("ask", [chat, completion])
async def test_a_reply_without_the_form_is_repaired_by_one_more_call(flaw: str, ask: Callable[[], Request]) -> None:
    model, meter = says(BAD[flaw], GOOD), Meter()
    assert await ask_json(model, ask(), SCHEMA, meter) == {"answer": "Lang"}
    assert len(model.requests) == meter.calls == 2


async def test_the_repair_tells_a_chat_what_was_wrong_and_wants_the_same_form() -> None:
    model, request = says('{"answer": 7}', GOOD), chat(grammar="G", purpose="answer", seed=3)
    await ask_json(model, request, SCHEMA)
    first, repair = model.requests
    assert isinstance(repair.prompt, tuple)
    *before, said, told = repair.prompt
    assert tuple(before) == request.prompt
    assert said == ChatTurn(role="assistant", content='{"answer": 7}')
    assert told.role == "user" and "7 is not of type 'string'" in told.content
    assert (repair.json_schema, repair.grammar, repair.sampling, repair.purpose, repair.seed) == (
        first.json_schema,
        "G",
        first.sampling,
        "answer",
        3,
    )


@pytest.mark.parametrize("draft", [GOOD, f"{GOOD} and so on", '{"answer": "La'])
async def test_a_cut_reply_is_malformed_whatever_it_holds(draft: str) -> None:
    left = [draft, GOOD]
    model = CutModel(lambda _: left.pop(0), lambda _: len(left) > 0)
    assert await ask_json(model, chat(), SCHEMA) == {"answer": "Lang"}
    assert isinstance(model.requests[1].prompt, tuple) and "it was cut at" in model.requests[1].prompt[-1].content


async def test_a_reply_that_is_cut_twice_is_no_answer() -> None:
    with pytest.raises(MalformedReply, match="cut at 2 tokens, twice"):
        await ask_matching(CutModel(lambda _: "answer 7"), chat(), lambda text: text)


async def test_a_chat_that_said_nothing_is_drawn_anew_without_a_turn_of_nothing() -> None:
    model, request = says(" ", GOOD), chat(sample=1)
    await ask_json(model, request, SCHEMA)
    assert model.requests[1].prompt == request.prompt and model.requests[1].sample > 10_000


async def test_the_repair_of_a_text_is_another_draw_that_no_ordinary_draw_takes() -> None:
    model = says("no", GOOD, "no", GOOD)
    for sample in range(2):
        await ask_json(model, completion(sample=sample), SCHEMA)
    assert {request.prompt for request in model.requests} == {completion().prompt}
    assert len({request.sampling_seed for request in model.requests}) == 4
    assert min(model.requests[1].sample, model.requests[3].sample) > 10_000


@pytest.mark.parametrize("flaw", BAD)
async def test_a_reply_without_the_form_twice_is_an_error_of_one_item(flaw: str) -> None:
    model, meter = says("no", BAD[flaw]), Meter()
    with pytest.raises(MalformedReply, match=r"^split: .*, twice; last: ") as caught:
        await ask_json(model, chat(purpose="split"), SCHEMA, meter)
    assert repr(BAD[flaw])[:40] in str(caught.value)
    assert isinstance(caught.value, ITEM_ERRORS)
    assert len(model.requests) == meter.calls == 2


async def test_a_long_reply_makes_no_long_error() -> None:
    with pytest.raises(MalformedReply) as caught:
        await ask_json(says("no " * 5000, "no " * 5000), chat(), SCHEMA)
    assert len(str(caught.value)) < 500


async def test_another_error_is_not_taken_for_a_malformed_reply() -> None:
    def script(_: Request) -> str:
        raise ContextOverflow("too long")

    model = ScriptedModel(script)
    with pytest.raises(ContextOverflow):
        await ask_json(model, chat(), SCHEMA)
    assert len(model.requests) == 1


async def test_the_same_schema_is_one_call_and_another_order_of_its_fields_another() -> None:
    model, text = says("[]", "[]"), {"type": "string"}
    await ask_json(model, chat(), LISTS | {"properties": {"a": text, "b": text}})
    await ask_json(model, chat(), LISTS | {"properties": {"a": text, "b": text}})
    assert len(model.requests) == 1
    await ask_json(model, chat(), LISTS | {"properties": {"b": text, "a": text}})
    assert len(model.requests) == 2


async def test_a_reply_that_matches_is_taken_as_it_is_read() -> None:
    model = says("The answer is 42.")
    assert await ask_matching(model, chat(grammar='root ::= "The answer is " [0-9]+ "."'), number) == 42
    assert [request.grammar for request in model.requests] == ['root ::= "The answer is " [0-9]+ "."']


@pytest.mark.parametrize("falsy", [0, "", False, ()])
async def test_only_none_means_that_a_reply_does_not_match(falsy: object) -> None:
    model = says("anything")
    assert await ask_matching(model, chat(), lambda _: falsy) == falsy
    assert len(model.requests) == 1


async def test_a_reply_that_does_not_match_is_repaired_by_one_more_call() -> None:
    model = says("42", "The answer is 42.")
    assert await ask_matching(model, chat(grammar="G"), number) == 42
    assert [request.grammar for request in model.requests] == ["G", "G"]


async def test_a_reply_that_does_not_match_twice_is_an_error() -> None:
    model = says("42", "forty-two")
    with pytest.raises(MalformedReply, match="twice; last: 'forty-two'"):
        await ask_matching(model, chat(), number)
    assert len(model.requests) == 2


async def test_a_server_that_ignores_schema_and_grammar_is_checked_all_the_same() -> None:
    async with model_server() as server:
        server.replies = [answer("Lang"), answer(GOOD), answer("42"), answer("The answer is 42.")]
        client = ModelClient(config(server.url, dialect="vllm"))
        assert await ask_json(client, chat(), SCHEMA) == {"answer": "Lang"}
        assert await ask_matching(client, completion(grammar="G"), number) == 42
        await client.aclose()
    sent = server.bodies
    assert [body.get("response_format", {}).get("type") for body in sent] == ["json_schema"] * 2 + [None] * 2
    assert [body.get("structured_outputs") for body in sent] == [None] * 2 + [{"grammar": "G"}] * 2


@pytest.mark.parametrize(
    "schema", [reply_schema(3), schema_for(DUST), split_schema(4), kg_filter.SCHEMA, judge.SCHEMA], ids=str
)
def test_every_schema_of_ours_is_one_for_strict_mode(schema: dict[str, Any]) -> None:
    def objects(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if part["type"] == "object":
            yield part
        for each in [*part.get("properties", {}).values(), *([part["items"]] if "items" in part else [])]:
            yield from objects(each)

    for part in objects(strict_schema(schema)):
        assert part["additionalProperties"] is False and part["required"] == list(part["properties"])
