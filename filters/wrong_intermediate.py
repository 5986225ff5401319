"""Reject trajectories that reach the right answer over a wrong intermediate one.

Where the gold decomposition is known, every accepted answer before the last has to be the answer of a gold hop.
`scope` says for which plans: those made from the gold decomposition (`oracle`), those from code rules too
(`oracle_and_rule`), or none: a policy model may take another road to the answer, over other facts.
"""

from __future__ import annotations

from typing import Literal

from rewards import same_answer
from schemas import Question, Trajectory, Verdict

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
        wrong = [answer for answer in accepted[:-1] if not _is_gold(answer, question)]
    detail = f"{wrong[0]!r} is the answer of no gold hop" if wrong else ""
    return Verdict(keep=not wrong, reason=REASON, score=float(len(wrong)), detail=detail)


def _is_gold(answer: str, question: Question) -> bool:
    golds = [hop.answer for hop in question.decomposition] + list(question.golds)
    return any(same_answer(answer, gold) for gold in golds)
