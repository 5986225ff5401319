"""Reasons to reject a bundle's question because it duplicates another: both ask the same, find out the same, or rest on
the same fact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, permutations
from typing import TYPE_CHECKING

from trailforge.retrieval import ngrams_of
from trailforge.rewards import cover_exact_match, f1, mentions, normalize_answer
from trailforge.schemas import BundleHop, BundleQuestion, Verdict

if TYPE_CHECKING:
    import numpy as np

_CAUSE_AGREES = 0.5
"""F1 from which two explanations are taken for the same: all that is asked here is whether two questions are twins."""
_SAME_WORDS = 6
"""Words in a row by which two quotes tell the same; a sentence often tells two things, each in a part of it."""
_HAS_WORD = re.compile(r"[^\W\d_]{3}")
_MARKED = re.compile(r"\b(?=\w*[A-Z\d])\w{3,}\b")
"""A word with a capital or a figure."""


def duplicate_question(row: BundleQuestion, vector: np.ndarray, earlier: Sequence[BundleQuestion], vectors: np.ndarray,
                       *, most_alike: float) -> Verdict:  # fmt: skip
    """Reject a question that asks what an accepted one asks already, in the same words or others, or that finds out the
    same.

    Score: cosine with its twin, 1 for the same words, or with the nearest accepted question when it has no twin;
    `vectors`: those of the accepted questions, of length 1, shape (len(earlier), dim).

    The same words are one question whatever the vectors say. With other words a twin has the same answer, and is as
    near as `most_alike` or ends on the same evidence: by its vector `Where was X born?` is `In which year was X born?`.
    Two open questions of one bundle that go over one bridge are twins, too, whatever they ask for at its ends.
    """
    if not earlier:
        return Verdict(keep=True, reason="duplicate_question", score=0.0)
    cosines = vectors @ vector
    words = normalize_answer(row.question)
    twin, score = next((e for e in earlier if normalize_answer(e.question) == words), None), 1.0
    for place in () if twin else (-cosines).argsort(kind="stable"):
        other = earlier[place]
        is_twin = (cosines[place] >= most_alike or _ends_alike(row, other)) and is_same_answer(row, other)
        if is_twin or has_same_bridge(row, other):
            twin, score = other, float(cosines[place])
            break
    if twin is None:
        return Verdict(keep=True, reason="duplicate_question", score=round(float(cosines.max()), 6))
    detail = f"as {twin.uid}: {twin.question!r}"
    return Verdict(keep=False, reason="duplicate_question", score=round(score, 6), detail=detail)


def has_same_bridge(row: BundleQuestion, other: BundleQuestion) -> bool:
    """Tell whether two chains of one bundle join their documents by the same thing, perhaps with the documents' roles
    exchanged.

    That thing is what the quotes of a question's hops have in common and the question does not mention. Where one
    document names a benchmark and the other gives its figure, both questions hold everything but the benchmark's name.
    """
    if row.bundle_id != other.bundle_id or not (row.dag_edges and other.dag_edges):
        return False
    if {hop.document_id for hop in row.hops} != {hop.document_id for hop in other.hops}:
        return False
    return bool(_bridge_of(row) & _bridge_of(other))


def used_fact(row: BundleQuestion, accepted: Sequence[BundleQuestion]) -> Verdict:
    """Reject a question when an accepted one of its bundle rests on the same words of a document.

    Score: the number of its quotes that share words with a quote of the accepted question (of the one with most).
    """
    shared = [(sum(_is_quoted(hop, other) for hop in row.hops), other.uid) for other in accepted]
    count, uid = max(shared, default=(0, ""))
    detail = f"{uid} rests on the same words" if count else ""
    return Verdict(keep=not count, reason="used_fact", score=float(count), detail=detail)


def sibling_answer(row: BundleQuestion, accepted: Sequence[BundleQuestion]) -> Verdict:
    """Reject a question that says the answer of an accepted one of its bundle, or whose answer an accepted one says.

    Whoever is trained on one of the two questions knows the answer to the other. Score: the number of such accepted
    questions. Figures count only with words: another `12` may stand anywhere.
    """
    told = [each.uid for each in accepted if _says_answer(row, each) or _says_answer(each, row)]
    detail = f"it or {told[0]} says the other's answer" if told else ""
    return Verdict(keep=not told, reason="sibling_answer", score=float(len(told)), detail=detail)


def is_same_answer(row: BundleQuestion, other: BundleQuestion) -> bool:
    """Tell whether two questions have the same answer: one answer contains the other in whole words. An answer longer
    than a fact does not count.
    """
    if "factual" not in (row.type, other.type) and f1(row.answer, [other.answer]) >= _CAUSE_AGREES:
        return True
    answers = permutations((row.answer, other.answer))
    return any(cover_exact_match(one, [asked], word_boundary=True) > 0 for one, asked in answers)


def _says_answer(row: BundleQuestion, other: BundleQuestion) -> bool:
    """Does a question say the short answer of another one, where that has a word?"""
    golds = (other.answer, *other.aliases) if other.type == "factual" else ()
    return any(mentions(row.question, gold) for gold in golds if _HAS_WORD.search(gold))


def _bridge_of(row: BundleQuestion) -> set[str]:
    """Words of two hops' evidence of different documents, and not of the question or its answer."""
    said = {hop.document_id: _bridge_words(hop.evidence) for hop in row.hops}
    shared = {word for one, two in combinations(said.values(), 2) for word in one & two}
    return shared - _bridge_words(f"{row.question} {row.answer}")


def _bridge_words(text: str) -> set[str]:
    """Names and figures: other words stand in any two quotes of a subject."""
    return {word.casefold() for word in _MARKED.findall(text)}


def _ends_alike(row: BundleQuestion, other: BundleQuestion) -> bool:
    """Do the last hops quote the same words of the same document?"""
    a, b = row.hops[-1], other.hops[-1]
    return a.document_id == b.document_id and normalize_answer(a.evidence) == normalize_answer(b.evidence)


def _is_quoted(hop: BundleHop, row: BundleQuestion) -> bool:
    """Does a hop of the row quote these words, too, or a run of them?"""
    own = ngrams_of(hop.evidence, _SAME_WORDS)
    others = (other for other in row.hops if other.document_id == hop.document_id)
    return any(_holds(other.evidence, hop.evidence) or own & ngrams_of(other.evidence, _SAME_WORDS) for other in others)


def _holds(one: str, other: str) -> bool:
    """Is one of these within the other, in whole words?"""
    first, second = f" {normalize_answer(one)} ", f" {normalize_answer(other)} "
    return first in second or second in first
