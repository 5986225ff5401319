"""Reject reflective trajectories whose "mistake" is none: the step they take back was answered rightly.

A wordy answer that holds the mended one is right too ("It was built by Volkswagen", mended to "Volkswagen"). Where the
gold decomposition is known: under the gold plan the step's own hop decides; a step of a plan that is given up must not
hold the answer of any hop that was still to be found, for then the plan was not at fault there.
"""

from __future__ import annotations

from trailforge.rewards import mentions, same_answer
from trailforge.schemas import Question, Step, Trajectory, Verdict

REASON = "undue_reflection"


def check(row: Trajectory, question: Question) -> Verdict:
    """Score: how many of the steps marked as mistakes gave a right answer."""
    undue = [
        step.answer
        for step, mended in zip(row.steps, row.steps[1:], strict=False)
        if step.is_mistake and any(_holds(step.answer, right) for right in _right_answers(row, question, step, mended))
    ]
    detail = f"{undue[0]!r} is a right answer" if undue else ""
    return Verdict(keep=not undue, reason=REASON, score=float(len(undue)), detail=detail)


def _holds(answer: str, right: str) -> bool:
    return same_answer(answer, right) or mentions(answer, right)


def _right_answers(row: Trajectory, question: Question, step: Step, mended: Step) -> list[str]:
    hops = question.decomposition
    if row.reflection_error == "decomposition":
        found = [earlier.answer for earlier in row.steps[: row.steps.index(step)]]
        left = [hop.answer for hop in hops if not any(same_answer(answer, hop.answer) for answer in found)]
        return [*left, *question.golds]
    own_hop = [hops[step.index].answer] if row.origin == "oracle" and step.index < len(hops) else []
    return [mended.answer, *own_hop]
