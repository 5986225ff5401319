"""LinearRAG (arXiv 2510.10114): names, sentences and passages in one graph that no model has to write.

A question's names are the seeds. Each hands its score on through its sentences that are nearest to the question, to the
names in them; names, the passages that hold them and dense similarity together say where a random walk over names and
passages begins, and where it mostly is are the passages found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trailforge.retrieval.backends.declaration import Backend, FoundPassage, Index, Workbench
from trailforge.retrieval.backends.graph import (
    KnownNames,
    Mentions,
    NamedSentence,
    NameFinder,
    PassageGraph,
    best_rows,
    min_max,
    open_sparse,
    row_of,
    save_sparse,
)
from trailforge.retrieval.backends.vectors import Vectors, embed, embedded_text
from trailforge.retrieval.encoder import Encoder
from trailforge.schemas import Document

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearRagConfig:
    """The numbers with which the authors' program runs when it is told nothing else.

    Their settings for single data sets have thresholds from .1 to .5. Theirs are chunks without titles: that a title is
    a name, of every sentence of its passage too, and is embedded with each, is ours. Names are found by rule and by the
    titles of the corpus (`graph.NameFinder`), not by spaCy, and a name that the corpus lacks is taken for the one that
    shares most of its words, not for the nearest by embedding. Edges between one chunk and the next are left out:
    passages of a corpus are in no order.
    """

    damping: float = 0.5
    """Share of the steps that go on; at the others the walk begins anew."""
    rounds: int = 2
    """How often scores are handed on; the authors' `max_iterations` is one more."""
    sentences_per_name: int = 3
    """Through which a name hands its score on; the authors' `top_k_sentence`."""
    threshold: float = 0.4
    """Least score of a name that hands on or is reached; the authors' `iteration_threshold`."""
    dense_weight: float = 2.0
    """Of min-max cosine beside the names of a passage; the authors' `passage_ratio`."""
    passage_weight: float = 0.05
    """Of passages beside names where the walk begins; the authors' `passage_node_weight`."""


class Reached(NamedTuple):
    """A name that a question names, or that was reached from one."""

    score: float
    """As it was reached last, which is what passages are weighed by."""
    tier: int
    """1: the question names it; 2: in a sentence with such a one; and so on."""
    weight: float
    """Sum over all the ways, which is where the walk begins."""


@dataclass(frozen=True, slots=True)
class _Links:
    """Which names stand where, by the row of whatever is asked about."""

    names_of_sentence: csr_array
    """Shape (sentences, names)."""
    sentences_of_name: csr_array
    """Shape (names, sentences)."""
    passages_of_name: csr_array
    """How often, shape (names, passages)."""

    @classmethod
    def of(cls, mentions: Mentions) -> _Links:
        return cls(mentions.in_sentences, mentions.in_sentences.T.tocsr(), mentions.in_passages.T.tocsr())

    def save(self, folder: Path) -> None:
        for name in self.__slots__:
            save_sparse(folder, name, getattr(self, name))

    @classmethod
    def open(cls, folder: Path) -> _Links:
        return cls(*(open_sparse(folder, name) for name in cls.__slots__))


class LinearRagIndex:
    """An `Index`: passages with the names in them. Files are memory-mapped, but for the names themselves."""

    def __init__(
        self,
        documents: Sequence[Document],
        config: LinearRagConfig,
        encoder: Encoder,
        *,
        finder: NameFinder,
        names: KnownNames,
        links: _Links,
        graph: PassageGraph,
        passages: Vectors,
        sentences: Vectors,
    ) -> None:
        self._documents, self._config, self._encoder = documents, config, encoder
        self._finder, self._names, self._links, self._graph = finder, names, links, graph
        self.passages, self.sentences = passages, sentences

    @classmethod
    def of(
        cls,
        documents: Sequence[Document],
        config: LinearRagConfig,
        encoder: Encoder,
        finder: NameFinder,
        read: Sequence[NamedSentence],
        passages: Vectors,
        sentences: Vectors,
    ) -> LinearRagIndex:
        """From sentences that have been read, and vectors of them and the passages."""
        mentions = Mentions.of(read, len(documents))
        return cls(
            documents,
            config,
            encoder,
            finder=finder,
            names=KnownNames(mentions.keys),
            links=_Links.of(mentions),
            graph=_graph(mentions),
            passages=passages,
            sentences=sentences,
        )

    @classmethod
    def open(
        cls, folder: Path, documents: Sequence[Document], config: LinearRagConfig, encoder: Encoder
    ) -> LinearRagIndex:
        """What `save` wrote. Raises `RetrievalError` for what is not that."""
        return cls(
            documents,
            config,
            encoder,
            finder=NameFinder.open(folder),
            names=KnownNames.open(folder),
            links=_Links.open(folder),
            graph=PassageGraph.open(folder),
            passages=Vectors.open(folder / "passages.npy"),
            sentences=Vectors.open(folder / "sentences.npy"),
        )

    def save(self, folder: Path) -> None:
        """See `Index`."""
        self._finder.save(folder)
        self._names.save(folder)
        self._links.save(folder)
        self._graph.save(folder)
        self.passages.save(folder / "passages.npy")
        self.sentences.save(folder / "sentences.npy")

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """See `Index`. Scores are shares of the best passage's; cosines, where the question names nothing."""
        vector = await self._encoder.query(query)
        return await asyncio.to_thread(self._search, query, vector, k)

    def _search(self, query: str, vector: np.ndarray, k: int) -> list[FoundPassage]:
        cosines = self.passages.scores(vector)
        reached = self._reach(vector, self._seeds(query))
        if not reached:
            why = "the question names nothing of the corpus; by cosine"
            return [FoundPassage.of(self._documents[row], score, why) for row, score in best_rows(cosines, k)]
        start = self._start(cosines, reached)
        scores = self._graph.page_rank(start, self._config.damping)[: len(self._documents)]
        best = best_rows(scores / scores.max(), k)
        return [FoundPassage.of(self._documents[row], score, self._explain(row, reached)) for row, score in best]

    def _seeds(self, query: str) -> dict[int, float]:
        """Rows of the names in a question, and how surely each is meant."""
        seeds: dict[int, float] = {}
        for key in self._finder.question_names(query, self._names.rows):
            row = self._names.rows.get(key)
            found = self._names.nearest(key) if row is None else (row, 1.0)
            if found:
                seeds[found[0]] = max(found[1], seeds.get(found[0], 0.0))
        return seeds

    def _reach(self, vector: np.ndarray, seeds: Mapping[int, float]) -> dict[int, Reached]:
        """The names that a question leads to. A sentence is used once."""
        reached = {row: Reached(score, 1, score) for row, score in seeds.items()}
        current, used = dict(seeds), set[int]()
        for tier in range(2, self._config.rounds + 2):
            found: dict[int, float] = {}
            for name in (name for name, score in current.items() if score >= self._config.threshold):
                for sentence, cosine in self._nearest_sentences(name, vector, used):
                    used.add(sentence)
                    score = current[name] * cosine
                    if score < self._config.threshold:
                        continue
                    for other in row_of(self._links.names_of_sentence, sentence)[0].tolist():
                        before = reached[other].weight if other in reached else 0.0
                        reached[other] = Reached(score, tier, before + score)
                        found[other] = score
            current = found
        return reached

    def _nearest_sentences(self, name: int, vector: np.ndarray, used: set[int]) -> list[tuple[int, float]]:
        rows = row_of(self._links.sentences_of_name, name)[0]
        if used:
            rows = rows[~np.isin(rows, list(used))]
        cosines = self.sentences.matrix[rows] @ vector
        return [(int(rows[at]), cosine) for at, cosine in best_rows(cosines, self._config.sentences_per_name)]

    def _start(self, cosines: np.ndarray, reached: Mapping[int, Reached]) -> np.ndarray:
        """Where the walk begins: passages, then names."""
        config, passages = self._config, len(self._documents)
        bonus = np.zeros(passages)
        for name, found in reached.items():
            rows, counts = row_of(self._links.passages_of_name, name)
            bonus[rows] += found.score * np.log1p(counts) / found.tier
        start = np.zeros(len(self._graph))
        start[:passages] = config.passage_weight * (config.dense_weight * min_max(cosines) + np.log1p(bonus))
        for name, found in reached.items():
            start[passages + name] = found.weight
        return start

    def _explain(self, row: int, reached: Mapping[int, Reached]) -> str:
        """Which of the names that the question led to stand in a passage, the question's own first."""
        there = [(found.tier, -found.weight, name) for name, found in reached.items() if self._stands(name, row)]
        keys = [self._names.keys[name] + " (led to)" * (tier > 1) for tier, _, name in sorted(there)]
        return f"names {', '.join(keys)}" if keys else "names nothing that the question leads to; near it"

    def _stands(self, name: int, passage: int) -> bool:
        rows = row_of(self._links.passages_of_name, name)[0]
        at = np.searchsorted(rows, passage)
        return bool(at < len(rows) and rows[at] == passage)


def _graph(mentions: Mentions) -> PassageGraph:
    """Passages, then names: an edge weighs what a name has of all the names of a passage, each counted."""
    counts = mentions.in_passages.tocoo()
    totals = np.asarray(mentions.in_passages.sum(axis=1)).ravel()
    row, column = counts.coords
    edges = np.stack([row, len(totals) + column], axis=1)
    return PassageGraph.of(len(totals) + len(mentions.keys), edges, counts.data / totals[row])


def _read_with_title(documents: Sequence[Document], sentences: Sequence[NamedSentence]) -> list[str]:
    """What of sentences is embedded: it stands for its passage, which mostly says `he` and `it` of its title."""
    titles = ((documents[sentence.passage].title, sentence.text) for sentence in sentences)
    return [f"{title}. {text}" if title and title != text else text for title, text in titles]


def _read_names(documents: Sequence[Document]) -> tuple[NameFinder, list[NamedSentence]]:
    finder = NameFinder.of(documents)
    return finder, list(finder.sentences(documents))


async def _build(documents: Sequence[Document], config: LinearRagConfig, tools: Workbench) -> LinearRagIndex:
    finder, read = await asyncio.to_thread(_read_names, documents)
    passages = await embed("passages", [embedded_text(document) for document in documents], tools)
    sentences = await embed("sentences", _read_with_title(documents, read), tools)
    of = LinearRagIndex.of
    return await asyncio.to_thread(of, documents, config, tools.vectors, finder, read, passages, sentences)


async def _add(
    index: Index, documents: Sequence[Document], config: LinearRagConfig, tools: Workbench
) -> LinearRagIndex:
    """Embeds what is new. Names are found anew everywhere, which takes seconds: new titles are names in old texts."""
    assert isinstance(index, LinearRagIndex)
    known = len(index.passages)
    finder, read = await asyncio.to_thread(_read_names, documents)
    new = [sentence for sentence in read if sentence.passage >= known]
    passages = await embed("passages", [embedded_text(document) for document in documents[known:]], tools)
    sentences = await embed("sentences", _read_with_title(documents, new), tools)
    passages, sentences = index.passages.with_more(passages), index.sentences.with_more(sentences)
    of = LinearRagIndex.of
    return await asyncio.to_thread(of, documents, config, tools.vectors, finder, read, passages, sentences)


def _open(folder: Path, documents: Sequence[Document], config: LinearRagConfig, tools: Workbench) -> LinearRagIndex:
    return LinearRagIndex.open(folder, documents, config, tools.vectors)


BACKEND = Backend(name="linear_rag", config=LinearRagConfig, build=_build, open=_open, add=_add)
