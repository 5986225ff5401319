"""Searches of one length: as many passages as fit, whatever their number, and none cut but the first."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.agent_episodes import run_of
from trailforge.evaluation.agents.reading_budget import BudgetedRetriever, open_tokenizer, timing
from trailforge.evaluation.results.metrics import score_run
from trailforge.protocols.base import estimate_tokens, passage_lines
from trailforge.schemas import InvalidInput, Passage, Question


def count_words(text: str) -> int:
    return len(text.split())


def passage(number: int, words: int, kind: str = "p") -> Passage:
    return Passage(id=f"{kind}{number}", title="T", text=" ".join(["word"] * words), score=1.0 / (1 + number))


class Ranked:
    """Finds its passages in one order; of two kinds, as many of either where `reports` are given."""

    def __init__(self, passages: list[Passage], reports: list[Passage] | None = None) -> None:
        self.passages, self.reports, self.asked = passages, reports, list[int]()

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        self.asked.append(k)
        if self.reports is None:
            return self.passages[:k]
        return [*self.passages[: k - k // 2], *self.reports[: k // 2]]


def retrieve(found: Ranked, tokens: int, *, asks_once: bool = False) -> list[Passage]:
    budget = BudgetedRetriever(retriever=found, tokens=tokens, count=count_words, asks_once=asks_once)
    return asyncio.run(budget.retrieve("?", 5))


def length(passages: list[Passage]) -> int:
    return sum(map(count_words, passage_lines(passages)))


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(8, 300))
def test_of_one_order_the_longest_beginning_that_fits_is_shown(sizes: list[int], tokens: int) -> None:
    passages = [passage(number, size) for number, size in enumerate(sizes)]
    shown = retrieve(Ranked(passages), tokens)
    if passages and length(passages[:1]) > tokens:
        assert [each.id for each in shown] == ["p0"] and length(shown) <= tokens
        return
    assert shown == passages[: len(shown)] and length(shown) <= tokens
    assert len(shown) == len(passages) or length(passages[: len(shown) + 1]) > tokens


def test_kinds_of_texts_keep_their_shares() -> None:
    """A beginning of a long list would have no report in it."""
    passages, reports = ([passage(n, 18, kind) for n in range(50)] for kind in "pr")
    shown = retrieve(Ranked(passages, reports), 200)
    assert sorted(each.id for each in shown) == sorted([*(f"p{n}" for n in range(5)), *(f"r{n}" for n in range(5))])


def test_no_more_passages_are_asked_for_than_a_server_gives() -> None:
    found = Ranked([passage(n, 0) for n in range(3000)])
    assert len(retrieve(found, 100_000)) == 1000 == max(found.asked)


def test_a_search_that_costs_money_is_made_once() -> None:
    found = Ranked([passage(n, 18) for n in range(50)])
    assert len(retrieve(found, 85, asks_once=True)) == 4 and len(found.asked) == 1


def test_a_first_passage_that_is_too_long_ends_behind_a_sentence() -> None:
    long = replace(passage(0, 0), text="One two three. Four five six seven. " + "Eight nine. " * 50)
    (shown,) = retrieve(Ranked([long]), 10)
    assert shown.text == "One two three. Four five six seven. …"


def test_tokens_are_counted_by_the_tokenizer_that_is_named(tmp_path: Path) -> None:
    assert open_tokenizer("") is estimate_tokens
    pytest.importorskip("transformers")
    from tests.training.tiny import save_tiny_model

    count = open_tokenizer(str(save_tiny_model(tmp_path / "model")))
    assert count("") == 0 and 0 < count("Vienna") < count("Vienna is a city.")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="no tokenizer there"):
        open_tokenizer(str(tmp_path / "empty"))


def test_an_answer_stands_in_the_text_where_some_line_states_it() -> None:
    asked = Question(id="q", question="How many moons?", answer="two moons", answer_aliases=("2",))
    run = run_of([], "two")
    for texts, share in {(): None, ("1. (A) It has 2 moons.",): 1.0, ("1. (A) None.", "(no documents)"): 0.0}.items():
        assert score_run(asked, replace(run, shown=texts)).answer_in_text == share
    assert score_run(replace(asked, answer="yes"), replace(run, shown=("Text.",))).answer_in_text is None


class Slow(Ranked):
    """Takes so many seconds for the first search, as a model that is asked, and for each other one."""

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        await asyncio.sleep(0.05 if self.asked else 0.2)
        return await super().retrieve(query, k)


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_search_is_timed_as_one_however_often_its_length_is_tried(at_once: int) -> None:
    slow = Slow([passage(number, 10) for number in range(50)])
    fitting = BudgetedRetriever(retriever=slow, tokens=100, count=count_words)

    async def search() -> float:
        with timing() as clock:
            await asyncio.gather(*(fitting.retrieve("q", 5) for _ in range(at_once)))
        return clock.seconds

    began = time.perf_counter()
    seconds = asyncio.run(search())
    took, further = time.perf_counter() - began, len(slow.asked) // at_once - 1
    assert further > 0 and 0.19 <= seconds < took - 0.04
    assert at_once > 1 or seconds <= took - 0.049 * further


def test_a_search_without_a_budget_takes_what_it_takes() -> None:
    async def search() -> float:
        with timing() as clock:
            await Slow([]).retrieve("q", 5)
        return clock.seconds

    assert asyncio.run(search()) >= 0.2
