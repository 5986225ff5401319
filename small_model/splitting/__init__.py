"""Splits and atomicity by rule, for models too small to split a question: cut out a phrase that has to be looked up.

Four stages. Names, quoted titles and `#k` are masked, so that nothing is cut inside them. Every stretch of the masked
question that one of `PATTERNS` matches as a whole is a span. `first` asks for it, `second` is the question with `[E]`
in its place; a span counts only if it reads as a noun phrase and both halves read as questions (`grammar`). Its score
is the pattern's weight, moved by what stands around and inside it. A question that the grammar cannot read is not cut.
"""

from __future__ import annotations

from functools import lru_cache

from trailforge.small_model.splitting.spans import ENTITY, spans

_GOOD_ENOUGH = 4.3
_LONGEST = 1000
"""Characters of a question that is read: the patterns take more than linear time."""


def candidate_splits(sub_question: str) -> list[tuple[str, str]]:
    """Splits (first, second), the most promising first; empty when nothing can be cut out."""
    return [split for _, split in _ranked_splits(sub_question)]


def is_decomposable(sub_question: str) -> bool:
    """Is there a split good enough to be worth two searches?"""
    return any(score >= _GOOD_ENOUGH for score, _ in _ranked_splits(sub_question)[:1])


@lru_cache(4096)
def _ranked_splits(sub_question: str) -> tuple[tuple[float, tuple[str, str]], ...]:
    """(score, split), best first."""
    question = sub_question.strip()
    if ENTITY in question or len(question) > _LONGEST:
        return ()
    if ">>" in question:
        return _relation_chain(question)
    best: dict[tuple[str, str], float] = {}
    for span in spans(question):
        split = (span.first, span.second)
        if span.score > best.get(split, 0.0):
            best[split] = span.score
    return tuple(sorted(((score, split) for split, score in best.items()), key=lambda item: -item[0]))


def _relation_chain(question: str) -> tuple[tuple[float, tuple[str, str]], ...]:
    """`A >> r1 >> r2`: the first hop, then the others. A single hop is atomic."""
    subject, *relations = (part.strip() for part in question.split(">>"))
    if len(relations) < 2 or not subject or not all(relations):
        return ()
    split = (f"{subject} >> {relations[0]}", " >> ".join((ENTITY, *relations[1:])))
    return ((_GOOD_ENOUGH, split),)
