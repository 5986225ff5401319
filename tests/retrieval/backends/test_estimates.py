"""What a build is said to ask a model, held against what it asks, with a strong model's recorded replies."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.retrieval.backends.words import bench
from tests.support.scripted import Script, ScriptedModel, prompt_text
from trailforge.inference import Request
from trailforge.retrieval.backends import BACKENDS, PLAIN, PlannedCalls, load_backend
from trailforge.schemas import Document, InvalidInput, to_dict
from trailforge.schemas.text import count_tokens

RECORDED = Path(__file__).parent / "facts_read_by_a_strong_model.json.gz"
READ: list[dict[str, Any]] = json.loads(gzip.decompress(RECORDED.read_bytes()))
DOCUMENTS = [Document(id=str(row), title=each["title"], text=each["text"]) for row, each in enumerate(READ)]
Figures = tuple[int, int, int]
"""Calls, tokens of prompts, tokens of replies."""


async def count_asked(name: str, script: Script, **options: Any) -> dict[str, Figures]:
    """What a build asks, by purpose."""
    replies: dict[str, list[str]] = defaultdict(list)

    def answer(request: Request) -> str:
        replies[request.purpose].append(script(request))
        return replies[request.purpose][-1]

    model, backend = ScriptedModel(answer), load_backend(name)
    await backend.build(DOCUMENTS, backend.config(**options), bench(model))
    prompts: dict[str, list[str]] = defaultdict(list)
    for request in model.requests:
        prompts[request.purpose].append(prompt_text(request))
    return {
        purpose: (len(asked), sum(map(count_tokens, asked)), sum(map(count_tokens, replies[purpose])))
        for purpose, asked in prompts.items()
    }


def figures(planned: Sequence[PlannedCalls]) -> dict[str, Figures]:
    return {each.purpose: (each.calls, each.prompt_tokens, each.completion_tokens) for each in planned}


def plan(name: str, **options: Any) -> dict[str, Figures]:
    backend = load_backend(name)
    return figures(backend.estimate(DOCUMENTS, backend.config(**options)))


def recorded_facts() -> Script:
    """What the strong model replied, round by round; then there are no more facts."""
    rounds = {each["title"]: iter([*each["replies"], '{"entities": [], "facts": []}']) for each in READ}

    def script(request: Request) -> str:
        asked = prompt_text(request)
        return next(next(replies for title, replies in rounds.items() if f"\nTitle: {title}\n" in asked))

    return script


@pytest.mark.parametrize("name", PLAIN)
def test_every_back_end_that_may_ask_says_what_it_would(name: str) -> None:
    backend, plain = load_backend(name), load_backend(PLAIN[name])
    config = backend.config()
    assert "build" in backend.asks_model(config)
    planned = backend.estimate(DOCUMENTS, config)
    assert planned and all(min(each.calls, each.prompt_tokens, each.completion_tokens) > 0 for each in planned)
    assert not plain.estimate(DOCUMENTS, plain.config()) and not plain.asks_model(plain.config())
    assert backend.estimate(DOCUMENTS[:1], config)  # a small corpus is no reason to say nothing


def test_these_are_all_that_may_ask_in_a_build() -> None:
    asking = {name for name in BACKENDS if load_backend(name).asks_model(load_backend(name).config())}
    assert asking == set(PLAIN) and {load_backend(name).plain for name in asking} == set(PLAIN.values())


@pytest.mark.parametrize(("name", "options"), [("hippo_rag", {"facts": "sentences"}), ("raptor", {"summaries": "x"})])
def test_a_name_keeps_its_meaning_whatever_is_set(name: str, options: dict[str, str]) -> None:
    """A published build is one that a model wrote; a plain one cannot be told to ask."""
    with pytest.raises(
        InvalidInput, match=r"that is hippo_rag_plain, and hippo_rag is|'x' is none of extractive, model"
    ):
        load_backend(name).read_numbers(options)
    with pytest.raises(InvalidInput, match="'model' is none of"):
        load_backend(PLAIN[name]).read_numbers(dict.fromkeys(options, "model"))


def test_what_is_set_otherwise_stands_beside_the_name() -> None:
    backend = load_backend("hippo_rag")
    config = to_dict(backend.read_numbers({"filter": "entities", "top_facts": 5}))
    assert backend.describe(config) == "hippo_rag (filter=entities)"
    assert backend.describe(to_dict(backend.config())) == "hippo_rag"


async def test_facts_about_any_number_of_entities_are_asked_for_as_is_said() -> None:
    planned = plan("hyper_graph_rag", facts="model")
    asked = (await count_asked("hyper_graph_rag", recorded_facts(), facts="model"))["extract_facts"]
    together = tuple(sum(column) for column in zip(*planned.values(), strict=True))
    assert together[0] == asked[0] - 1 == 27 + 27 + 4  # one reply was prose, and was asked for again
    assert together[1] == pytest.approx(asked[1], rel=0.05)
    assert together[2] == pytest.approx(asked[2], rel=0.05)


async def test_triples_are_asked_for_as_is_said() -> None:
    names = json.dumps({"names": ["Vittorio Zucca", "1920", "Antwerp", "Olympic Games", "Pula", "Italy"]})
    replies = {"extract_names": names, "extract_triples": json.dumps({"triples": []})}
    asked = await count_asked("hippo_rag", lambda request: replies[request.purpose], facts="model")
    planned = plan("hippo_rag", facts="model")
    assert {purpose: each[0] for purpose, each in planned.items()} == {purpose: 27 for purpose in asked}
    assert planned["extract_names"][1] == asked["extract_names"][1]
    assert planned["extract_triples"][1] == pytest.approx(asked["extract_triples"][1], rel=0.1)


async def test_a_tree_asks_for_about_as_many_summaries_as_is_said() -> None:
    asked = (await count_asked("raptor", lambda request: "A summary of all that is there.", summaries="model"))[
        "summary"
    ]
    planned = plan("raptor", summaries="model")["summary"]
    assert asked[0] / 2 <= planned[0] <= 2 * asked[0]
    assert asked[1] / 2 <= planned[1] <= 2 * asked[1]
    backend = load_backend("raptor")
    (few,) = backend.estimate(DOCUMENTS[:11], backend.config(summaries="model"))
    assert few.calls == 0  # a layer of so few is the last


async def test_reports_on_names_are_as_many_as_is_said() -> None:
    report = json.dumps({"title": "T", "summary": "S.", "findings": [], "rating": 1})
    asked = await count_asked("graph_rag", lambda request: report, extraction="names")
    planned = plan("graph_rag", extraction="names")
    assert [*planned] == [*asked] == ["report"]
    assert planned["report"][0] == asked["report"][0]  # of so few passages all are in the sample
    assert planned["report"][1] == pytest.approx(asked["report"][1], rel=0.05)


@pytest.mark.parametrize("gleanings", [0, 2])
async def test_extraction_asks_for_every_passage_and_for_no_more_gleanings_than_is_said(gleanings: int) -> None:
    entity = {"name": "Pula", "kind": "place", "description": "Pula is a city."}
    facts = json.dumps({"entities": [entity], "relations": []})
    asked = await count_asked("graph_rag", lambda request: facts, reports="extractive", gleanings=gleanings)
    planned = plan("graph_rag", reports="extractive", gleanings=gleanings)
    assert planned["facts"][:2] == asked["facts"][:2] and asked["facts"][0] == 27
    assert planned["gleaning"][0] == asked.get("gleaning", (0, 0, 0))[0] == 27 * gleanings
    assert "report" not in planned
