"""An index that finds the names of all entities by their words, even when these are misspelt or in another order.

There are two ways in. By all words: a name's key is the sum of its words' hashes, so the order of words makes no
difference, and a mention with misspelt words is looked up by the sums of what each word may mean. By some words: each
word has the list of its names.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

from trailforge.retrieval.kg.columns import (
    Keys,
    bits_of,
    bucket_bits,
    bucket_of,
    buckets,
    grouped,
    load,
    mix,
    mix_one,
    offsets,
    places,
    save,
    stretch,
    stretches,
)
from trailforge.retrieval.kg.vocabulary import MAX_EDITS, Variants, Vocabulary, save_vocabulary

_PER_BUCKET = 2
_MOST_PAIRS = 1 << 16
"""Pairs of words looked up for one mention, where two of its words are misspelt."""
_MOST_VARIANTS = 4096
"""Of one word, where it is the only one that is misspelt."""
_MOST_POSTINGS = 20_000
"""Names looked at for having some of the mention's words."""
_MOST_SHARING = 64
"""Of these, how many are compared by their letters."""
_MOST_WORDS = 255
_NONE = np.zeros(0, np.int64)


class NameIndex:
    """An index from words to the names that they may mean. Names are given by their rows."""

    def __init__(self, folder: Path) -> None:
        self._by_word = load(folder, "postings.starts"), load(folder, "postings.names")
        self.vocabulary = Vocabulary(folder, self._by_word[0])
        self._starts = load(folder, "keys.starts")
        self._prints = load(folder, "keys.prints")
        self._names = load(folder, "keys.names")
        self._words = load(folder, "names.words")

    def variants(self, words: Sequence[str]) -> list[Variants]:
        """Return for each word the indexed words that it may stand for, allowing for misspellings."""
        return [self.vocabulary.variants(word) for word in words]

    def candidates(self, words: Sequence[str], variants: Sequence[Variants]) -> list[np.ndarray]:
        """Return the rows of names that a mention may mean, the nearest first, in tiers.

        First come names with the same words in any order, with the same words up to a bracket or comma, and within one
        edit; if there are none, those with a space more or less and within two edits. `words` are the mention's, and
        `variants` what the method of this name returns for them.
        """
        tiers = self._within_one(variants)
        if not any(map(len, tiers)):
            tiers = [tier for other in self._spaced_otherwise(words) for tier in self._within_one(other)]
            tiers.append(self._within_two(variants))
        return tiers

    def exactly(self, words: Sequence[str]) -> np.ndarray:
        """Return names of exactly these words, in any order (and, very rarely, another one with the same hash)."""
        total = 0
        for word in words:
            row = self.vocabulary.find(word)
            if row is None:
                return _NONE
            total += mix_one(row + 1)  # as in `_hashes`
        key = mix_one(total)
        bucket = bucket_of(self._starts, key, len(self._prints))
        return self._names[bucket][self._prints[bucket] == key & 0xFFFFFFFF].astype(np.int64) if words else _NONE

    def having(self, words: Sequence[str], most: int) -> np.ndarray:
        """Return the rows of names that have one of these words exactly; words that more than `most` names have are
        skipped."""
        rows = [row for row in map(self.vocabulary.find, words) if row is not None]
        return np.unique(np.concatenate([self._postings(row) for row in rows if self._count(row) <= most] or [_NONE]))

    def _within_one(self, variants: Sequence[Variants]) -> list[np.ndarray]:
        """Names of just these words, and those with one of them misspelt by one edit."""
        sums, missing = _summed(variants)
        total = sums.sum(keepdims=True)
        one = [
            total - sums[i] + _hashes(choice.at(1, _MOST_VARIANTS))
            for i, choice in enumerate(variants)
            if missing <= {i}
        ]
        same = self._look_up([] if missing else [total])
        is_whole = self._words[same] == min(len(variants), _MOST_WORDS)
        return [same[is_whole], same[~is_whole], self._look_up(one)]

    def _within_two(self, variants: Sequence[Variants]) -> np.ndarray:
        """Names with one of these words misspelt by two edits, or two of them by one."""
        sums, missing = _summed(variants)
        total = sums.sum(keepdims=True)
        two = [
            total - sums[i] + _hashes(choice.at(2, _MOST_VARIANTS))
            for i, choice in enumerate(variants)
            if missing <= {i}
        ]
        pairs = [pair for pair in combinations(range(len(variants)), 2) if missing <= set(pair)]
        for i, j in pairs:
            most = int((_MOST_PAIRS / len(pairs)) ** 0.5)
            first, second = (_hashes(variants[n].at(1, most)) for n in (i, j))
            two.append((total - sums[i] - sums[j] + first[:, None] + second[None, :]).ravel())
        return self._look_up(two)

    def _look_up(self, sums: Sequence[Keys]) -> np.ndarray:
        """Names whose words' hashes have one of these sums."""
        if not sums:
            return _NONE
        keys = mix(np.concatenate(sums))
        where = buckets(keys, bits_of(self._starts))
        held = self._starts[where + 1] > self._starts[where]
        keys, where = keys[held], where[held]
        rows = stretches(self._starts, where, len(self._prints))
        lengths = self._starts[where + 1].astype(np.int64) - self._starts[where]
        same = self._prints[rows] == np.repeat(_prints(keys), lengths)
        return self._names[rows[same]].astype(np.int64)

    def _spaced_otherwise(self, words: Sequence[str]) -> list[list[Variants]]:
        """The words with a space taken out, put in, or put in a letter's place, where all but one of them are words."""
        others = [[*words[:i], words[i] + words[i + 1], *words[i + 2 :]] for i in range(len(words) - 1)]
        for i, word in enumerate(words):
            for cut in range(1, len(word)):
                others.append([*words[:i], word[:cut], word[cut:], *words[i + 1 :]])
            for cut in range(1, len(word) - 1):
                others.append([*words[:i], word[:cut], word[cut + 1 :], *words[i + 1 :]])
        find = cache(self.vocabulary.find)

        @cache
        def variants(word: str) -> Variants:
            """The space is one edit, so that a known word stands as it is."""
            row = find(word)
            known = np.array([] if row is None else [row], np.int64)
            return Variants(known, 0 * known) if len(known) else self.vocabulary.variants(word, MAX_EDITS - 1)

        plausible = [other for other in others if sum(find(word) is None for word in other) <= 1]
        return [[variants(word) for word in other] for other in plausible]

    def sharing(self, variants: Sequence[Variants]) -> np.ndarray:
        """Return the rows of names that share words with a mention, those that share most first. `variants` has what
        each of its words may stand for: the nearest counts. Names of the rarest words are looked at alone where there
        are many."""
        meant = sorted({int(v.words[0]) for v in variants if len(v.words)}, key=lambda word: (self._count(word), word))
        if not meant:
            return _NONE
        pool = self._postings(meant[0])
        for word in meant[1:]:
            if len(pool) > _MOST_POSTINGS:
                pool = np.intersect1d(pool, self._postings(word))
            elif len(pool) + self._count(word) <= _MOST_POSTINGS:
                pool = np.union1d(pool, self._postings(word))
        pool = pool[:_MOST_POSTINGS].astype(np.int64)
        shared = sum((_is_in(pool, self._postings(word)) for word in meant), np.zeros(len(pool), np.int64))
        best = np.lexsort((pool, self._words[pool], -shared))
        return pool[best[:_MOST_SHARING]]

    def _postings(self, word: int) -> np.ndarray:
        starts, names = self._by_word
        return names[int(starts[word]) : int(starts[word + 1])]

    def _count(self, word: int) -> int:
        return int(self._by_word[0][word + 1]) - int(self._by_word[0][word])


def save_names(folder: Path, words: pa.LargeStringArray, counts: np.ndarray, cores: np.ndarray) -> int:
    """Write the index of names, for `NameIndex`; return the number of distinct words.

    `words`: of all names, one after the other; `counts`: how many each name has, at least one; `cores`: how many of
    these stand before its bracket or comma, 0 for names without; both of shape (names,).
    """
    encoded = words.dictionary_encode()
    codes, vocabulary = encoded.indices.to_numpy(), encoded.dictionary
    save_vocabulary(folder, vocabulary)
    save(folder, "names.words", np.minimum(counts, _MOST_WORDS).astype(np.uint8))
    starts, order = grouped(codes, len(vocabulary))
    owners = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    save(folder, "postings.starts", starts)
    save(folder, "postings.names", owners[order])
    del order, owners
    hashes, firsts = _hashes(np.arange(len(vocabulary)))[codes], offsets(counts)[:-1].astype(np.int64)
    qualified = np.flatnonzero(cores)
    lengths = cores[qualified].astype(np.int64)
    keys = mix(np.concatenate([_sums(hashes, counts), _sums(hashes[stretch(firsts[qualified], lengths)], lengths)]))
    rows = np.concatenate([np.arange(len(counts)), qualified])
    del hashes
    bits = bucket_bits(len(keys), _PER_BUCKET)
    starts, order = grouped(buckets(keys, bits), 1 << bits)
    save(folder, "keys.starts", starts)
    save(folder, "keys.prints", _prints(keys)[order])
    save(folder, "keys.names", rows[order].astype(np.int32))
    return len(vocabulary)


def _sums(hashes: Keys, counts: np.ndarray) -> Keys:
    """The sum of each so many hashes in turn, every count at least one; shape as `counts`."""
    return np.add.reduceat(hashes, offsets(counts)[:-1].astype(np.int64)) if len(counts) else np.zeros(0, np.uint64)


def _summed(variants: Sequence[Variants]) -> tuple[Keys, set[int]]:
    """What each exact word adds to a sum, 0 for a word that no name has; and which words those are."""
    exact = [v.exact for v in variants]
    missing = {i for i, word in enumerate(exact) if word is None}
    sums = _hashes(np.array([0 if word is None else word for word in exact]))
    sums[sorted(missing)] = 0
    return sums, missing


def _hashes(words: np.ndarray) -> Keys:
    """Of words, to be summed; 0 is none's, as it would not count in a sum."""
    return mix(words.astype(np.uint64) + np.uint64(1))


def _prints(keys: Keys) -> np.ndarray:
    """What tells keys of one bucket apart: their lower half."""
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def _is_in(pool: np.ndarray, among: np.ndarray) -> np.ndarray:
    at = np.minimum(places(among, pool), len(among) - 1)
    return among[at] == pool
