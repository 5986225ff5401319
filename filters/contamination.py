"""Whether a named benchmark asks a question too: by shared word n-grams, or by meaning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trailforge.schemas import Verdict

if TYPE_CHECKING:
    import numpy as np

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmarks:
    """Questions that must not be trained on."""

    questions: tuple[str, ...]
    names: tuple[str, ...]
    """Of the benchmark of each question."""
    ngrams: Mapping[str, int]
    """Word n-gram -> position of the first question that has it."""
    vectors: np.ndarray
    """Of the questions, of length 1; shape (len(questions), dim)."""
    n: int


def benchmarks_of(questions: Iterable[tuple[str, str]], vectors: np.ndarray, n: int) -> Benchmarks:
    """From (name of the benchmark, question), with the vectors of the questions in their order."""
    pairs = list(questions)
    ngrams: dict[str, int] = {}
    for position, (_, question) in enumerate(pairs):
        for ngram in ngrams_of(question, n):
            ngrams.setdefault(ngram, position)
    return Benchmarks(
        questions=tuple(question for _, question in pairs),
        names=tuple(name for name, _ in pairs),
        ngrams=ngrams,
        vectors=vectors,
        n=n,
    )


def contaminated(question: str, vector: np.ndarray, benchmarks: Benchmarks, *, most_alike: float) -> Verdict:
    """A benchmark asks it too. Score: cosine with the nearest question of a benchmark; 1 for a shared n-gram."""
    if not benchmarks.questions:
        return Verdict(keep=True, reason="contaminated", score=0.0)
    shared = sorted(ngrams_of(question, benchmarks.n) & benchmarks.ngrams.keys())
    cosines = benchmarks.vectors @ vector
    nearest = benchmarks.ngrams[shared[0]] if shared else int(cosines.argmax())
    score = 1.0 if shared else round(float(cosines[nearest]), 6)
    keep = not shared and score < most_alike
    detail = "" if keep else f"{benchmarks.names[nearest]} asks {benchmarks.questions[nearest]!r}"
    return Verdict(keep=keep, reason="contaminated", score=score, detail=detail)


def ngrams_of(text: str, n: int) -> set[str]:
    """Runs of n words, case-folded; a shorter text is one run."""
    words = _WORD.findall(text.casefold())
    return {" ".join(words[i : i + n]) for i in range(max(1, len(words) - n + 1))} if words else set()
