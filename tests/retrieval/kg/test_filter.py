"""The KG filter: what the model may keep, and what it cannot."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.retrieval.kg import MAX_KEPT, TripleQuery, keep_triples
from trailforge.retrieval.kg.tool import SCHEMA, filter_prompt, keep_chosen
from trailforge.schemas import KgTriple, MalformedReply

QUERY = TripleQuery(
    question="Who {{triples}}?", sub_query="Where was he born?", entities=("Einstein", "Ulm"), relations=("born in",)
)


def triple(number: int) -> KgTriple:
    return KgTriple(
        head=f"Q{number}", relation="P1", tail="Q0", head_label=f"Head {number}", relation_label="r", tail_label="Tail"
    )


OFFERED = [triple(number) for number in range(1, 9)]


def kept(reply: str, offered: list[KgTriple] = OFFERED) -> tuple[ScriptedModel, list[int]]:
    model = ScriptedModel(lambda _: reply)
    choice = asyncio.run(keep_triples(model, "m", QUERY, offered))
    return model, [int(one.head[1:]) for one in choice]


def test_the_chosen_triples_in_the_models_order() -> None:
    model, numbers = kept('{"keep": [3, 1]}')
    assert numbers == [3, 1]
    (request,) = model.requests
    assert request.purpose == "keep_triples" and json.loads(request.json_schema or "") == SCHEMA


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("[]", []),
        ("[0, -1, 9, 2]", [2]),
        ("[2, 2, 3]", [2, 3]),
        ("[1, 2, 3, 4, 5, 6, 7]", [1, 2, 3, 4, 5]),
        ("[99, 1, 2, 3, 4, 5]", [1, 2, 3, 4, 5]),
    ],
)
def test_numbers_that_cannot_be_are_dropped(reply: str, expected: list[int]) -> None:
    assert kept(f'{{"keep": {reply}}}')[1] == expected


@given(st.lists(st.integers() | st.floats(allow_nan=False).filter(float.is_integer), max_size=12), st.integers(0, 8))
def test_nothing_is_kept_that_was_not_offered(numbers: list[int], count: int) -> None:
    offered = OFFERED[:count]
    choice = keep_chosen(numbers, offered)
    assert set(choice) <= set(offered) and len(choice) == len(set(choice)) <= MAX_KEPT


@pytest.mark.parametrize("reply", ["no", '{"keep": ["Head 1 | r | Tail"]}', '{"keep": [[1]]}', "{}"])
def test_a_triple_in_words_is_malformed(reply: str) -> None:
    with pytest.raises(MalformedReply):
        kept(reply)


def test_without_triples_nothing_is_asked() -> None:
    model, numbers = kept('{"keep": [1]}', [])
    assert model.requests == [] and numbers == []


def test_the_prompt_holds_all_that_the_paper_gives() -> None:
    model, _ = kept('{"keep": []}')
    prompt = prompt_text(model.requests[0])
    assert prompt == filter_prompt(QUERY, OFFERED)
    for part in ("Question: Who {{triples}}?\n", "Sub-query: Where was he born?", "Einstein; Ulm", "born in"):
        assert part in prompt
    assert [f"{n}. Head {n} | r | Tail" in prompt for n in range(1, 9)] == [True] * 8
    assert prompt.count("1. Head 1") == 1
