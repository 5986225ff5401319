"""Reject guided episodes that ask the graph for another relation than the one by which it gives the gold answer.

What they answer may stand in the documents all the same; the request would be learned with it.
"""

from __future__ import annotations

from trailforge.rewards import mentions
from trailforge.schemas import KgStep, KgTrajectory, KgTriple, Verdict

REASON = "unfitting_relation"


def check(row: KgTrajectory) -> Verdict:
    """Score: how many searches ask so. Free episodes follow no gold hops, and are not asked."""
    unfitting = unfitting_steps(row)
    detail = ""
    if unfitting:
        step, fitting = unfitting[0]
        detail = f"{step.query!r} asks for {', '.join(step.phrases)}; the graph says it by {fitting.relation_label}"
    return Verdict(keep=not unfitting, reason=REASON, score=float(len(unfitting)), detail=detail)


def unfitting_steps(row: KgTrajectory) -> list[tuple[KgStep, KgTriple]]:
    """Searches that were offered the gold answer, but by no relation that they ask for; each with a triple of it."""
    asked = zip(row.steps, row.gold_hops, strict=False) if row.plan else ()
    giving = [(step, _giving(step, hop.answer)) for step, hop in asked if step.relations]
    return [(step, triples[0]) for step, triples in giving if triples and not _has_asked(step, triples)]


def _giving(step: KgStep, answer: str) -> list[KgTriple]:
    """The offered triples that say it of what was searched for."""
    searched = {link.entity_id for link in step.entities if link.is_searched}
    ends = ((t, ((t.head, t.head_label), (t.tail, t.tail_label))) for t in step.triples_offered)
    return [t for t, both in ends if any(key not in searched and mentions(label, answer) for key, label in both)]


def _has_asked(step: KgStep, triples: list[KgTriple]) -> bool:
    asked = {link.relation_id for link in step.relations}
    return any(triple.relation in asked for triple in triples)
