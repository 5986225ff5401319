"""What the authors' own search functions found on recorded graphs, and what ours find on the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.retrieval.backends.authors_rankings import QUESTIONS, build_hippo, build_hyper, build_linear
from trailforge.retrieval.backends import Index

AUTHORS = json.loads(Path(__file__).with_name("authors_rankings.json").read_text(encoding="utf-8"))
Ranking = list[tuple[str, float]]


async def rank(index: Index, question: str, *, by_text: bool = False) -> Ranking:
    """What is found, with scores as shares of the best where documents are."""
    found = [each.passage for each in await index.find(question, 10)]
    return [(each.text if by_text else each.id, each.score) for each in found]


def compare(ours: Ranking, theirs: Ranking, exactness: float) -> None:
    """The same, in the same order but where scores are equal to that exactness."""
    assert [score for _, score in ours] == pytest.approx([score for _, score in theirs], abs=exactness)
    for score in {score for _, score in theirs[:-1]}:
        alike = [{name for name, other in each if abs(other - score) < exactness} for each in (ours, theirs)]
        last = theirs[-1][1]
        assert alike[0] == alike[1] or abs(score - last) < exactness, "those that tie with the last may be others"


@pytest.mark.parametrize("numbers", ["linear_rag", "linear_rag_ragsearch"])
async def test_linear_rag_ranks_as_its_authors_do(numbers: str) -> None:
    index, recorded = await build_linear(is_ragsearch=numbers.endswith("ragsearch")), AUTHORS[numbers]
    assert recorded.keys() == set(QUESTIONS)
    for question, theirs in recorded.items():
        compare(await rank(index, question), theirs, 3e-6)


async def test_hippo_rag_ranks_as_its_authors_do() -> None:
    index, recorded = await build_hippo(), AUTHORS["hippo_rag"]
    assert recorded.keys() == set(QUESTIONS)
    for question, theirs in recorded.items():
        compare(await rank(index, question), theirs, 3e-6)


async def test_hyper_graph_rag_gives_the_facts_that_its_authors_do() -> None:
    """With coherences to three digits, as they give them."""
    index, recorded = await build_hyper(), AUTHORS["hyper_graph_rag"]
    assert recorded.keys() == set(QUESTIONS)
    for question, theirs in recorded.items():
        compare(await rank(index, question, by_text=True), theirs, 6e-4)


async def test_other_numbers_rank_otherwise() -> None:
    """So that what is compared could differ."""
    index = await build_linear(is_ragsearch=True)
    found = {question: await rank(index, question) for question in QUESTIONS}
    same = [
        question for question in QUESTIONS if found[question] == [(*each,) for each in AUTHORS["linear_rag"][question]]
    ]
    assert len(same) < len(QUESTIONS) / 2
