"""Reject questions that ask what an accepted one asks already, in the same words or others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rewards import normalize_answer
from schemas import BundleQuestion, Verdict

if TYPE_CHECKING:
    import numpy as np

REASON = "duplicate_question"


def check(row: BundleQuestion, vector: np.ndarray, earlier: Sequence[BundleQuestion], vectors: np.ndarray,
          *, most_alike: float) -> Verdict:  # fmt: skip
    """Score: cosine with the nearest accepted question; `vectors`: theirs, of length 1, shape (len(earlier), dim).

    The same words are one question whatever the vectors say.
    """
    if not earlier:
        return Verdict(keep=True, reason=REASON, score=0.0)
    cosines = vectors @ vector
    nearest = int(cosines.argmax())
    same = [e for e in earlier if normalize_answer(e.question) == normalize_answer(row.question)]
    twin = same[0] if same else earlier[nearest] if cosines[nearest] >= most_alike else None
    detail = f"as {twin.uid}: {twin.question!r}" if twin else ""
    score = 1.0 if same else round(float(cosines[nearest]), 6)
    return Verdict(keep=twin is None, reason=REASON, score=score, detail=detail)
