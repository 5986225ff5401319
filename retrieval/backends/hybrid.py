"""Dense and lexical similarity together, and the titles that a question or a good passage names: the cheap baseline.

A passage scores

    cosine + lexical_weight × BM25                 each min-max over all passages
    + title_weight                                 if the question names its title
    + link_weight × the best such sum of a passage that names its title, of the best `linking_passages`

so that of "Where was the director of Metropolis born?" also the director's own passage is found. It builds on titles
that name what their passages are about, as an encyclopedia's do.
"""

from __future__ import annotations

import asyncio
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
    min_max,
    open_sparse,
    row_of,
    save_sparse,
    sparse,
    title_key,
)
from trailforge.retrieval.backends.vectors import Vectors, best_rows, embed_passages
from trailforge.retrieval.encoder import Encoder
from trailforge.schemas import Document

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_NO_WORD = "no passage has a word of the question"


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridConfig:
    """Weights beside that of min-max cosine, which is 1; the module says what of."""

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
        has = [(keys.rows[key], passage) for passage, key in enumerate(own) if key]
        names = [
            (passage, keys.rows[key])
            for passage, document in enumerate(documents)
            for key in dict.fromkeys(finder.titles(document.text))
            if key != own[passage]
        ]
        titles, passages = len(keys.keys), len(documents)
        return cls(
            finder,
            keys,
            passages=sparse(has, np.ones(len(has)), (titles, passages)),
            named=sparse(names, np.ones(len(names)), (passages, titles)),
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
    """An `Index`: vectors, an index of words, and titles."""

    documents: Sequence[Document]
    config: HybridConfig
    encoder: Encoder
    vectors: Vectors
    words: Bm25Retriever
    titles: _Titles

    def save(self, folder: Path) -> None:
        """See `Index`."""
        self.vectors.save(folder / "vectors.npy")
        self.words.save(folder)
        self.titles.save(folder)

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """See `Index`."""
        vector = await self.encoder.query(query)
        return await asyncio.to_thread(self._search, query, vector, k)

    def _search(self, query: str, vector: np.ndarray, k: int) -> list[FoundPassage]:
        cosines, words = self.vectors.scores(vector), self.words.scores(query)
        scores = min_max(cosines).astype(float)
        if words.any():
            scores += self.config.lexical_weight * min_max(words)
        asked = self._asked_titles(query)
        scores[asked] += self.config.title_weight
        links = self._links(scores)
        for row, (score, _) in links.items():
            scores[row] += self.config.link_weight * score
        found: list[FoundPassage] = []
        for row, score in best_rows(scores, k):
            why = f"cosine {cosines[row]:.3f}, " + (f"BM25 {words[row]:.3f}" if words.any() else _NO_WORD)
            why += ", the question names its title" * (row in asked)
            if row in links:
                why += f", {self.documents[links[row][1]].title or 'a passage without a title'} names its title"
            found.append(FoundPassage.of(self.documents[row], score, why))
        return found

    def _asked_titles(self, query: str) -> list[int]:
        titles = self.titles
        named = titles.finder.question_names(query, titles.keys.rows)
        rows = (titles.keys.rows[key] for key in named if key in titles.keys.rows)
        return [passage for row in rows for passage in row_of(titles.passages, row)[0].tolist()]

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
