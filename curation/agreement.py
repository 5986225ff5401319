"""Measure how far people agree with each other, and with the filters, on whether a row is to be kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from trailforge.curation.decisions import LatestDecision

REJECTED = "rejected"
"""Name of the table of the rows that filters rejected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAgreement:
    """The agreement of two people on the rows that both decided on."""

    people: tuple[str, str]
    rows: int
    same: int
    """Number of these rows that both keep, or both reject."""
    kappa: float | None
    """Cohen's kappa: agreement beyond what their shares of rejections would give by chance, 1 at most.

    None where chance alone agrees always: both keep everything, or both reject everything.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterAgreement:
    """The agreement of one person with the filters on the rows that both judged."""

    who: str
    accepted: int
    """Number of rows that the filters had accepted and the person decided on."""
    accepted_too: int
    """Number of those that the person keeps, too."""
    rejected: int
    """Number of rows that the filters had rejected and the person decided on."""
    rejected_too: int
    """Number of those that the person rejects, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonAgreement:
    """The agreement of people on one reason to reject, over the rows that two or more decided on."""

    reason: str
    given: int
    """Number of rejections for this reason, of whatever rows."""
    pairs: int
    """Number of pairs of people on one row of whom at least one gave this reason."""
    same: int
    """Number of these pairs of whom both gave it."""
    kappa: float | None
    """Cohen's kappa of "rejected for this reason", over all pairs of people on one row; None where chance alone
    agrees always."""


def between_people(stances: Iterable[LatestDecision]) -> list[PairAgreement]:
    """Return how far every two people agree who decided on a row in common, sorted by their names."""
    of_person: dict[str, dict[tuple[str, str], bool]] = defaultdict(dict)
    for each in stances:
        of_person[each.who][each.table, each.uid] = each.is_kept
    found = []
    for one, other in combinations(sorted(of_person), 2):
        common = sorted(of_person[one].keys() & of_person[other].keys())
        if common:
            kept = [(of_person[one][row], of_person[other][row]) for row in common]
            same = sum(a == b for a, b in kept)
            found.append(PairAgreement(people=(one, other), rows=len(kept), same=same, kappa=_kappa(kept)))
    return found


def with_filters(stances: Iterable[LatestDecision]) -> list[FilterAgreement]:
    """Return how far each person, sorted by name, agrees with the filters: on rows that the filters accepted (tables),
    and on those that they rejected (`rejected/`).
    """
    counts: dict[str, Counter[tuple[bool, bool]]] = defaultdict(Counter)
    for each in stances:
        counts[each.who][each.table != REJECTED, each.is_kept] += 1
    return [
        FilterAgreement(
            who=who,
            accepted=count[True, True] + count[True, False],
            accepted_too=count[True, True],
            rejected=count[False, True] + count[False, False],
            rejected_too=count[False, False],
        )
        for who, count in sorted(counts.items())
    ]


def by_reason(stances: Iterable[LatestDecision]) -> list[ReasonAgreement]:
    """Return how far people agree on each reason that somebody gave, the most frequent reason first."""
    of_row: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in sorted(stances, key=lambda each: each.who):
        of_row[each.table, each.uid].append(each.reason)
    given = Counter(reason for reasons in of_row.values() for reason in reasons if reason)
    pairs = [pair for reasons in of_row.values() for pair in combinations(reasons, 2)]
    found = []
    for reason, count in sorted(given.items(), key=lambda item: (-item[1], item[0])):
        gave = [(one == reason, other == reason) for one, other in pairs]
        any_, both = sum(a or b for a, b in gave), sum(a and b for a, b in gave)
        kappa = _kappa(gave) if gave else None
        found.append(ReasonAgreement(reason=reason, given=count, pairs=any_, same=both, kappa=kappa))
    return found


def _kappa(kept: Sequence[tuple[bool, bool]]) -> float | None:
    """Of two people's answers row by row."""
    total = len(kept)
    ones, others = sum(a for a, _ in kept), sum(b for _, b in kept)
    by_chance = ones * others + (total - ones) * (total - others)  # in parts of total²
    if by_chance == total * total:
        return None
    return (sum(a == b for a, b in kept) * total - by_chance) / (total * total - by_chance)
