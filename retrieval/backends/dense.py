"""Dense retrieval: ranks passages by the cosine between the query's embedding and theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trailforge.retrieval.backends.declaration import SEARCHED_AT_ONCE, Backend, FoundPassage, Workbench, passage_of
from trailforge.retrieval.backends.vectors import AnnConfig, Vectors, embed_passages, sample_queries
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.schemas import Document, Passage, RetrievalError

if TYPE_CHECKING:
    import numpy as np

_VECTORS = "vectors.npy"


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseConfig(AnnConfig):
    """Settings of dense retrieval; see `AnnConfig`."""


@dataclass(frozen=True, slots=True)
class DenseIndex:
    """Vectors with their documents, row by row."""

    vectors: Vectors
    documents: Sequence[Document]

    @classmethod
    def build(cls, documents: Sequence[Document], vectors: np.ndarray) -> DenseIndex:
        """Make an index from documents and their vectors, shape (len(documents), dimension); it is searched exactly."""
        return cls(Vectors(vectors), documents)

    def search(self, vector: np.ndarray, k: int) -> list[Passage]:
        """Return the best `k` by cosine with `vector`, shape (dimension,); ties in the order of the documents."""
        return [passage_of(self.documents[row], score) for score, row in self.vectors.search(vector, k)]


class DenseRetriever:
    """Vectors of documents with the encoder for queries; an `Index` and a `Retriever`."""

    def __init__(self, index: DenseIndex, encoder: Encoder) -> None:
        self._index, self._encoder = index, encoder
        self.vectors = index.vectors

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """Return the best `k` passages with reasons; see `Index.find`."""
        return _explain(await self.retrieve(query, k))

    async def find_many(self, queries: Sequence[str], k: int) -> list[list[FoundPassage]]:
        """Run `find` for each query, in one pass of the encoder. Scores may differ from those of `find` in the last
        decimal."""
        vectors = await self._encoder.queries(queries)
        return await asyncio.to_thread(lambda: [_explain(self._index.search(vector, k)) for vector in vectors])

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """Return the best `k` passages; see `base.Retriever.retrieve`."""
        vector = await self._encoder.query(query)
        if len(self.vectors) <= SEARCHED_AT_ONCE:
            return self._index.search(vector, k)
        return await asyncio.to_thread(self._index.search, vector, k)

    @property
    def stats(self) -> dict[str, Any]:
        """Return figures that describe the index: its kind, and the recall that was measured."""
        ann = self.vectors.ann
        return {"kind": "flat", "vectors": len(self.vectors)} if ann is None else asdict(ann.stats)

    def save(self, folder: Path) -> None:
        """Write the index into a folder; see `Index.save`."""
        self.vectors.save(folder / _VECTORS)


def _explain(passages: Sequence[Passage]) -> list[FoundPassage]:
    return [
        FoundPassage(passage=passage, why=f"cosine {passage.score:.3f}", sources=(passage.id,)) for passage in passages
    ]


async def _build(documents: Sequence[Document], config: DenseConfig, tools: Workbench) -> DenseRetriever:
    vectors = await embed_passages("vectors", documents, tools)
    sampled = await sample_queries(len(vectors), documents, config, tools)
    indexed = await asyncio.to_thread(vectors.indexed, config, sampled)
    return DenseRetriever(DenseIndex(indexed, documents), tools.vectors)


async def _add(index: Any, documents: Sequence[Document], config: DenseConfig, tools: Workbench) -> DenseRetriever:
    before: Vectors = index.vectors
    more = await embed_passages("vectors", documents[len(before) :], tools)
    sampled = await sample_queries(len(documents), documents, config, tools)
    vectors = await asyncio.to_thread(before.grown, more, config, sampled)
    return DenseRetriever(DenseIndex(vectors, documents), tools.vectors)


def _open(folder: Path, documents: Sequence[Document], config: DenseConfig, tools: Workbench) -> DenseRetriever:
    vectors = Vectors.open(folder / _VECTORS)
    if len(vectors) != len(documents):
        raise RetrievalError(f"{folder} holds {len(vectors)} vectors of {len(documents)} passages: build it again")
    return DenseRetriever(DenseIndex(vectors, documents), tools.vectors)


BACKEND = Backend(name="dense", config=DenseConfig, build=_build, open=_open, add=_add, keeps_words=False)
