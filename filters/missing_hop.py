"""Reject trajectories that leave out a hop of the gold decomposition.

Such a row answers in one step what takes two. That may well be sound, when one passage holds both facts, but the row
does not show it: the entity in between is never named, and a chain of reasoning cannot be told from a lucky guess. An
agent that is to learn to take a question apart should not see it done in one go, so fused hops are rejected too. So is
a road over other facts altogether; whoever wants those rows turns the filter off.

A hop whose answer stands in the question has nothing left to be found.
"""

from __future__ import annotations

from trailforge.rewards import mentions, same_answer
from trailforge.schemas import Question, Trajectory, Verdict

REASON = "missing_hop"


def check(row: Trajectory, question: Question) -> Verdict:
    """Score: share of the gold hops whose answer is that of an accepted step; 1.0 without a gold decomposition."""
    hops: list[tuple[str, tuple[str, ...]]] = [(hop.question, (hop.answer,)) for hop in question.decomposition[:-1]]
    hops += [(hop.question, question.golds) for hop in question.decomposition[-1:]]
    accepted = [step.answer for step in row.steps if not step.is_mistake]
    missing = [(asked, golds) for asked, golds in hops if not _is_found(golds, accepted, question.question)]
    detail = f"no step finds {missing[0][1][0]!r} ({missing[0][0]!r})" if missing else ""
    score = 1 - len(missing) / len(hops) if hops else 1.0
    return Verdict(keep=not missing, reason=REASON, score=score, detail=detail)


def _is_found(golds: tuple[str, ...], answers: list[str], question: str) -> bool:
    return any(same_answer(answer, gold) for answer in answers for gold in golds) or mentions(question, golds[0])
