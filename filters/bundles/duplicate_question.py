"""Reject questions that ask what an accepted one asks already, in the same words or others, or find out the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trailforge.filters.bundles.reading import is_same_answer
from trailforge.rewards import normalize_answer
from trailforge.schemas import BundleQuestion, Verdict

if TYPE_CHECKING:
    import numpy as np

REASON = "duplicate_question"


def check(row: BundleQuestion, vector: np.ndarray, earlier: Sequence[BundleQuestion], vectors: np.ndarray,
          *, most_alike: float) -> Verdict:  # fmt: skip
    """Score: cosine with its twin, 1 for the same words, or with the nearest accepted question when it has no twin;
    `vectors`: theirs, of length 1, shape (len(earlier), dim).

    The same words are one question whatever the vectors say. With other words a twin has the same answer, and is as
    near as `most_alike` or ends on the same evidence: by its vector `Where was X born?` is `In which year was X born?`.
    """
    if not earlier:
        return Verdict(keep=True, reason=REASON, score=0.0)
    cosines = vectors @ vector
    words = normalize_answer(row.question)
    same = next((e for e in earlier if normalize_answer(e.question) == words), None)
    if same is not None:
        return _as(same, 1.0)
    for place in (-cosines).argsort(kind="stable"):
        other = earlier[place]
        if (cosines[place] >= most_alike or _ends_alike(row, other)) and is_same_answer(row, other):
            return _as(other, float(cosines[place]))
    return Verdict(keep=True, reason=REASON, score=round(float(cosines.max()), 6))


def _as(twin: BundleQuestion, score: float) -> Verdict:
    return Verdict(keep=False, reason=REASON, score=round(score, 6), detail=f"as {twin.uid}: {twin.question!r}")


def _ends_alike(row: BundleQuestion, other: BundleQuestion) -> bool:
    """Do the last hops quote the same words of the same document?"""
    a, b = row.hops[-1], other.hops[-1]
    return a.document_id == b.document_id and normalize_answer(a.evidence) == normalize_answer(b.evidence)
