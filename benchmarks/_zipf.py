"""Make a corpus of 100-word passages with word frequencies by Zipf's law, for benchmarks of search, and serve it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np

from trailforge.retrieval.indexes.store import build_index
from trailforge.retrieval.words import words_of
from trailforge.schemas import Document

_WORDS = 100
"""Of a passage."""
_VOCABULARY = 300_000
_FLATTENED = 2.7
"""Mandelbrot's, of the frequencies of the first ranks."""
_COMMON, _RARE = 6, 4
"""Words of a query: as they come, and the rarest of a passage."""
_SAMPLE = Path(__file__).parents[1] / "sample_data" / "documents.jsonl"


def build_over_passages(folder: Path, passages: int) -> None:
    """Build a BM25 index over this number of made-up passages, unless the folder has it already."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        asyncio.run(build_index(make_passages(passages), folder, "bm25"))


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `trailforge serve-search` over an index, without a cache of results; gives its URL and its process."""
    command = [sys.executable, "-m", "trailforge", "serve-search", str(folder), "--port", "0", "--cached", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        while not (line := process.stdout.readline()).startswith("ready: "):
            assert line
        yield line.removeprefix("ready: ").strip(), process
    finally:
        process.kill()
        process.communicate()


def _draw(dice: np.random.Generator, number: int) -> np.ndarray:
    """Ranks of words, by Zipf's law."""
    shares = np.cumsum(1 / (np.arange(_VOCABULARY) + 1 + _FLATTENED))
    return np.searchsorted(shares, dice.random(number) * shares[-1])


def _ranks(passages: int) -> np.ndarray:
    """Of the words of all passages, shape (passages, words)."""
    return _draw(np.random.default_rng(0), passages * _WORDS).reshape(passages, _WORDS)


def make_passages(number: int) -> Iterator[Document]:
    """Yield this number of made-up passages."""
    for row, ranks in enumerate(_ranks(number).tolist()):
        yield Document(id=str(row), title=_spell(ranks[0]).title(), text=" ".join(map(_spell, ranks)))


def make_queries(passages: int) -> Iterator[str]:
    """Yield queries without end; each contains a number that no passage has, so that no two are alike."""
    ranks, dice = np.sort(_ranks(passages), axis=1), np.random.default_rng(1)
    common = _draw(dice, 100_000 * _COMMON).reshape(-1, _COMMON)
    for number in count():
        rare = ranks[dice.integers(passages), -_RARE:]
        yield " ".join(map(_spell, (*common[number % len(common)], *rare))) + f" n{number}"


def _spell(rank: int) -> str:
    """A word of the sample, by how often it stands there; beyond them two put together. So passages are as many tokens
    as English ones.
    """
    words = _words()
    if rank < len(words):
        return words[rank]
    first, second = divmod(rank - len(words), len(words))
    return words[first] + words[second]


@cache
def _words() -> list[str]:
    return [word for word, _ in Counter(words_of(_SAMPLE.read_text(encoding="utf-8"))).most_common()]
