"""Dense retrieval: cosine over embeddings, exact (faiss IndexFlatIP), in memory or memory-mapped from disk."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from retrieval.encoder import Encoder
from schemas import Document, Passage, RetrievalError

if TYPE_CHECKING:
    import numpy as np

_FORMAT = 1
_VECTORS, _TEXTS, _META = "vectors.faiss", "texts.arrow", "meta.json"
_COLUMNS = pa.schema([("id", pa.string()), ("title", pa.string()), ("text", pa.string())])


@dataclass(frozen=True, slots=True)
class DenseIndex:
    """Vectors with their texts, row by row."""

    vectors: Any
    """A faiss index."""
    texts: pa.Table
    """Columns id, title, text."""

    @classmethod
    def build(cls, documents: Sequence[Document], vectors: np.ndarray) -> DenseIndex:
        """From documents and their vectors, shape (len(documents), dimension)."""
        import faiss

        index = faiss.IndexFlatIP(vectors.shape[1])
        index.add(vectors)  # type: ignore[call-arg]
        return cls(index, _texts(documents))

    def save(self, folder: Path, encoder_name: str) -> None:
        """Write to a folder, all of it or nothing. Raises `RetrievalError` when the folder exists."""
        import faiss

        if folder.exists():
            raise RetrievalError(f"{folder} exists; give another folder, or remove it first")
        temporary = folder.with_name(f".{folder.name}.tmp-{uuid.uuid4().hex[:8]}")
        temporary.mkdir(parents=True)
        try:
            faiss.write_index(self.vectors, str(temporary / _VECTORS))
            with pa.ipc.new_file(str(temporary / _TEXTS), self.texts.schema) as writer:
                writer.write_table(self.texts)
            meta = {
                "format": _FORMAT,
                "encoder": encoder_name,
                "dimension": self.vectors.d,
                "documents": self.texts.num_rows,
            }
            (temporary / _META).write_text(json.dumps(meta, indent=1))
            os.replace(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    @classmethod
    def open(cls, folder: Path, encoder_name: str) -> DenseIndex:
        """Open memory-mapped. Raises `RetrievalError` when the index is missing, damaged, or of another encoder."""
        import faiss

        meta = _read_meta(folder)
        if meta["encoder"] != encoder_name:
            raise RetrievalError(
                f"{folder} was made with the encoder {meta['encoder']!r}, not {encoder_name!r}: build it again"
            )
        try:
            vectors = faiss.read_index(str(folder / _VECTORS), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
            texts = pa.ipc.open_file(pa.memory_map(str(folder / _TEXTS))).read_all()
        except (RuntimeError, OSError, pa.ArrowInvalid) as error:
            raise RetrievalError(f"{folder} is damaged ({str(error).splitlines()[0]}): build it again") from error
        if not vectors.ntotal == texts.num_rows == meta["documents"]:
            raise RetrievalError(f"{folder} is damaged (vectors and texts differ in number): build it again")
        return cls(vectors, texts)

    def search(self, vector: np.ndarray, k: int) -> list[Passage]:
        """The best `k` by cosine; ties in the order of the documents."""
        k = min(k, self.texts.num_rows)
        if k <= 0:
            return []
        scores, rows = self.vectors.search(vector.reshape(1, -1), k)
        ranked = sorted(zip(scores[0].tolist(), rows[0].tolist(), strict=True), key=lambda hit: (-hit[0], hit[1]))
        return [self._passage(row, score) for score, row in ranked]

    def _passage(self, row: int, score: float) -> Passage:
        fields = {name: self.texts.column(name)[row].as_py() for name in _COLUMNS.names}
        return Passage(**fields, score=round(score, 6))


class DenseRetriever:
    """An index with the encoder for its queries."""

    def __init__(self, index: DenseIndex, encoder: Encoder) -> None:
        self._index, self._encoder = index, encoder

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """See `base.Retriever`."""
        return self._index.search(await self._encoder.query(query), k)


def embedded_text(document: Document) -> str:
    """What of a document is embedded: title and text."""
    return f"{document.title}. {document.text}" if document.title else document.text


def _texts(documents: Sequence[Document]) -> pa.Table:
    rows = [{"id": d.id, "title": d.title, "text": d.text} for d in documents]
    return pa.Table.from_pylist(rows, schema=_COLUMNS)


def _read_meta(folder: Path) -> dict[str, Any]:
    try:
        meta = json.loads((folder / _META).read_text())
    except FileNotFoundError as error:
        raise RetrievalError(f"{folder} holds no index: make one with `trailforge index`") from error
    except ValueError as error:
        raise RetrievalError(f"{folder / _META} is damaged: build the index again") from error
    if meta.get("format") != _FORMAT:
        raise RetrievalError(f"{folder} has index format {meta.get('format')}, this trailforge reads {_FORMAT}")
    return meta
