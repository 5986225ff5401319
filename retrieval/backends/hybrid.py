"""Hybrid retrieval: dense and lexical similarity together, and the titles that a question or a good passage names. It
is a cheap baseline.

A passage scores

    cosine + lexical_weight × BM25                 each min-max over all passages
    + title_weight                                 if the question names its title
    + link_weight × the best such sum of a passage that names its title, of the best `linking_passages`

so that of "Where was the director of Metropolis born?" also the director's own passage is found. It builds on titles
that name what their passages are about, as an encyclopedia's do.

The longest title wins: what a question names is before what a part of that name would be ("Louis Crato, Count of
Nassau" before "Crato, Count of Nassau"), and what the whole question names is before all else.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trailforge.retrieval.backends.bm25 import Bm25Config, Bm25Retriever
from trailforge.retrieval.backends.declaration import Backend, FoundPassage, Workbench
from trailforge.retrieval.backends.graph import (
    KnownNames,
    NameFinder,
    count_places,
    key_of,
    min_max,
    open_sparse,
    parts_of,
    row_of,
    save_sparse,
    title_key,
)
from trailforge.retrieval.backends.vectors import Vectors, best_rows, embed_passages
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.schemas import Document

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_NO_WORD = "no passage has a word of the question"
_JUST_ABOVE = 2e-6
"""So far are scores apart of which the higher is higher when both are rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridConfig:
    """Weights beside that of the scaled cosine, which is 1; the module's docstring has the formula."""

    lexical_weight: float = 0.6
    title_weight: float = 0.3
    link_weight: float = 0.3
    linking_passages: int = 5
    bm25: Bm25Config = field(default_factory=Bm25Config)


@dataclass(frozen=True, slots=True)
class _Titles:
    finder: NameFinder
    keys: KnownNames
    passages: csr_array
    """1 where a passage has the title, shape (titles, passages)."""
    named: csr_array
    """1 where a passage names the title of others, shape (passages, titles)."""

    @classmethod
    def of(cls, documents: Sequence[Document]) -> _Titles:
        finder = NameFinder.of(documents)
        own = [title_key(document.title) for document in documents]
        keys = KnownNames(list(dict.fromkeys(key for key in own if key)))
        has, names = array("i"), array("i")
        for passage, document in enumerate(documents):
            if own[passage]:
                has.extend((keys.rows[own[passage]], passage))
            for key in dict.fromkeys(finder.titles(document.text)):
                if key != own[passage]:
                    names.extend((passage, keys.rows[key]))
        titles, passages = len(keys.keys), len(documents)
        return cls(
            finder,
            keys,
            passages=count_places(has, (titles, passages)),
            named=count_places(names, (passages, titles)),
        )

    def save(self, folder: Path) -> None:
        self.finder.save(folder)
        self.keys.save(folder)
        save_sparse(folder, "titled", self.passages)
        save_sparse(folder, "named", self.named)

    @classmethod
    def open(cls, folder: Path) -> _Titles:
        return cls(
            NameFinder.open(folder),
            KnownNames.open(folder),
            open_sparse(folder, "titled"),
            open_sparse(folder, "named"),
        )


@dataclass(frozen=True, slots=True)
class HybridIndex:
    """An `Index` of vectors, words and titles."""

    documents: Sequence[Document]
    config: HybridConfig
    encoder: Encoder
    vectors: Vectors
    words: Bm25Retriever
    titles: _Titles

    def save(self, folder: Path) -> None:
        """Write the index into a folder; see `Index.save`."""
        self.vectors.save(folder / "vectors.npy")
        self.words.save(folder)
        self.titles.save(folder)

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """Return the best `k` passages with reasons; see `Index.find`."""
        vector = await self.encoder.query(query)
        return await asyncio.to_thread(self._search, query, vector, k)

    def _search(self, query: str, vector: np.ndarray, k: int) -> list[FoundPassage]:
        cosines, words = self.vectors.scores(vector), self.words.scores(query)
        scores = min_max(cosines).astype(float)
        if words.any():
            scores += self.config.lexical_weight * min_max(words)
        named = self._named_titles(query)
        asked = [row for key in named for row in self._titled(key)]
        scores[asked] += self.config.title_weight
        links = self._links(scores)
        for row, (score, _) in links.items():
            scores[row] += self.config.link_weight * score
        self._put_longest_first(query, named, scores)
        found: list[FoundPassage] = []
        for row, score in best_rows(scores, k):
            why = f"cosine {cosines[row]:.3f}, " + (f"BM25 {words[row]:.3f}" if words.any() else _NO_WORD)
            why += ", the question names its title" * (row in asked)
            if row in links:
                why += f", {self.documents[links[row][1]].title or 'a passage without a title'} names its title"
            found.append(FoundPassage.of(self.documents[row], score, why))
        return found

    def _named_titles(self, query: str) -> list[str]:
        """Keys of the titles that a question names, of those in one another the longest."""
        known = self.titles.keys.rows
        return [key for key in self.titles.finder.question_names(query, known) if key in known]

    def _titled(self, key: str) -> list[int]:
        """The passages with a title; none for one that there is not."""
        row = self.titles.keys.rows.get(key)
        return [] if row is None else row_of(self.titles.passages, row)[0].tolist()

    def _put_longest_first(self, query: str, named: Sequence[str], scores: np.ndarray) -> None:
        """Raise the passages that a question names, in their order, until no title in theirs is before the best."""
        whole = key_of(query)
        for key in sorted(named, key=len):
            rows = self._titled(key)
            inner = [row for part in parts_of(key) if part != key for row in self._titled(part)]
            others = np.setdiff1d(np.arange(len(scores)), rows) if key == whole else np.array(inner, int)
            if len(others) and (missing := scores[others].max() + _JUST_ABOVE - scores[rows].max()) > 0:
                scores[rows] += missing

    def _links(self, scores: np.ndarray) -> dict[int, tuple[float, int]]:
        """Passages whose titles the best name: the score of the best of these, and its row."""
        links: dict[int, tuple[float, int]] = {}
        for row, score in best_rows(scores, self.config.linking_passages):
            for title in row_of(self.titles.named, row)[0].tolist():
                for other in row_of(self.titles.passages, title)[0].tolist():
                    links.setdefault(other, (score, row))
        return links


async def _build(
    documents: Sequence[Document], config: HybridConfig, tools: Workbench, before: HybridIndex | None = None
) -> HybridIndex:
    """Words and titles are counted anew also where an index of the first documents was there before."""
    vectors = await embed_passages("vectors", documents, tools, before.vectors if before else None)
    words = await asyncio.to_thread(Bm25Retriever, documents, config.bm25)
    titles = await asyncio.to_thread(_Titles.of, documents)
    return HybridIndex(documents, config, tools.vectors, vectors, words, titles)


async def _add(index: Any, documents: Sequence[Document], config: HybridConfig, tools: Workbench) -> HybridIndex:
    return await _build(documents, config, tools, index)


def _open(folder: Path, documents: Sequence[Document], config: HybridConfig, tools: Workbench) -> HybridIndex:
    vectors, words = Vectors.open(folder / "vectors.npy"), Bm25Retriever.open(folder, documents)
    return HybridIndex(documents, config, tools.vectors, vectors, words, _Titles.open(folder))


BACKEND = Backend(name="hybrid", packages=("scipy",), config=HybridConfig, build=_build, open=_open, add=_add)
