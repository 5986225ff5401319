"""Make the table of an evaluation: the scores of every agent over every back end, and what they cost.

table = read_table(folder)
table.rows[0]            the best one
table.missing            what the grid still lacks, a line each
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, variance
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from trailforge.evaluation.folder import BackendChoice, Evaluation, lighten, read_episodes, read_evaluation
from trailforge.evaluation.prices import mean_cost
from trailforge.evaluation.results.compare import average_ranks, bootstrap_mean
from trailforge.evaluation.results.metrics import (
    MEASURES,
    Choice,
    EpisodeSummary,
    Spread,
    by_choice,
    by_question,
    mean_chance,
    measure_spread,
    summarize,
)
from trailforge.schemas import AgentEpisode

RESAMPLES = 2_000
"""Resamples for each interval. A table has hundreds of intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEstimate:
    """The estimate of one measure for one agent over one back end, with its interval."""

    mean: float
    low: float
    """Lower end of the 95 % interval of the mean, for questions drawn anew."""
    high: float
    variance: float | None
    """Unbiased variance of the means of the seeds; None: there is but one seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TagShare:
    """The share of the episodes that have a tag, or ended in one way."""

    name: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionScores:
    """Scores on questions with options of one kind, beside the expected score of guessing
    (`rewards.chance_of_choice`).
    """

    choice: Choice
    questions: int
    exact_match: CellEstimate
    """Share of answers that choose exactly the correct options."""
    exact_match_chance: float
    f1: CellEstimate
    """F1 of the sets of chosen and correct options."""
    f1_chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A row of `table.parquet`: one agent over one back end with one model. `LEGEND` explains its columns."""

    STORED_AS: ClassVar[str] = "EvaluationTableRow"
    SCHEMA_VERSION: ClassVar[str] = "1.1"

    agent: str
    backend: str
    index: str
    model: str
    questions: int
    seeds: int
    episodes: int
    expected: int
    failed: int
    contain_em: CellEstimate
    f1: CellEstimate
    exact_match: CellEstimate
    right: CellEstimate
    judge: CellEstimate | None
    supporting_recall: CellEstimate | None
    answer_in_text: CellEstimate | None = None
    options: tuple[OptionScores, ...] = ()
    pass_at: tuple[float, ...]
    searches: float
    turns: float
    calls: float
    context_tokens: float
    prompt_tokens: float
    completion_tokens: float
    answer_words: float | None
    seconds: float | None
    seconds_p50: float | None
    seconds_p90: float | None
    search_seconds: float
    cost: float | None
    hours_per_million: float | None
    cost_per_million: float | None
    build_hours: float | None
    build_cost: float | None
    agent_rank: float | None
    backend_rank: float | None
    failures: tuple[TagShare, ...]
    stops: tuple[TagShare, ...]
    schema_version: str = SCHEMA_VERSION

    @property
    def is_finished(self) -> bool:
        """Tell whether every question has its episode with every seed."""
        return self.episodes >= self.expected

    @property
    def name(self) -> str:
        """Return the name of the cell, as it is shown to people."""
        return f"{self.agent} over {self.backend}"


LEGEND: Mapping[str, str] = MappingProxyType(
    {
        "agent": "How it answers: the agent, by name.",
        "backend": "What it searches with.",
        "model": "Who writes its turns.",
        "questions": "Questions with an episode.",
        "seeds": "Seeds with an episode.",
        "episodes": "Episodes that are done; one is a question with a seed.",
        "failed": "Episodes in which a tool or the model failed. They count as wrong.",
        "contain_em": "A gold answer stands somewhere in the answer. Long answers gain by it.",
        "f1": "Words in common with the gold answer, both normalised. Long answers lose by it.",
        "exact_match": "The answer is a gold answer, both normalised.",
        "right": "The answer is a gold answer by our own matcher, which also knows numbers and dates.",
        "judge": "A judging model's verdict, 0 to 1.",
        "supporting_recall": "Share of the documents that the answer rests on which some search brought.",
        "answer_in_text": "Share of the questions of which some text that a search showed states the answer.",
        "options": "Of questions with options: EM and F1 of the sets of letters, beside what guessing pays.",
        "pass_at": "Odds that one of k episodes on a question is right, by our matcher or by the judge.",
        "searches": "Searches of an episode.",
        "turns": "Turns of the agent in an episode.",
        "calls": "Calls of the model in an episode, those beside the conversation too.",
        "context_tokens": "Tokens of what was retrieved and shown, of an episode, as counted (see above).",
        "prompt_tokens": "Tokens sent to the model, of an episode.",
        "completion_tokens": "Tokens that the model wrote, of an episode.",
        "answer_words": "Words of an answer, where one was given.",
        "seconds": "Seconds of an episode, from question to end, where they are known.",
        "seconds_p50": "Half of the episodes took no longer.",
        "seconds_p90": "Nine in ten episodes took no longer.",
        "search_seconds": "Seconds of an episode that its searches took.",
        "cost": "Money of an episode, each model that it asked at its own prices.",
        "hours_per_million": "Offline: hours of the build of the index per million tokens of the corpus.",
        "cost_per_million": "Offline: money for the build's model calls per million tokens of the corpus.",
        "build_hours": "Offline: hours of the build, whole.",
        "build_cost": "Offline: money for the build's model calls, whole.",
        "agent_rank": "Mean rank of the agent among the agents by contain-EM, over back ends and models; 1 is best.",
        "backend_rank": "Mean rank of the back end among the back ends by contain-EM, over agents and models.",
        "failures": "Share of the episodes with each tag of what went wrong; one may have several.",
        "stops": "Share of the episodes that ended so.",
    }
)
"""What the columns of the table mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationTable:
    """The table of an evaluation's folder so far: its rows, and what is still missing."""

    evaluation: Evaluation
    rows: tuple[TableRow, ...]
    """The rows, best first: by contain-EM, then F1."""
    missing: tuple[str, ...]
    """What the grid lacks, and what failed in it, a line each; empty: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """How much the accuracy over a back end varies with the agent, the model and the seed."""

    backend: str
    mean: float
    """Mean contain-EM over its agents and models."""
    over_seeds: float | None
    """Mean variance over seeds, over its agents and models; None: there is but one seed."""
    over_agents: float | None
    """Unbiased variance of its means over agents and models; None: there is but one of them."""
    rank: float | None
    """Mean rank among the back ends."""


def read_table(folder: Path) -> EvaluationTable:
    """Read the table of the shards that are finished. Raises what `read_evaluation` and `metrics.by_question` raise."""
    evaluation = read_evaluation(folder)
    return make_table(evaluation, map(lighten, read_episodes(folder)))


def make_table(evaluation: Evaluation, episodes: Iterable[AgentEpisode]) -> EvaluationTable:
    """Make the table of these episodes of an evaluation."""
    cells: dict[tuple[str, str, str, str], list[AgentEpisode]] = defaultdict(list)
    for each in episodes:
        cells[each.agent, each.backend, each.index, each.model].append(each)
    rows = _with_ranks([_row(evaluation, cell) for cell in cells.values()])
    rows.sort(key=lambda row: (-row.contain_em.mean, -row.f1.mean, row.agent, row.backend, row.model, row.index))
    return EvaluationTable(evaluation=evaluation, rows=tuple(rows), missing=tuple(_missing(evaluation, rows)))


def describe_malformed(rows: Iterable[TableRow]) -> list[str]:
    """Return a line for each cell in which most episodes end in an unreadable turn, since its scores measure the format
    alone.
    """
    shares = [(row, each.share) for row in rows for each in row.stops if each.name == "malformed" and each.share > 0.5]
    return [
        f"{row.name} ({row.model}): {round(share * row.episodes):,} of {row.episodes:,} episodes are malformed: these "
        "scores tell whether the model keeps the agent's format. See --kind format; take another agent, or model"
        for row, share in shares
    ]


def measure_stability(rows: Sequence[TableRow]) -> list[Stability]:
    """Measure the stability of each back end, the best rank first. Only agents and models count whose cells are
    finished over all back ends.
    """
    ranks = _ranks(rows, by_agent=False)
    shared = _shared_cells(rows, by_agent=False)
    found: list[Stability] = []
    for backend in dict.fromkeys(row.backend for row in rows):
        own = [row.contain_em for row in rows if row.backend == backend and (row.agent, row.model) in shared]
        known = [each.variance for each in own if each.variance is not None]
        if own:
            found.append(
                Stability(
                    backend=backend,
                    mean=fmean(each.mean for each in own),
                    over_seeds=fmean(known) if known else None,
                    over_agents=variance(each.mean for each in own) if len(own) > 1 else None,
                    rank=ranks.get(backend),
                )
            )
    return sorted(found, key=lambda each: (each.rank or 0.0, -each.mean, each.backend))


# A row

_ESTIMATED = ("contain_em", "f1", "exact_match", "right", "judge", "supporting_recall", "answer_in_text")
_MEANS = (
    *("searches", "turns", "calls", "context_tokens", "prompt_tokens", "completion_tokens", "answer_words"),
    *("seconds", "search_seconds"),
)
"""Columns that are the means of the measures of their names."""


def _row(evaluation: Evaluation, episodes: Sequence[AgentEpisode]) -> TableRow:
    first, summary = episodes[0], summarize(episodes)
    built = _built(evaluation, first.backend, first.index)
    took = [each.costs.seconds for each in episodes if each.costs.seconds is not None]
    p50, p90 = np.quantile(took, [0.5, 0.9]).tolist() if took else (None, None)
    means: dict[str, Any] = {name: spread and spread.mean for name, spread in summary.measures.items()}
    named: dict[str, Any] = {name: _estimate(summary, episodes, name) for name in _ESTIMATED}
    named |= {name: means[name] for name in _MEANS}
    return TableRow(
        agent=first.agent,
        backend=first.backend,
        index=first.index,
        model=first.model,
        questions=summary.questions,
        seeds=summary.seeds,
        episodes=summary.episodes,
        expected=evaluation.num_questions * len(evaluation.seeds),
        failed=summary.stops.get("failed", 0),
        options=_options(episodes),
        pass_at=tuple(summary.pass_at.values()),
        **named,
        seconds_p50=p50,
        seconds_p90=p90,
        cost=mean_cost(evaluation.prices, episodes),
        hours_per_million=built.hours_per_million if built else None,
        cost_per_million=built.cost_per_million if built else None,
        build_hours=built.build_hours if built else None,
        build_cost=built.cost if built else None,
        agent_rank=None,
        backend_rank=None,
        failures=_shares(summary.failures, summary.episodes),
        stops=_shares(summary.stops, summary.episodes),
    )


def _estimate(summary: EpisodeSummary, episodes: Sequence[AgentEpisode], measure: str) -> CellEstimate | None:
    return _interval(summary.measures[measure], episodes, measure)


def _options(episodes: Sequence[AgentEpisode]) -> tuple[OptionScores, ...]:
    """Of each kind of choice that there is."""
    found: list[OptionScores] = []
    for choice, alike in by_choice(episodes).items():
        exact, f1 = (_interval(measure_spread(alike, MEASURES[name]), alike, name) for name in ("exact_match", "f1"))
        chance, questions = mean_chance(alike), len(by_question(alike))
        assert exact is not None and f1 is not None
        scores = {"exact_match_chance": chance.exact_match, "f1_chance": chance.f1}
        found.append(OptionScores(choice=choice, questions=questions, exact_match=exact, f1=f1, **scores))
    return tuple(found)


def _interval(spread: Spread | None, episodes: Sequence[AgentEpisode], measure: str) -> CellEstimate | None:
    if spread is None:
        return None
    low, high = bootstrap_mean(episodes, MEASURES[measure], resamples=RESAMPLES)
    return CellEstimate(mean=spread.mean, low=low, high=high, variance=spread.variance)


def _built(evaluation: Evaluation, backend: str, index: str) -> BackendChoice | None:
    alike = [each for each in evaluation.backends if each.name == backend]
    return next((each for each in alike if each.index == index), alike[0] if len(alike) == 1 else None)


def _shares(counts: Mapping[str, int], episodes: int) -> tuple[TagShare, ...]:
    order = sorted(counts, key=lambda name: (-counts[name], name))
    return tuple(TagShare(name=name, share=counts[name] / episodes) for name in order)


# All rows


def _with_ranks(rows: Sequence[TableRow]) -> list[TableRow]:
    agents, backends = _ranks(rows, by_agent=True), _ranks(rows, by_agent=False)
    return [
        replace(row, agent_rank=agents.get(row.agent), backend_rank=backends.get(row.backend))
        for row in rows
    ]  # fmt: skip


def _ranks(rows: Sequence[TableRow], *, by_agent: bool) -> dict[str, float]:
    """Mean rank of each agent, or of each back end, over the cells that all of them have finished."""
    shared = _shared_cells(rows, by_agent=by_agent)
    scores: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    for row in rows:
        competitor, cell = _sides(row, by_agent)
        if cell in shared:
            scores[competitor][cell] = row.contain_em.mean
    return average_ranks(scores) if len(scores) > 1 else {}


def _shared_cells(rows: Sequence[TableRow], *, by_agent: bool) -> set[tuple[str, str]]:
    """Back ends and models (agents and models) over which all agents (back ends) have finished."""
    finished: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for row in rows:
        competitor, cell = _sides(row, by_agent)
        finished[competitor] |= {cell} if row.is_finished else set()
    return set.intersection(*finished.values()) if finished else set()


def _sides(row: TableRow, by_agent: bool) -> tuple[str, tuple[str, str]]:
    return (row.agent, (row.backend, row.model)) if by_agent else (row.backend, (row.agent, row.model))


def _missing(evaluation: Evaluation, rows: Sequence[TableRow]) -> list[str]:
    """First what was not begun, then what is not finished, then what failed."""
    begun = {(row.agent, row.backend, row.model) for row in rows}
    wanted = [
        (agent.name, backend.name, model)
        for agent in evaluation.agents
        for backend in evaluation.backends
        for model in evaluation.models
    ]
    expected = evaluation.num_questions * len(evaluation.seeds)
    lines = [
        f"{agent} over {backend} with {model}: none of {expected:,} episodes yet"
        for agent, backend, model in dict.fromkeys(wanted)
        if (agent, backend, model) not in begun
    ]
    lines += [
        f"{row.name} with {row.model}: {row.episodes:,} of {row.expected:,} episodes so far"
        for row in rows
        if not row.is_finished
    ]
    lines += [
        f"{row.name} with {row.model}: {row.failed:,} of {row.episodes:,} episodes failed and count as wrong"
        for row in rows
        if row.failed
    ]
    return lines
