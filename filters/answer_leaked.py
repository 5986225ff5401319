"""Reject trajectories in which the agent writes the gold answer before it has found it.

The agent's own words count (plans, sub-questions, queries, earlier answers), not the passages; nothing counts as
leaked that stands in the question.
"""

from __future__ import annotations

from collections.abc import Iterator

from trailforge.rewards import mentions
from trailforge.schemas import Trajectory, Verdict

REASON = "answer_leaked"


def check(row: Trajectory) -> Verdict:
    """Score: how many texts mention a gold answer too early."""
    golds = [g for g in (row.answer, *row.answer_aliases) if not mentions(row.question, g)]
    leaks = [text for text in _texts_before_finding(row, golds) if _mentions_any(text, golds)]
    detail = f"too early in {leaks[0]!r}" if leaks else ""
    return Verdict(keep=not leaks, reason=REASON, score=float(len(leaks)), detail=detail)


def _texts_before_finding(row: Trajectory, golds: list[str]) -> Iterator[str]:
    """The plans, and sub-question and query of each step up to the one whose answer mentions a gold answer."""
    yield from row.plan
    yield from row.wrong_plan or ()
    for step in row.steps:
        yield step.sub_question
        yield step.query
        if step.is_mistake:
            yield step.answer
        elif _mentions_any(step.answer, golds):
            return


def _mentions_any(text: str, golds: list[str]) -> bool:
    return any(mentions(text, gold) for gold in golds)
