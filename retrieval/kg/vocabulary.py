"""An index of all words in all names, which finds those that a misspelt word may stand for.

Symmetric deletion: two words at distance d or less become equal when at most d letters of each are deleted. Every
word's first seven letters are stored under the hashes of all that remains when up to two are deleted, so a lookup reads
29 buckets instead of all words. The method is SymSpell's (Garbe, 2012), with buckets in place of stored keys: what
is in a bucket is compared by its letters anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from trailforge.retrieval.kg.columns import (
    Texts,
    bits_of,
    bucket_bits,
    bucket_of,
    buckets,
    load,
    mix,
    mix_one,
    save,
    save_texts,
    stretches,
)
from trailforge.schemas import RetrievalError, install_hint

MAX_EDITS = 2
_PREFIX = 7
_SHORT = 3
"""Words of up to this many letters are only searched within one edit: within two are too many."""
_PER_BUCKET = 2
_CHUNK = 200_000
_MULTIPLIER = 0x9E3779B97F4A7C15
"""Odd, so that letters in another order give another key: the golden ratio in 64 bits."""
_MOST_LETTERS = 255
_WEIGHTS = [pow(_MULTIPLIER, rank + 1, 1 << 64) for rank in range(_PREFIX)]
"""Of the letters of a prefix that is kept whole."""


def most_edits(letters: int) -> int:
    """Return the number of edits within which a word of this length is searched."""
    return 1 if letters <= _SHORT else MAX_EDITS


def _patterns(letters: int) -> np.ndarray:
    """What each letter of a prefix weighs in its keys, 0 where it is deleted; few deletions first.

    Shape (keys, letters).
    """
    deletions = range(most_edits(letters) + 1)
    kept = [set(range(letters)) - set(gone) for n in deletions for gone in combinations(range(letters), n)]
    weights = np.zeros((len(kept), letters), np.uint64)
    for row, positions in enumerate(kept):
        for rank, position in enumerate(sorted(positions)):
            weights[row, position] = _WEIGHTS[rank]
    return weights


_PATTERNS = [_patterns(letters) for letters in range(_PREFIX + 1)]
_WITHIN = [
    [sum(comb(letters, n) for n in range(edits + 1)) for edits in range(MAX_EDITS + 1)]
    for letters in range(_PREFIX + 1)
]
"""By letters and edits, how many of the patterns delete no more letters than that."""


@dataclass(frozen=True, slots=True)
class Variants:
    """The words that a misspelt word may stand for, by distance and then frequency."""

    words: np.ndarray
    """Rows of the words in the vocabulary; int64, shape (n,)."""
    distances: np.ndarray
    """Number of edits to each word (a swap of two neighbouring letters is one); shape (n,)."""

    def at(self, distance: int, most: int) -> np.ndarray:
        """Return the rows of the words at exactly this distance, at most `most` of them, the most frequent first."""
        return self.words[self.distances == distance][:most]

    @property
    def exact(self) -> int | None:
        """Return the row of the word as it is written; None when no name has it."""
        return int(self.words[0]) if len(self.words) and self.distances[0] == 0 else None


class Vocabulary:
    """The words of a store's names, by row."""

    def __init__(self, folder: Path, frequencies: np.ndarray) -> None:
        """Open. `frequencies`: starts of each word's names, whose differences tell how many there are."""
        self._texts = Texts.load(folder, "words")
        self._letters = load(folder, "words.letters")
        self._masks = load(folder, "words.masks")
        self._starts = load(folder, "deletions.starts")
        self._words = load(folder, "deletions.words")
        self._frequencies = frequencies

    def __len__(self) -> int:
        return len(self._texts)

    def frequency(self, words: np.ndarray) -> np.ndarray:
        """Return the number of names that have each of some words."""
        return self._frequencies[words + 1].astype(np.int64) - self._frequencies[words]

    def find(self, word: str) -> int | None:
        """Return a word's row; None when no name has it."""
        key = mix_one(sum((ord(letter) + 1) * weight for letter, weight in zip(word, _WEIGHTS, strict=False)))
        found = self._words[bucket_of(self._starts, key, len(self._words))].tolist()
        return next((row for row in found if self._texts[row] == word), None)

    def text(self, row: int) -> str:
        """Return the text of a word."""
        return self._texts[row]

    def variants(self, word: str, most: int = MAX_EDITS) -> Variants:
        """Return the words within this number of edits, fewer for short words."""
        most = min(most, most_edits(len(word)))
        found = self._near(word, most)
        distances = edits(word, self._texts.many(found), most)
        near = distances <= most
        found, distances = found[near], distances[near]
        order = np.lexsort((found, -self.frequency(found), distances))
        return Variants(found[order], distances[order])

    def _near(self, word: str, most: int) -> np.ndarray:
        """Words that share a bucket and have about as many and the same letters."""
        letters, length, mask = _letters([word])
        prefix = letters[: min(len(letters), _PREFIX)]
        patterns = _PATTERNS[len(prefix)][: _WITHIN[len(prefix)][most]]
        keys = mix(patterns @ (prefix.astype(np.uint64) + np.uint64(1)))
        found = np.unique(buckets(keys, bits_of(self._starts)))
        shared = self._words[stretches(self._starts, found, len(self._words))]
        about_as_long = np.abs(self._letters[shared].astype(np.int64) - min(int(length[0]), _MOST_LETTERS)) <= most
        shared = shared[about_as_long]
        others = np.bitwise_count(self._masks[shared] ^ mask[0]) <= 2 * most  # an edit takes one letter, adds another
        return np.unique(shared[others]).astype(np.int64)


def save_vocabulary(folder: Path, words: pa.LargeStringArray) -> None:
    """Write the distinct words and their deletions, for `Vocabulary`."""
    lengths, masks, entries = [], [], []
    bits = bucket_bits(len(words) * len(_PATTERNS[_PREFIX]), _PER_BUCKET)
    for start in range(0, len(words), _CHUNK):
        texts = words.slice(start, _CHUNK).to_pylist()
        letters, length, mask = _letters(texts)
        lengths.append(length)
        masks.append(mask)
        entries.append(_deletions(letters, length, start, bits))
    entry = np.sort(np.concatenate(entries)) if entries else np.zeros(0, np.uint64)
    of_bucket = np.searchsorted(entry, np.arange((1 << bits) + 1, dtype=np.uint64) << np.uint64(32))
    save_texts(folder, "words", words)
    save(folder, "words.letters", np.minimum(np.concatenate(lengths or [[]]), _MOST_LETTERS).astype(np.uint8))
    save(folder, "words.masks", np.concatenate(masks or [[]]).astype(np.uint32))
    save(folder, "deletions.starts", of_bucket.astype(np.uint32))
    save(folder, "deletions.words", (entry & np.uint64(0xFFFFFFFF)).astype(np.int32))


def _letters(words: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The letters of words one after the other, each word's number of them, and its mask of 32 classes of letters."""
    letters = np.frombuffer("".join(words).encode("utf-32-le"), np.uint32)
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    starts = np.cumsum(lengths) - lengths
    return letters, lengths, np.bitwise_or.reduceat(np.uint32(1) << (letters & np.uint32(31)), starts)


def _deletions(letters: np.ndarray, lengths: np.ndarray, first: int, bits: int) -> np.ndarray:
    """Bucket (high half) and word (low half) of all that remains of each word; uint64, distinct."""
    starts = np.cumsum(lengths) - lengths
    prefixes = np.minimum(lengths, _PREFIX)
    entries = []
    for length in range(1, _PREFIX + 1):
        rows = np.flatnonzero(prefixes == length)
        prefix = letters[starts[rows, None] + np.arange(length)].astype(np.uint64) + np.uint64(1)
        keys = mix((prefix @ _PATTERNS[length].T).ravel())
        words = np.repeat(rows + first, len(_PATTERNS[length])).astype(np.uint64)
        entries.append(buckets(keys, bits).astype(np.uint64) << np.uint64(32) | words)
    return np.unique(np.concatenate(entries))


def check_package() -> None:
    """Raise `RetrievalError` when rapidfuzz is not installed."""
    _rapidfuzz()


def edits(word: str, others: Sequence[str], most: int) -> np.ndarray:
    """Return the number of edits from a word to each other one; `most + 1` where there are more than `most`. Shape
    (len(others),)."""
    process, alignment = _rapidfuzz()
    return process.cdist([word], others, scorer=alignment.distance, score_cutoff=most, dtype=np.uint8)[0]


def agreement(text: str, others: Sequence[str]) -> np.ndarray:
    """Return, for each other text, 1 minus the number of edits from `text` to it divided by the longer one's length.
    Shape (len(others),).
    """
    process, alignment = _rapidfuzz()
    return process.cdist([text], others, scorer=alignment.normalized_similarity, dtype=np.float64)[0]


def _rapidfuzz() -> tuple[Any, Any]:
    """What compares, and how. Raises `RetrievalError` when the package is not installed."""
    try:
        from rapidfuzz import process
        from rapidfuzz.distance import OSA
    except ImportError as error:
        raise RetrievalError(f"matching names needs rapidfuzz: {install_hint('kg')}") from error
    return process, OSA
