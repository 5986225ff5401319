"""Scripted agents of known strength over the world: what they are worth and what goes wrong is known beforehand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.agent_episodes import guess_wrong, play, row
from tests.support.world import question
from trailforge.evaluation.agents import AgentRun
from trailforge.evaluation.results.compare import compare_episodes
from trailforge.evaluation.results.metrics import EpisodeSummary, summarize
from trailforge.schemas import Question, read_parquet, write_parquet
from trailforge.schemas.agent_episode import AgentEpisode

QUESTIONS = [question(number, hops=2 + number % 2) for number in range(30)]
SEARCHES = sum(len(each.decomposition) for each in QUESTIONS) / 30

Plays = Callable[[int, Question], AgentRun]
"""Number of a question with its seed, and the question."""


def episodes(plays: Plays, seeds: int = 1) -> list[AgentEpisode]:
    return [row(each, plays(n + seed, each), seed=seed) for seed in range(seeds) for n, each in enumerate(QUESTIONS)]


def perfect(_: int, asked: Question) -> AgentRun:
    return asyncio.run(play(asked))


def misreads_one_in_three(number: int, asked: Question) -> AgentRun:
    return asyncio.run(play(asked, misreads=number % 3 == 0))


def never_searches(_: int, asked: Question) -> AgentRun:
    return asyncio.run(play(asked, guess=guess_wrong(asked)))


def knows_by_heart(_: int, asked: Question) -> AgentRun:
    return asyncio.run(play(asked, guess=asked.answer))


def stops_early(_: int, asked: Question) -> AgentRun:
    return asyncio.run(play(asked, hops=1))


def means(summary: EpisodeSummary, *names: str) -> list[float]:
    spreads = [summary.measures[name] for name in names]
    return [spread.mean for spread in spreads if spread is not None]


ANSWER = ("contain_em", "f1", "exact_match", "right")


def test_a_perfect_agent_has_full_marks_and_no_tag() -> None:
    summary = summarize(episodes(perfect))
    assert means(summary, *ANSWER, "supporting_recall", "answered") == [1.0] * 6
    assert means(summary, "searches", "turns", "answer_words") == [SEARCHES, SEARCHES + 1, 1.0]
    assert (summary.failures, summary.stops, summary.pass_at) == ({}, {"answered": 30}, {1: 1.0})


def test_an_agent_that_misreads_one_in_three_is_right_in_two_and_tagged_in_the_others() -> None:
    rows = episodes(misreads_one_in_three)
    summary = summarize(rows)
    assert means(summary, *ANSWER) == pytest.approx([2 / 3] * 4)
    assert means(summary, "supporting_recall", "searches") == [1.0, SEARCHES]
    assert summary.failures == {"misread": 10}
    assert [each.failures for each in rows] == [("misread",) if n % 3 == 0 else () for n in range(30)]


def test_over_three_seeds_each_of_its_questions_is_right_twice() -> None:
    rows = episodes(misreads_one_in_three, seeds=3)
    summary = summarize(rows)
    spread = summary.measures["contain_em"]
    assert spread is not None and spread.mean == pytest.approx(2 / 3)
    assert spread.variance == pytest.approx(0.0)  # ten of thirty are misread with every seed
    assert (summary.episodes, summary.questions, summary.seeds) == (90, 30, 3)
    assert summary.pass_at == pytest.approx({1: 2 / 3, 2: 1.0, 3: 1.0})


def test_an_agent_that_never_searches_is_tagged_whether_it_is_right_or_not() -> None:
    for plays, right in ((never_searches, 0.0), (knows_by_heart, 1.0)):
        summary = summarize(episodes(plays))
        assert means(summary, *ANSWER) == [right] * 4
        assert means(summary, "supporting_recall", "searches") == [0.0, 0.0]
        assert summary.failures == {"no_search": 30}


def test_an_agent_that_stops_early_has_found_the_first_hop_alone() -> None:
    rows = episodes(stops_early)
    summary = summarize(rows)
    assert means(summary, *ANSWER) == [0.0] * 4
    recall = sum(1 / len(each.decomposition) for each in QUESTIONS) / 30
    assert means(summary, "supporting_recall", "searches") == pytest.approx([recall, 1.0])
    assert summary.failures == {"stopped_early": 30}
    assert all(each.scores.found_at == (0, *[None] * (len(each.scores.found_at) - 1)) for each in rows)


def test_an_agent_that_searches_on_for_the_first_hop_misses_the_second() -> None:
    def turns_in_circles(_: int, asked: Question) -> AgentRun:
        run = asyncio.run(play(asked, hops=1))
        return AgentRun(answer="", stop="too_many_turns", messages=run.messages, searches=run.searches * 3)

    assert summarize(episodes(turns_in_circles)).failures == {"miss_at_hop_2": 30, "stopped_late": 30}


def test_the_weaker_agent_loses_by_what_it_misreads() -> None:
    comparison = compare_episodes(episodes(misreads_one_in_three), episodes(perfect))
    won = comparison.differences["contain_em"]
    assert (won.questions, won.second, won.difference) == (30, 1.0, pytest.approx(1 / 3))
    assert 0 < won.low < 1 / 3 < won.high < 0.6
    tested = comparison.right
    assert (tested.both, tested.only_first, tested.only_second, tested.neither) == (20, 0, 10, 0)
    assert tested.exact == 2 / 2**10
    same = comparison.differences["supporting_recall"]
    assert (same.difference, same.low, same.high) == (0.0, 0.0, 0.0)


def test_rows_survive_parquet(tmp_path: Path) -> None:
    rows = [*episodes(stops_early), *episodes(perfect)]
    write_parquet(tmp_path / "rows.parquet", AgentEpisode, rows)
    assert read_parquet(tmp_path / "rows.parquet", AgentEpisode) == rows
