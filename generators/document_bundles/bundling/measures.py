"""Measure documents by their words and vectors: how well a bundle holds together, its theme, and how much can be asked.

A question over two documents starts from what both name, and asks for what only one of them says of it. Two reports of
one event that each say all of it carry no such question, however near they are; two on one programme or person, each
with figures and names of its own, do (`worth_of_pair`); most of all where one tells of several things of a kind, and
the other alone says which is meant (`singled`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from trailforge.generators.document_bundles.bundling.config import BundleConfig, Bundling, Leftover
from trailforge.generators.document_bundles.bundling.content import COMMON_WORDS
from trailforge.generators.document_bundles.bundling.units import ROUNDING, own_links
from trailforge.retrieval import split_sentences, words_of

_FEWEST_LETTERS = 3
_SAY_NOTHING = frozenset().union(*COMMON_WORDS.values())
_FIGURE = re.compile(r"\d")
_ALWAYS_RARE, _RARE_SHARE = 10, 0.03
"""Documents that may have a rare word."""
_MOST_FACTS = 8
"""Facts of a document beside another that count: a long one is not better for being long."""


def cohesion(vectors: np.ndarray) -> float:
    """Return the mean cosine over all pairs of a bundle's vectors, shape (k, d), k at least 2, length 1."""
    count = len(vectors)
    total = vectors.sum(axis=0, dtype=np.float64)
    own = np.einsum("kd,kd->", vectors, vectors, dtype=np.float64)
    return float((total @ total - own) / (count * (count - 1)))


def size_counts(bundling: Bundling) -> dict[int, int]:
    """Count the bundles with two, three and four documents."""
    return dict(sorted(Counter(map(len, bundling.bundles)).items()))


def word_frequencies(texts: Iterable[str]) -> Counter[str]:
    """Count in how many of the texts each word stands; counters of parts add up."""
    return Counter(word for text in texts for word in set(words_of(text)))


def theme_words(texts: Sequence[str], frequencies: Mapping[str, int], documents: int, count: int = 5) -> list[str]:
    """Return words that the bundle's texts share and others rarely have, the most characteristic first: a class-based
    tf-idf.

    The bundle is one class. A word of at least two of its texts weighs its mean share of a text's words, times the
    share of the texts that have it, times ln(`documents` / its document frequency). `frequencies` are those of all
    documents, by `word_frequencies`.
    """
    counts = [Counter(words_of(text)) for text in texts]
    held_by = Counter(word for each in counts for word in each)

    def weight(word: str) -> float:
        share = sum(each[word] / each.total() for each in counts if each) / len(counts)
        return share * held_by[word] / len(counts) * math.log(documents / max(frequencies.get(word, 1), 1))

    telling = [word for word, held in held_by.items() if held >= 2 and _is_specific(word)]
    return sorted(telling, key=lambda word: (-weight(word), word))[:count]


def _is_specific(word: str) -> bool:
    return len(word) >= _FEWEST_LETTERS and word.isalpha() and word not in _SAY_NOTHING


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """A document that is indexed for finding facts which another document lacks."""

    sentences: tuple[frozenset[str], ...]
    """The words of each sentence."""
    words: frozenset[str]
    """The words of the whole document, including its title."""
    title: frozenset[str]
    """The words of the document's title."""

    @classmethod
    def of(cls, title: str, text: str) -> DocumentFacts:
        """Index a document's title and text."""
        sentences = tuple(frozenset(words_of(sentence)) for sentence in split_sentences(text))
        head = frozenset(words_of(title))
        return cls(sentences, head.union(*sentences), head)

    def own(self, other: DocumentFacts, shared: Sequence[Collection[str]], names: Collection[str]) -> int:
        """Count this document's sentences on something that the other names too, with a figure or a word of a name that
        the other lacks, 8 at most.

        `shared`: the words of each name that both have; `names`: all words of names, of any document.
        """
        told = (
            sentence
            for sentence in self.sentences
            if any(sentence.issuperset(name) for name in shared)
            and any(word in names or _FIGURE.search(word) for word in sentence - other.words)
        )
        return min(_MOST_FACTS, sum(1 for _ in told))

    def details(self, names: Collection[str]) -> frozenset[str]:
        """Return the document's figures and those of its words that are in `names`, the words of all names."""
        return frozenset(word for word in self.words if word in names or _FIGURE.search(word))


@dataclass(frozen=True, slots=True, kw_only=True)
class AllDocuments:
    """Word counts of all documents, by which pairs of them are ranked."""

    name_words: Collection[str]
    """The words of all names."""
    few: Collection[str]
    """The names that few documents have; see `BundleConfig.few_share`."""
    documents: int
    frequencies: Mapping[str, int]
    """Number of texts in which each word stands."""

    def shared_part(self, first: Collection[str], second: Collection[str]) -> float:
        """Return the share of the smaller of two collections of words that the other has too, each word weighted by
        ln(documents / documents with it).
        """
        least = min(self._weight(first), self._weight(second))
        return self._weight(set(first) & set(second)) / least if least else 0.0

    def is_rare(self, term: str) -> bool:
        """Tell whether a word of a term occurs in few of the documents."""
        most = max(_ALWAYS_RARE, _RARE_SHARE * self.documents)
        return any(self.frequencies.get(word, 0) <= most for word in words_of(term))

    def _weight(self, words: Collection[str]) -> float:
        return sum(math.log(self.documents / max(self.frequencies.get(word, 1), 1)) for word in sorted(words))


class PairFacts(NamedTuple):
    """What is known of two documents before their facts are counted: shared names, cosine and dates."""

    shared: Sequence[str]
    """The names that both documents have."""
    cosine: float
    """The cosine of the two documents' vectors as embedded."""
    is_of_one_day: bool
    """Whether they are news dated as near as reports of one event are (`BundleConfig.event_days`)."""
    singled: float = 0.0
    """How many things one of them singles out of several of the other, 0 to 4; see `singled.count_singled`."""


class PairWorth(NamedTuple):
    """How much can be asked about two documents together, as scores."""

    worth: float
    """The number by which bundles are ranked: (`askable` + `few_weight` x the same of names that few have) x (1 -
    `retold`) + `singled_weight` x `singled`."""
    askable: int
    """Number of facts of its own that the document tells which has fewer of them, 8 at most."""
    retold: float
    """How far two documents retell each other, from 0 to 1: near 1 for two reports of one event."""


def worth_of_pair(
    first: DocumentFacts, second: DocumentFacts, known: PairFacts, archive: AllDocuments, config: BundleConfig
) -> PairWorth:
    """Measure how much can be asked about two documents at a middle distance. `known` is what bundling knows of the
    pair, `archive` has the word counts of all documents.

    A question leads from one document to the other over a name in both, to what only one says of it. Such facts count
    where each document has some, and more when few documents have the name: two of many comments on one event do not
    need each other. Nor do two reports of one event, recognised by the rare words of their titles; by more than half of
    the shorter one's figures and names standing in the other; or by a cosine above 0.5 on one day. What counts most,
    even between reports of one event, is a fact that singles out one of several similar things in the other document.
    """

    def least_own(names: Iterable[str]) -> int:
        named = [frozenset(words_of(name)) for name in names]
        return min(first.own(second, named, archive.name_words), second.own(first, named, archive.name_words))

    askable, of_few = least_own(known.shared), least_own(name for name in known.shared if name in archive.few)
    details = archive.shared_part(first.details(archive.name_words), second.details(archive.name_words))
    signs = (
        archive.shared_part(first.title, second.title),
        2 * details - 1,
        2 * known.cosine - 1 if known.is_of_one_day else 0.0,
    )
    retold = round(min(max(*signs, 0.0), 1.0), 6)
    worth = (askable + config.few_weight * of_few) * (1 - retold) + config.singled_weight * known.singled
    return PairWorth(round(worth, 6), askable, retold)


def part_by_matter(
    bundling: Bundling,
    worths: Mapping[tuple[int, int], PairWorth],
    papers: Sequence[bool],
    origins: Sequence[str],
    vectors: np.ndarray,
    config: BundleConfig,
) -> Bundling:
    """Keep in each bundle only news that share their subject matter with another document there; the others become
    leftovers.

    `worths` has each pair of each bundle, by row numbers, and their `retold` must reach `min_retold`: two documents
    that share a subject and its names, but neither title words nor figures nor days, are about two matters. Papers on
    one subject stay together. A document that is then not as near the others as `min_cosine` asks goes, too. `papers`
    and `origins` are of each document; `vectors` are as bundling compares them, of length 1.
    """
    bundles: list[tuple[int, ...]] = []
    left: list[Leftover] = []
    waiting = [(rows, True) for rows in bundling.bundles]
    while waiting:
        rows, is_as_made = waiting.pop()
        for part in _matters(rows, worths, papers, config.min_retold):
            if len({origins[row] for row in part}) < 2:
                left += [Leftover(row, "other_matter") for row in part]
            elif (is_as_made and part == rows) or (least := _least_near(part, vectors, config.min_cosine)) is None:
                bundles.append(part)
            else:
                left.append(Leftover(least, "alone"))
                waiting.append((tuple(row for row in part if row != least), False))
    return Bundling(bundles=tuple(sorted(bundles)), leftovers=tuple(sorted((*bundling.leftovers, *left))))


def _matters(
    rows: Sequence[int], worths: Mapping[tuple[int, int], PairWorth], papers: Sequence[bool], least: float
) -> list[tuple[int, ...]]:
    """The rows in parts that no pair joins; each part's rows ascend."""
    parts: list[tuple[int, ...]] = []
    for row in rows:
        near = [part for part in parts if any(_go_together((other, row), worths, papers, least) for other in part)]
        parts = [*(part for part in parts if part not in near), tuple(sorted((row, *chain(*near))))]
    return parts


def _least_near(rows: Sequence[int], vectors: np.ndarray, min_cosine: float) -> int | None:
    """The document that is least like the others, where that is too little."""
    links = own_links(vectors[list(rows)])
    least = int(links.argmin())
    return rows[least] if links[least] < min_cosine - ROUNDING else None


def _go_together(
    pair: tuple[int, int], worths: Mapping[tuple[int, int], PairWorth], papers: Sequence[bool], least: float
) -> bool:
    return all(papers[row] for row in pair) or worths[pair].retold >= least
