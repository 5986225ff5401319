"""Reject trajectories that reach the right answer over a wrong intermediate one.

Where the gold decomposition is known, every accepted answer before the last has to be the answer of a gold hop, each
of another one.
`scope` says for which plans: those made from the gold decomposition (`oracle`), those from code rules too
(`oracle_and_rule`), or none: a policy model may take another road to the answer, over other facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from trailforge.rewards import same_answer
from trailforge.schemas import Question, Trajectory, Verdict

REASON = "wrong_intermediate"
Scope = Literal["off", "oracle", "oracle_and_rule"]

_ORIGINS: dict[Scope, tuple[str, ...]] = {
    "off": (),
    "oracle": ("oracle",),
    "oracle_and_rule": ("oracle", "rule"),
}


def check(row: Trajectory, question: Question, *, scope: Scope) -> Verdict:
    """Score: how many accepted intermediate answers match no gold hop."""
    wrong: list[str] = []
    if question.decomposition and row.origin in _ORIGINS[scope]:
        accepted = [step.answer for step in row.steps if not step.is_mistake]
        wrong = _without_hop(accepted[:-1], question)
    detail = f"{wrong[0]!r} is the answer of no gold hop, or of one found before" if wrong else ""
    return Verdict(keep=not wrong, reason=REASON, score=float(len(wrong)), detail=detail)


def _without_hop(answers: Sequence[str], question: Question) -> list[str]:
    """Answers that no hop is left for."""
    left = [(hop.answer,) for hop in question.decomposition[:-1]] + [question.golds]
    wrong = []
    for answer in answers:
        hop = next((hop for hop in left if any(same_answer(answer, gold) for gold in hop)), None)
        if hop is None:
            wrong.append(answer)
        else:
            left.remove(hop)
    return wrong
