"""Questions that must not be trained on: those of named benchmark files, by shared word n-grams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from trailforge.pipelines.sources import read_benchmark
from trailforge.retrieval.words import ngrams_of
from trailforge.schemas import InvalidInput


class QuestionNgrams:
    """The n-grams of all benchmark questions."""

    def __init__(self, questions: Iterable[tuple[str, str]], n: int) -> None:
        """`questions`: name of the benchmark and question."""
        self._n = n
        self._found: dict[str, tuple[str, str]] = {}
        for name, question in questions:
            for ngram in ngrams_of(question, n):
                self._found.setdefault(ngram, (name, question))

    def asking(self, question: str) -> str | None:
        """Who asks this too, as a line for a person; None when nobody does."""
        for ngram in sorted(ngrams_of(question, self._n)):
            if ngram in self._found:
                name, other = self._found[ngram]
                return f"{name} asks {other!r}"
        return None


def read_benchmarks(paths: Iterable[str], n: int) -> QuestionNgrams:
    """From files as `read_benchmark` takes them. Raises as it does, and for a file without questions."""
    return QuestionNgrams((pair for path in paths for pair in _named_questions(Path(path))), n)


def _named_questions(path: Path) -> Iterator[tuple[str, str]]:
    question = ""
    for question in read_benchmark(path):
        yield path.name.partition(".")[0], question
    if not question:
        raise InvalidInput("holds no questions", file=path)
