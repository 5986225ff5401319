"""Reject trajectories with a step that finds what it was given: "Who is Chinua Achebe born?", Chinua Achebe.

Such a step only repeats the answer that it refers to; the plan behind it asks for nothing there. A choice between the
things named ("Which is older, #1 or #2?") is no such step.
"""

from __future__ import annotations

import re

from trailforge.rewards import normalize_answer
from trailforge.schemas import Step, Trajectory, Verdict

REASON = "circular_step"
_REFERENCE = re.compile(r"#(\d{1,9})")  # as in `mcts.plan`
_CHOICE = re.compile(r"\bor\b|\bbetween\b|#\d+.*#\d+", re.IGNORECASE)


def check(row: Trajectory) -> Verdict:
    """Score: how many accepted steps answer with an answer that they refer to."""
    accepted = [step for step in row.steps if not step.is_mistake]
    answers = {step.index: step.answer for step in accepted}
    circular = [step for step in accepted if _repeats(step, answers)]
    detail = f"{circular[0].query!r} is answered with {circular[0].answer!r}" if circular else ""
    return Verdict(keep=not circular, reason=REASON, score=float(len(circular)), detail=detail)


def _repeats(step: Step, answers: dict[int, str]) -> bool:
    if _CHOICE.search(step.sub_question):
        return False
    given = {normalize_answer(answers.get(int(number) - 1, "")) for number in _REFERENCE.findall(step.sub_question)}
    return normalize_answer(step.answer) in given - {""}
