"""Compare two runs over the same questions: by how much their measures differ, and whether that could be chance.

comparison = compare(first, second)
comparison.differences["contain_em"].low > 0     the second is better
average_ranks({"dense": {"nq": .38, "musique": .13}, …})     which is best over all cells
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TypeVar

import numpy as np

from trailforge.evaluation.folder import read_episodes, read_evaluation
from trailforge.evaluation.results.failures import is_right
from trailforge.evaluation.results.metrics import MEASURES, OF_PAGES, Measure, by_question
from trailforge.schemas import AgentEpisode, InvalidInput

Competitor = TypeVar("Competitor", bound=Hashable)
Cell = TypeVar("Cell", bound=Hashable)

_DRAWS_AT_ONCE = 2_000_000
"""Of the bootstrap: 16 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference of one measure between two runs, over the questions for which both know it."""

    questions: int
    first: float
    second: float
    difference: float
    """The second run's mean less the first run's."""
    low: float
    """Lower end of the interval around the difference."""
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class McNemar:
    """Counts of right and wrong answers of two runs on the same questions, with the test that the runs are equally
    good.
    """

    both: int
    """Number of questions that both runs get right."""
    only_first: int
    only_second: int
    neither: int
    exact: float
    """Two-sided p of the binomial test on the questions that one run alone gets right."""
    statistic: float
    """Chi-squared with the correction for continuity (Edwards, 1948), one degree of freedom."""
    corrected: float
    """The p of `statistic`, an approximation: with less than 25 questions that one run alone gets right, take
    `exact`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A comparison of two runs. Only questions that are in both are compared."""

    questions: int
    only_in_first: tuple[str, ...]
    """Questions that only the first run has, as `DATASET:ID`."""
    only_in_second: tuple[str, ...]
    seeds_only_in_first: tuple[int, ...]
    seeds_only_in_second: tuple[int, ...]
    differences: Mapping[str, Difference]
    """The difference of the two runs in each measure, by its name."""
    not_compared: tuple[str, ...]
    """Names of the measures that both runs know for no question."""
    right: McNemar


def compare_episodes(
    first: Sequence[AgentEpisode],
    second: Sequence[AgentEpisode],
    *,
    measures: Mapping[str, Measure] = MEASURES,
    resamples: int = 10_000,
) -> Comparison:
    """Compare two runs, each of one agent over one back end with one model.

    A question counts once, by the mean of its episodes over all seeds, and as right when most of them are. Raises
    `InvalidInput` where no question is in both or one id has two questions, and what `metrics.by_question` raises.
    """
    left, right = by_question(first), by_question(second)
    names = [name for name in left if name in right]
    if not names:
        raise InvalidInput("the two runs have no question in common; compare runs over the same questions")
    for name in names:
        if left[name][0].question != right[name][0].question:
            raise InvalidInput(f"{name} is another question in each run; compare runs over the same questions")
    if not any(each.browse for each in (*first, *second)):
        measures = {label: measure for label, measure in measures.items() if label not in OF_PAGES}
    differences: dict[str, Difference] = {}
    for label, measure in measures.items():
        pairs = [(mean_of(left[name], measure), mean_of(right[name], measure)) for name in names]
        known = [(one, other) for one, other in pairs if one is not None and other is not None]
        if known:
            differences[label] = _differ(known, resamples)
    seeds = [{episode.seed for name in names for episode in run[name]} for run in (left, right)]
    return Comparison(
        questions=len(names),
        only_in_first=tuple(name for name in left if name not in right),
        only_in_second=tuple(name for name in right if name not in left),
        seeds_only_in_first=tuple(sorted(seeds[0] - seeds[1])),
        seeds_only_in_second=tuple(sorted(seeds[1] - seeds[0])),
        differences=differences,
        not_compared=tuple(label for label in measures if label not in differences),
        right=mcnemar([(_is_mostly_right(left[name]), _is_mostly_right(right[name])) for name in names]),
    )


def bootstrap_mean(
    episodes: Sequence[AgentEpisode], measure: Measure, *, resamples: int = 10_000
) -> tuple[float, float]:
    """Return a bootstrap percentile interval of a measure's mean; questions are resampled, each by the mean of its
    episodes. Raises `ValueError` where the measure is known for no episode, and what `metrics.by_question` raises.
    """
    means = [mean_of(alike, measure) for alike in by_question(episodes).values()]
    return paired_bootstrap([value for value in means if value is not None], resamples=resamples)


def paired_bootstrap(
    differences: Sequence[float], *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Return a bootstrap percentile interval of the mean of paired differences, one for each question. Raises
    `ValueError` without differences.
    """
    if not differences:
        raise ValueError("no differences")
    values, generator = np.asarray(differences, dtype=float), np.random.default_rng(seed)
    means: list[float] = []
    while len(means) < resamples:
        rows = min(resamples - len(means), max(1, _DRAWS_AT_ONCE // len(values)))
        means += values[generator.integers(0, len(values), (rows, len(values)))].mean(axis=1).tolist()
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def mcnemar(pairs: Sequence[tuple[bool, bool]]) -> McNemar:
    """Run McNemar's test on pairs that say whether the first and whether the second run is right."""
    only_first = sum(one and not other for one, other in pairs)
    only_second = sum(other and not one for one, other in pairs)
    both = sum(one and other for one, other in pairs)
    unlike = only_first + only_second
    statistic = max(abs(only_first - only_second) - 1, 0) ** 2 / unlike if unlike else 0.0
    return McNemar(
        both=both,
        only_first=only_first,
        only_second=only_second,
        neither=len(pairs) - both - unlike,
        exact=_binomial_p(min(only_first, only_second), unlike),
        statistic=statistic,
        corrected=math.erfc(math.sqrt(statistic / 2)),
    )


def _binomial_p(fewer: int, tosses: int) -> float:
    """Two-sided p of so few heads of a fair coin, in whole numbers until the last division."""
    term = total = 1
    for heads in range(1, fewer + 1):
        term = term * (tosses - heads + 1) // heads
        total += term
    return min(1.0, 2 * total / 2**tosses)


def _differ(pairs: Sequence[tuple[float, float]], resamples: int) -> Difference:
    differences = [other - one for one, other in pairs]
    low, high = paired_bootstrap(differences, resamples=resamples)
    return Difference(
        questions=len(pairs),
        first=fmean(one for one, _ in pairs),
        second=fmean(other for _, other in pairs),
        difference=fmean(differences),
        low=low,
        high=high,
    )


def mean_of(episodes: Sequence[AgentEpisode], measure: Measure) -> float | None:
    """Return the mean of the episodes for which the measure is known; None where it is known for none."""
    values = [value for each in episodes if (value := measure(each)) is not None]
    return fmean(values) if values else None


def _is_mostly_right(episodes: Sequence[AgentEpisode]) -> bool:
    return 2 * sum(is_right(each.scores) for each in episodes) > len(episodes)


def average_ranks(scores: Mapping[Competitor, Mapping[Cell, float]]) -> dict[Competitor, float]:
    """Return the mean rank of each competitor over the cells; 1.0 for one that has the highest score in all.

    Competitors that tie in a cell share the mean of their ranks. Raises `InvalidInput` for one that lacks a cell which
    another has, since such ranks do not compare.
    """
    cells = list(dict.fromkeys(cell for of in scores.values() for cell in of))
    for competitor, of in scores.items():
        if lacking := [cell for cell in cells if cell not in of]:
            raise InvalidInput(f"{competitor} has no score in {', '.join(map(str, lacking))}; rank those that have all")
    ranks: dict[Competitor, list[float]] = {competitor: [] for competitor in scores}
    for cell in cells:
        row = {competitor: of[cell] for competitor, of in scores.items()}
        for competitor, value in row.items():
            better, alike = sum(other > value for other in row.values()), sum(other == value for other in row.values())
            ranks[competitor].append(better + (alike + 1) / 2)
    return {competitor: fmean(places) for competitor, places in ranks.items() if places}


# Two of what is on disk

CellKey = tuple[str, str, str]
"""The key of a cell: agent, back end and model."""
_KEYS = ("agent", "backend", "model")


def read_cells(text: str) -> dict[CellKey, list[AgentEpisode]]:
    """Read the episodes of `FOLDER`, or of `FOLDER#agent=NAME,backend=NAME,model=NAME,seed=N` (any of these), by cell.

    Raises `InvalidInput` for a folder that is no evaluation, and where no episode matches.
    """
    place, _, filters = text.partition("#")
    wanted: dict[str, str] = {}
    for each in filter(None, filters.split(",")):
        name, equals, value = each.partition("=")
        if not equals or name not in (*_KEYS, "seed"):
            raise InvalidInput(f"{each!r}: expected FOLDER#agent=…,backend=…,model=…,seed=…", field=text)
        wanted[name] = value
    read_evaluation(Path(place))
    cells: dict[CellKey, list[AgentEpisode]] = {}
    known: set[CellKey] = set()
    for episode in read_episodes(Path(place)):
        key = (episode.agent, episode.backend, episode.model)
        known.add(key)
        if all(str(getattr(episode, name)) == value for name, value in wanted.items()):
            cells.setdefault(key, []).append(episode)
    if not cells:
        there = "; ".join(",".join(map("=".join, zip(_KEYS, key, strict=True))) for key in sorted(known))
        raise InvalidInput(f"has no episodes of {filters or 'any cell'}; there are {there or 'none'}", file=place)
    return cells


def pair_cells(
    first: Mapping[CellKey, Sequence[AgentEpisode]], second: Mapping[CellKey, Sequence[AgentEpisode]]
) -> list[tuple[CellKey, CellKey]]:
    """Pair the cells to compare: the only cell of each side, or else those with the same agent and back end, and the
    same model where there are several. Raises `InvalidInput` when there is no pair.
    """
    if len(first) == len(second) == 1:
        return [(next(iter(first)), next(iter(second)))]
    is_by_model = any(len({key[2] for key in cells}) > 1 for cells in (first, second))
    pairs = [
        (one, other) for one in first for other in second if one[:2] == other[:2] and not (is_by_model and one != other)
    ]
    if not pairs:
        raise InvalidInput("the two have no agent over a back end in common; name one cell of each: DIR#agent=…")
    return pairs
