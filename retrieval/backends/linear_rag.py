"""LinearRAG (arXiv 2510.10114): names, sentences and passages in one graph that no model has to write.

A question's names are the seeds. Each hands its score on through its sentences that are nearest to the question, to the
names in them; names, the passages that hold them and dense similarity together say where a random walk over names and
passages begins, and where it mostly is are the passages found.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trailforge.retrieval.backends.declaration import Backend, FoundPassage, Workbench
from trailforge.retrieval.backends.graph import (
    KnownNames,
    Link,
    NamedSentence,
    NameFinder,
    PassageGraph,
    Place,
    count_places,
    key_of,
    linked,
    min_max,
    open_sparse,
    row_of,
    save_sparse,
)
from trailforge.retrieval.backends.vectors import Vectors, best_rows, embed, embed_passages
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.schemas import Document

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_MATRICES = ("names_of_sentence", "sentences_of_name", "passages_of_name")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearRagConfig:
    """Settings of LinearRAG: the defaults of the authors' program.

    Their settings for single data sets have thresholds from .1 to .5. Theirs are chunks without titles: that a title is
    a name, of every sentence of its passage too, and is embedded with each, is ours. Names are found by rule and by the
    titles of the corpus (`graph.NameFinder`), not by spaCy, and a name that the corpus lacks is taken for the one that
    shares most of its words, not for the nearest by embedding. Edges between one chunk and the next are left out:
    passages of a corpus are in no order.
    """

    damping: float = 0.5
    """Share of steps at which the walk goes on; at the others it starts anew."""
    rounds: int = 2
    """Number of rounds in which scores are passed on; the authors' `max_iterations` is one more."""
    sentences_per_name: int = 3
    """Number of sentences through which a name passes its score on; the authors' `top_k_sentence`."""
    threshold: float = 0.4
    """Least score of a name that passes scores on or is reached; the authors' `iteration_threshold`."""
    dense_weight: float = 2.0
    """Weight of the scaled cosine, compared with the names of a passage; the authors' `passage_ratio`."""
    passage_weight: float = 0.05
    """Weight of passages, compared with names, where the walk begins; the authors' `passage_node_weight`."""


class Reached(NamedTuple):
    """A name in a question, or one that was reached from such a name."""

    score: float
    """Score of the name when it was last reached, by which passages are weighted."""
    tier: int
    """Distance from the question: 1, the question names it; 2, it shares a sentence with such a name; and so on."""
    weight: float
    """Sum of the scores over all ways, with which the walk begins there."""


@dataclass(frozen=True, slots=True)
class NameLinks:
    """Matrices of which names occur in which sentences and passages."""

    names: KnownNames
    names_of_sentence: csr_array
    """Matrix with 1 where a name occurs in a sentence, shape (sentences, names)."""
    sentences_of_name: csr_array
    """Transpose of `names_of_sentence`, shape (names, sentences)."""
    passages_of_name: csr_array
    """Number of times that each name occurs in each passage, shape (names, passages)."""

    @classmethod
    def of(cls, sentences: Iterable[NamedSentence], passages: int) -> NameLinks:
        """Make the matrices from the sentences of this number of passages."""
        rows: dict[str, int] = {}
        within, occurring, count = array("i"), array("i"), 0
        for number, sentence in enumerate(sentences):
            count = number + 1
            for key in sentence.names:
                name = rows.setdefault(key, len(rows))
                within.extend((number, name))
                occurring.extend((name, sentence.passage))
        standing = count_places(within, (count, len(rows)))
        standing.data[:] = 1
        often = count_places(occurring, (len(rows), passages))
        return cls(KnownNames(list(rows)), standing, standing.T.tocsr(), often)

    def save(self, folder: Path) -> None:
        """Write the matrices of names to files in a folder."""
        self.names.save(folder)
        for name in _MATRICES:
            save_sparse(folder, name, getattr(self, name))

    @classmethod
    def open(cls, folder: Path) -> NameLinks:
        """Open the files that `save` wrote. Raises `RetrievalError` for other files."""
        return cls(KnownNames.open(folder), *(open_sparse(folder, name) for name in _MATRICES))

    def graph(self) -> PassageGraph:
        """Return the graph of passages, then names: an edge weighs the name's share of all occurrences of names in the
        passage."""
        in_passages = self.passages_of_name.T.tocsr()
        counts, totals = in_passages.tocoo(), np.asarray(in_passages.sum(axis=1)).ravel()
        row, column = counts.coords
        edges = np.stack([row, len(totals) + column], axis=1)
        return PassageGraph.of(len(totals) + len(self.names.keys), edges, counts.data / totals[row])


@dataclass(frozen=True)
class LinearRagIndex:
    """An `Index` of passages with the names in them. Files are memory-mapped, except for the names themselves."""

    documents: Sequence[Document]
    config: LinearRagConfig
    encoder: Encoder
    finder: NameFinder
    links: NameLinks
    graph: PassageGraph
    passages: Vectors
    sentences: Vectors

    def save(self, folder: Path) -> None:
        """Write the index into a folder; see `Index.save`."""
        self.finder.save(folder)
        self.links.save(folder)
        self.graph.save(folder)
        self.passages.save(folder / "passages.npy")
        self.sentences.save(folder / "sentences.npy")

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """Return the best `k` passages with reasons; see `Index.find`. Scores are shares of the best passage's; cosines
        where the question names nothing."""
        vector = await self.encoder.query(query)
        return await asyncio.to_thread(self._search, query, vector, k)

    def _search(self, query: str, vector: np.ndarray, k: int) -> list[FoundPassage]:
        cosines = self.passages.scores(vector)
        reached = self._reach(vector, self._seeds(query))
        if not reached:
            why = "the question names nothing of the corpus; by cosine"
            return [FoundPassage.of(self.documents[row], score, why) for row, score in best_rows(cosines, k)]
        start = self._start(cosines, reached)
        scores = self.graph.page_rank(start, self.config.damping)[: len(self.documents)]
        best = best_rows(scores / scores.max(), k)
        return [FoundPassage.of(self.documents[row], score, self._explain(row, reached)) for row, score in best]

    def places_of(self, name: str) -> list[Place]:
        """Return the node of a name, if the index has the name; see `LinkedIndex.places_of`."""
        row = self.links.names.rows.get(key_of(name))
        return [] if row is None else [("name", row)]

    def text_of(self, place: Place) -> str:
        """Return the text of a name; see `LinkedIndex.text_of`."""
        return self.links.names.keys[place[1]]

    def links_of(self, place: Place) -> Iterator[Link]:
        """Return the neighbours of a node: names and passages, by how often one occurs in the other."""
        kind, row = place
        if kind == "name":
            return linked("passage", self.links.passages_of_name, row)
        return linked("name", self._names_of_passage, row)

    @cached_property
    def _names_of_passage(self) -> csr_array:
        return self.links.passages_of_name.T.tocsr()

    def _seeds(self, query: str) -> dict[int, float]:
        """Rows of the names in a question, and how surely each is meant."""
        seeds: dict[int, float] = {}
        for key in self.finder.question_names(query, self.links.names.rows):
            row = self.links.names.rows.get(key)
            found = self.links.names.nearest(key) if row is None else (row, 1.0)
            if found:
                seeds[found[0]] = max(found[1], seeds.get(found[0], 0.0))
        return seeds

    def _reach(self, vector: np.ndarray, seeds: Mapping[int, float]) -> dict[int, Reached]:
        """The names that a question leads to. A sentence is used once."""
        reached = {row: Reached(score, 1, score) for row, score in seeds.items()}
        current, used = dict(seeds), set[int]()
        for tier in range(2, self.config.rounds + 2):
            found: dict[int, float] = {}
            for name in (name for name, score in current.items() if score >= self.config.threshold):
                for sentence, cosine in self._nearest_sentences(name, vector, used):
                    used.add(sentence)
                    score = current[name] * cosine
                    if score < self.config.threshold:
                        continue
                    for other in row_of(self.links.names_of_sentence, sentence)[0].tolist():
                        before = reached[other].weight if other in reached else 0.0
                        reached[other] = Reached(score, tier, before + score)
                        found[other] = score
            current = found
        return reached

    def _nearest_sentences(self, name: int, vector: np.ndarray, used: set[int]) -> list[tuple[int, float]]:
        rows = row_of(self.links.sentences_of_name, name)[0]
        if used:
            rows = rows[~np.isin(rows, list(used))]
        cosines = self.sentences.matrix[rows] @ vector
        return [(int(rows[at]), cosine) for at, cosine in best_rows(cosines, self.config.sentences_per_name)]

    def _start(self, cosines: np.ndarray, reached: Mapping[int, Reached]) -> np.ndarray:
        """Where the walk begins: passages, then names."""
        config, passages = self.config, len(self.documents)
        bonus = np.zeros(passages)
        for name, found in reached.items():
            rows, counts = row_of(self.links.passages_of_name, name)
            bonus[rows] += found.score * np.log1p(counts) / found.tier
        start = np.zeros(len(self.graph))
        start[:passages] = config.passage_weight * (config.dense_weight * min_max(cosines) + np.log1p(bonus))
        for name, found in reached.items():
            start[passages + name] = found.weight
        return start

    def _explain(self, row: int, reached: Mapping[int, Reached]) -> str:
        """Which of the names that the question led to stand in a passage, the question's own first."""
        there = [(found.tier, -found.weight, name) for name, found in reached.items() if self._stands(name, row)]
        keys = [self.links.names.keys[name] + " (led to)" * (tier > 1) for tier, _, name in sorted(there)]
        return f"names {', '.join(keys)}" if keys else "names nothing that the question leads to; near it"

    def _stands(self, name: int, passage: int) -> bool:
        rows = row_of(self.links.passages_of_name, name)[0]
        at = np.searchsorted(rows, passage)
        return bool(at < len(rows) and rows[at] == passage)


def _read(documents: Sequence[Document], finder: NameFinder, known: int) -> tuple[NameLinks, list[str]]:
    """The names of all sentences, and what is embedded of those that are not of the first `known` passages: a sentence
    stands for its passage, which mostly says `he` and `it` of its title."""
    embedded: list[str] = []

    def read() -> Iterator[NamedSentence]:
        for sentence in finder.sentences(documents):
            if sentence.passage >= known:
                title, text = documents[sentence.passage].title, sentence.text
                embedded.append(f"{title}. {text}" if title and title != text else text)
            yield sentence

    return NameLinks.of(read(), len(documents)), embedded


async def _build(
    documents: Sequence[Document], config: LinearRagConfig, tools: Workbench, before: LinearRagIndex | None = None
) -> LinearRagIndex:
    """Of an index of the first documents that was there before the vectors are kept. Names are found anew everywhere,
    which takes seconds: new titles are names in old texts."""
    finder = await asyncio.to_thread(NameFinder.of, documents)
    links, new = await asyncio.to_thread(_read, documents, finder, len(before.passages) if before else 0)
    passages = await embed_passages("passages", documents, tools, before.passages if before else None)
    sentences = await embed("sentences", new, tools)
    sentences = before.sentences.with_more(sentences) if before else sentences
    graph = await asyncio.to_thread(links.graph)
    return LinearRagIndex(documents, config, tools.vectors, finder, links, graph, passages, sentences)


async def _add(index: Any, documents: Sequence[Document], config: LinearRagConfig, tools: Workbench) -> LinearRagIndex:
    return await _build(documents, config, tools, index)


def _open(folder: Path, documents: Sequence[Document], config: LinearRagConfig, tools: Workbench) -> LinearRagIndex:
    passages, sentences = (Vectors.open(folder / f"{name}.npy") for name in ("passages", "sentences"))
    parts = NameFinder.open(folder), NameLinks.open(folder), PassageGraph.open(folder)
    return LinearRagIndex(documents, config, tools.vectors, *parts, passages, sentences)


BACKEND = Backend(name="linear_rag", packages=("scipy",), config=LinearRagConfig, build=_build, open=_open, add=_add)
