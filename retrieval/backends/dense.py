"""Dense retrieval: cosine of a query's embedding with those of the passages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trailforge.retrieval.backends.declaration import Backend, FoundPassage, Workbench
from trailforge.retrieval.backends.vectors import Vectors, embed, embedded_text
from trailforge.retrieval.encoder import Encoder
from trailforge.schemas import Document, Passage, RetrievalError

if TYPE_CHECKING:
    import numpy as np

_VECTORS = "vectors.npy"
_SEARCHED_AT_ONCE = 2_000
"""Vectors that are searched within a tenth of a millisecond, less than another thread takes to come to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseConfig:
    """How the nearest vectors are found."""


@dataclass(frozen=True, slots=True)
class DenseIndex:
    """Vectors with their documents, row by row."""

    vectors: Vectors
    documents: Sequence[Document]

    @classmethod
    def build(cls, documents: Sequence[Document], vectors: np.ndarray) -> DenseIndex:
        """From documents and their vectors, shape (len(documents), dimension), searched exactly."""
        return cls(Vectors(vectors), documents)

    def search(self, vector: np.ndarray, k: int) -> list[Passage]:
        """The best `k` by cosine with `vector`, shape (dimension,); ties in the order of the documents."""
        return [self._passage(row, score) for score, row in self.vectors.search(vector, k)]

    def _passage(self, row: int, score: float) -> Passage:
        document = self.documents[row]
        return Passage(id=document.id, title=document.title, text=document.text, score=score)


class DenseRetriever:
    """Vectors of documents with the encoder for queries; an `Index` and a `Retriever`."""

    def __init__(self, index: DenseIndex, encoder: Encoder) -> None:
        self._index, self._encoder = index, encoder

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """See `Index`."""
        return [
            FoundPassage(passage=passage, why=f"cosine {passage.score:.3f}", sources=(passage.id,))
            for passage in await self.retrieve(query, k)
        ]

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """See `base.Retriever`."""
        vector = await self._encoder.query(query)
        if len(self._index.vectors) <= _SEARCHED_AT_ONCE:
            return self._index.search(vector, k)
        return await asyncio.to_thread(self._index.search, vector, k)

    def save(self, folder: Path) -> None:
        """See `Index`."""
        self._index.vectors.save(folder / _VECTORS)


async def _build(documents: Sequence[Document], config: DenseConfig, tools: Workbench) -> DenseRetriever:
    vectors = await embed("vectors", [embedded_text(document) for document in documents], tools)
    return DenseRetriever(DenseIndex(vectors, documents), tools.vectors)


def _open(folder: Path, documents: Sequence[Document], config: DenseConfig, tools: Workbench) -> DenseRetriever:
    vectors = Vectors.open(folder / _VECTORS)
    if len(vectors) != len(documents):
        raise RetrievalError(f"{folder} holds {len(vectors)} vectors of {len(documents)} passages: build it again")
    return DenseRetriever(DenseIndex(vectors, documents), tools.vectors)


BACKEND = Backend(name="dense", config=DenseConfig, build=_build, open=_open)
