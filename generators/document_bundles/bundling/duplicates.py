"""Find exact and near duplicates. No result depends on the order of documents.

Exact: group by `exact_key`. Near: for each document a MinHash `signature`, and `find_near_copies` among all of them:
documents that share a band of their signatures are compared, and a pair whose estimated similarity reaches the
threshold is an edge; of each component one document stays.

The signature is one-permutation hashing (Li, Owen, Zhang 2012) with the empty bins filled by rotation (Shrivastava, Li
2014): each shingle is hashed once instead of once per component of the signature, and shingles are never built as
strings. Together that is two to four times faster than datasketch's MinHash (`benchmarks/near_duplicates.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias
from zlib import crc32

import numpy as np

from trailforge.retrieval import words_of
from trailforge.schemas import InvalidInput

Order: TypeAlias = tuple[str, str]
"""A key by which the document that stays is chosen, the smallest: (date, id). See `order_of`."""

SIGNATURE = 128
"""Number of components of a signature. The standard error of an estimated Jaccard similarity is at most 0.044."""
SHINGLE_WORDS = 3
PAIRS_WITH_NEXT = 50
"""Number of following documents that each document of a band's group is compared with. The pairs stay linear in the
group's size, and a chain through all of its members is among them."""
_BLOCK = 1024
"""Pairs that are compared at once: what is compared of them stays in the processor's cache."""
_NO_DATE = "~"  # sorts after every digit
_EMPTY = np.uint64(2**64 - 1)
_BIN_WIDTH = np.uint64(2**64 // SIGNATURE)
_BIN_STARTS = np.arange(SIGNATURE, dtype=np.uint64) * _BIN_WIDTH
_ODD = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64)
"""Any odd multipliers with many bits set; they tell the places in a shingle apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateConfig:
    """When two documents are near duplicates, by the Jaccard similarity of their sets of 3-word shingles.

    Where a share c of the words is changed at random, the similarity is about (1-c)³ / (2-(1-c)³): 0.75 for 5 %, 0.57
    for 10 %, 0.34 for 20 %.
    """

    threshold: float = 0.5
    """Smallest similarity of near duplicates. The default is half of the shingles: two reports of the same agency text,
    or two versions of one report. Lower than usual for pre-training corpora: a bundle with two versions of a text
    cannot make a question that needs both."""
    rows: int = 4
    """Number of components in a band; 32 bands of 4 find a pair of similarity s with 1-(1-s⁴)³²: 0.87 at 0.5, 0.99 at
    0.6, 1.00 at 0.75. (16 bands of 8 would find 0.95 at 0.8.)"""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` when bands would not fill the signature."""
        if self.rows < 1 or SIGNATURE % self.rows:
            raise InvalidInput(
                f"{self.rows} does not divide {SIGNATURE}, the length of a signature; take a power of 2 up to that",
                field="rows",
            )


def exact_key(title: str, text: str) -> bytes:
    """Return 16 bytes that are the same for documents with the same words, whatever their case, punctuation and
    spacing."""
    words = " ".join(words_of(f"{title} {text}"))
    return hashlib.blake2b(_encoded(words), digest_size=16).digest()


def shingle_hashes(text: str) -> np.ndarray:
    """Return the hashes of all runs of three words, in order, uint64; for fewer than three words one hash of them
    together."""
    if not (words := words_of(text)):
        return np.empty(0, np.uint64)
    hashed = np.fromiter((crc32(word) for word in _encoded(" ".join(words)).split(b" ")), np.uint64, len(words))
    width = min(SHINGLE_WORDS, len(words))
    total = np.zeros(len(words) - width + 1, np.uint64)
    for place in range(width):
        total += _mixed(hashed[place : place + len(total)] * _ODD[place] + _ODD[place])
    return _mixed(total)


def signature(text: str) -> np.ndarray:
    """Return the MinHash of a text's shingles, shape (128,), uint64; that of a text without words must not be
    compared."""
    hashes = np.append(np.sort(shingle_hashes(text)), _EMPTY)
    first = np.searchsorted(hashes[:-1], _BIN_STARTS)  # of each bin its smallest hash, or that of the next filled bin
    values = hashes[first]
    if len(hashes) == 1:
        return values
    wrapped = first == len(hashes) - 1
    values[wrapped] = hashes[0]
    bins = np.arange(SIGNATURE, dtype=np.uint64)
    distance = (values // _BIN_WIDTH - bins) % np.uint64(SIGNATURE)
    return values + distance * _ODD[0]  # so that a borrowed value equals only one that was borrowed as far


def order_of(published: str | None, document_id: str) -> Order:
    """Return a document's sort key; of several copies the one with the smallest is kept: the earliest, then that with
    the smallest id. Documents without a date come last.
    """
    return (published or _NO_DATE, document_id)


def find_near_copies(
    signatures: Mapping[Order, np.ndarray],
    config: DuplicateConfig,
    shown: Callable[[float], object] = lambda share: None,
) -> dict[str, str]:
    """Return the id of each document to drop, with the id of the document that is kept in its place.

    Documents that are similar, directly or over others, form one component, of which the first by `order_of` is kept;
    so a dropped document need not itself be similar to the one that is kept. Texts without words have no copies.
    Memory: 1.2 KB a document, whatever they share. `shown` is called now and then with the share that is done, from 0
    to 1.
    """
    documents = sorted(order for order, values in signatures.items() if values[0] != _EMPTY)
    if not documents:
        return {}
    components = _Components(np.stack([signatures[order] for order in documents]), config.threshold)
    bands = range(0, SIGNATURE, config.rows)
    for number, first in enumerate(bands):
        for pairs in _pairs_of(components.signatures[:, first : first + config.rows]):
            components.add(*pairs)
        if shown is not None:
            shown((number + 1) / len(bands))
    return {documents[at][1]: documents[root][1] for at, root in enumerate(components.roots.tolist()) if at != root}


def _pairs_of(band: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Numbers of rows that are equal, pair by pair, in blocks: each with the next of its group, then the one behind."""
    order = np.lexsort(band.T)  # stable: within a group the numbers ascend
    starts = np.append(True, (band[order[1:]] != band[order[:-1]]).any(axis=1))
    group = np.cumsum(starts)
    places = np.arange(len(order))
    for distance in range(1, PAIRS_WITH_NEXT + 1):
        places = places[places + distance < len(order)]
        places = places[group[places] == group[places + distance]]
        if not len(places):
            return
        for block in np.split(places, range(_BLOCK, len(places), _BLOCK)):
            yield order[block], order[block + distance]


class _Components:
    """Which documents are twins so far, by their numbers."""

    def __init__(self, signatures: np.ndarray, threshold: float) -> None:
        self.signatures = signatures
        self.roots = np.arange(len(signatures))
        """Of each document the smallest number of its component."""
        self._threshold = threshold
        self._bytes = signatures.astype(np.uint8)
        """Equal components have equal bytes: where too few of these are equal, an eighth of the memory is read."""

    def add(self, firsts: np.ndarray, seconds: np.ndarray) -> None:
        """Join those pairs that are similar enough; not compared are twins of twins that are known already."""
        for values in (self._bytes, self.signatures):
            is_open = self.roots[firsts] != self.roots[seconds]
            firsts, seconds = firsts[is_open], seconds[is_open]
            equal = values.take(firsts, axis=0) == values.take(seconds, axis=0)
            is_similar = equal.view(np.uint8).sum(axis=1, dtype=np.uint8) / SIGNATURE >= self._threshold
            firsts, seconds = firsts[is_similar], seconds[is_similar]
        for first, second in zip(firsts.tolist(), seconds.tolist(), strict=True):
            low, high = sorted((self._root(first), self._root(second)))
            self.roots[high] = low
        if len(firsts):
            while (above := self.roots[self.roots] != self.roots).any():
                self.roots[above] = self.roots[self.roots[above]]

    def _root(self, number: int) -> int:
        while (above := int(self.roots[number])) != number:
            self.roots[number] = self.roots[above]
            number = above
        return number


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # a text that nobody normalised may hold half a character


def _mixed(values: np.ndarray) -> np.ndarray:
    """Every bit of the input changes half of the output's bits (the finaliser of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
