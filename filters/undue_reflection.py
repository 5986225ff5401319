"""Reject reflective trajectories whose "mistake" is none: the step they take back was answered rightly.

Only where the gold decomposition is known. Under the gold plan the step's own hop decides; a step of a plan that is
given up must not hold the answer of any hop, for then the plan was not at fault there.
"""

from __future__ import annotations

from rewards import same_answer
from schemas import Question, Step, Trajectory, Verdict

REASON = "undue_reflection"


def check(row: Trajectory, question: Question) -> Verdict:
    """Score: how many of the steps marked as mistakes gave a right answer."""
    mistakes = [step for step in row.steps if step.is_mistake]
    undue = [
        step.answer
        for step in mistakes
        if any(same_answer(step.answer, gold) for gold in _right_answers(row, question, step))
    ]
    detail = f"{undue[0]!r} is a right answer" if undue else ""
    return Verdict(keep=not undue, reason=REASON, score=float(len(undue)), detail=detail)


def _right_answers(row: Trajectory, question: Question, step: Step) -> list[str]:
    hops = question.decomposition
    if row.reflection_error == "decomposition":
        return [hop.answer for hop in hops] + list(question.golds)
    if row.origin == "oracle" and step.index < len(hops):
        return [hops[step.index].answer]
    return []
