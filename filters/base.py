"""What filters of several records share: verdicts from a list of faults, and the rules that are the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from trailforge.rewards import mentions, other_names, same_answer
from trailforge.schemas import FilterScore, Verdict

T = TypeVar("T")


def first_rejection(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Return the first verdict that rejects; None when all keep the row."""
    return next((verdict for verdict in verdicts if not verdict.keep), None)


def scores_of(verdicts: Iterable[Verdict]) -> tuple[FilterScore, ...]:
    """Return what filters measured, as a row holds it, with the reason where a filter rejects."""
    return tuple(
        FilterScore(name=v.reason, score=v.score, passed=v.keep, reason="" if v.keep else v.detail) for v in verdicts
    )


def count_faults(reason: str, faults: Sequence[T], describe: Callable[[T], str]) -> Verdict:
    """Make a verdict that any fault rejects. Score: how many faults there are; the detail describes the first."""
    detail = describe(faults[0]) if faults else ""
    return Verdict(keep=not faults, reason=reason, score=float(len(faults)), detail=detail)


def reject_low_reward(total: float, least: float, parts: str) -> Verdict:
    """Reject a total reward below `least` as `low_reward`. Score: the total.

    `parts`: what the total is made of, for the detail.
    """
    detail = "" if total >= least else f"{total:g} is below {least:g} ({parts})"
    return Verdict(keep=total >= least, reason="low_reward", score=total, detail=detail)


def mentions_any(text: str, golds: Iterable[str]) -> bool:
    """Say whether a text mentions one of the gold answers."""
    return any(mentions(text, gold) for gold in golds)


def names_of_answer(answer: str, golds: Iterable[str]) -> tuple[str, ...]:
    """Return an answer, the gold answers that it says in other words, and the other names of each."""
    said = [answer, *(gold for gold in golds if same_answer(answer, gold))]
    return tuple(dict.fromkeys(name for each in said for name in (each, *other_names(each)) if name.strip()))
