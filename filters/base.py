"""What filters of several records share: verdicts from a list of faults, and the rules that read alike everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from trailforge.rewards import mentions, normalize_answer
from trailforge.schemas import Verdict

T = TypeVar("T")

_NEVER_QUOTED = {"yes", "no"}


def first_rejection(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The first verdict that says no; None when all keep the row."""
    return next((verdict for verdict in verdicts if not verdict.keep), None)


def count_faults(reason: str, faults: Sequence[T], describe: Callable[[T], str]) -> Verdict:
    """Any fault rejects. Score: how many there are; the detail describes the first."""
    detail = describe(faults[0]) if faults else ""
    return Verdict(keep=not faults, reason=reason, score=float(len(faults)), detail=detail)


def reject_low_reward(total: float, least: float, parts: str) -> Verdict:
    """`low_reward`: a total below `least` rejects. Score: the total. `parts`: what it is made of, for the detail."""
    detail = "" if total >= least else f"{total:g} is below {least:g} ({parts})"
    return Verdict(keep=total >= least, reason="low_reward", score=total, detail=detail)


async def reject_known(
    draw: Callable[[int], Awaitable[str | None]],
    samples: int,
    *,
    is_right: Callable[[str], bool],
    closeness: Callable[[str], float],
) -> Verdict:
    """`closed_book`: one right answer among so many draws from memory rejects. Score: how near the best of them comes.

    A draw that was cut (None) says neither; when all of them were, nobody knows, and the question is not taken.
    """
    draws = await asyncio.gather(*map(draw, range(samples)))
    answers = [answer for answer in draws if answer is not None]
    if draws and not answers:
        detail = f"no verdict: all {samples} draws were cut"
        return Verdict(keep=False, reason="closed_book", score=0.0, detail=detail)
    hits = [answer for answer in answers if is_right(answer)]
    detail = f"{len(hits)} of {len(answers)} draws know it, as {hits[0]!r}" if hits else ""
    score = max(map(closeness, answers), default=0.0)
    return Verdict(keep=not hits, reason="closed_book", score=round(score, 6), detail=detail)


def mentions_any(text: str, golds: Iterable[str]) -> bool:
    """Does a text mention one of the gold answers?"""
    return any(mentions(text, gold) for gold in golds)


def is_never_quoted(answer: str) -> bool:
    """Yes and no: no text has to say them."""
    return normalize_answer(answer) in _NEVER_QUOTED
