"""Dense retrieval: cosine over embeddings, exact (faiss IndexFlatIP), in memory or memory-mapped from disk."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from trailforge.retrieval.encoder import Encoder
from trailforge.retrieval.seals import SEAL, is_as_sealed, seal
from trailforge.schemas import Document, Passage, RetrievalError, install_hint, parse_json

if TYPE_CHECKING:
    import numpy as np

Hit = tuple[float, int]
"""Score, rounded as in a passage, and row."""

_FORMAT = 1
_VECTORS, _TEXTS = "vectors.faiss", "texts.arrow"
META = "meta.json"
"""The file of an index with the hashes of the others."""
_COLUMNS = pa.schema([("id", pa.string()), ("title", pa.string()), ("text", pa.string())])
_SPARE_HITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexMeta:
    """How an index was made."""

    format: int
    encoder: str
    passage_prefix: str
    query_prefix: str = ""
    """What goes before queries, where whoever searches says nothing else. Vectors do not depend on it."""
    dimension: int
    documents: int
    sha256: dict[str, str]
    """Of each file."""


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
        index = _faiss().IndexFlatIP(vectors.shape[1])
        index.add(vectors)
        return cls(index, _texts(documents))

    def save(self, folder: Path, encoder: Encoder) -> None:
        """Write to a folder, all of it or nothing. Raises `RetrievalError` when the folder exists."""
        refuse_existing(folder)
        temporary = folder.with_name(f".{folder.name}.tmp-{uuid.uuid4().hex[:8]}")
        temporary.mkdir(parents=True)
        try:
            self._write(temporary, encoder)
            os.replace(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _write(self, folder: Path, encoder: Encoder) -> None:
        _faiss().write_index(self.vectors, str(folder / _VECTORS))
        with pa.ipc.new_file(str(folder / _TEXTS), self.texts.schema) as writer:
            writer.write_table(self.texts)
        meta = {
            "format": _FORMAT,
            "encoder": encoder.name,
            "passage_prefix": encoder.passage_prefix,
            "query_prefix": encoder.query_prefix,
            "dimension": self.vectors.d,
            "documents": self.texts.num_rows,
            "sha256": {name: _sha256(folder / name) for name in (_VECTORS, _TEXTS)},
        }
        (folder / META).write_text(json.dumps(seal(meta), indent=1), encoding="utf-8")

    @classmethod
    def open(cls, folder: Path, encoder: Encoder) -> DenseIndex:
        """Open memory-mapped, so that processes share one copy.

        Every byte is read once for its checksum, as the first search would do: a flat index is scanned whole.
        Raises `RetrievalError` when the index is missing, damaged, or of another encoder.
        """
        meta = read_meta(folder, encoder.name, encoder.passage_prefix)
        if meta.passage_prefix != encoder.passage_prefix:  # the encoder says none
            raise _other(folder, meta, "passage_prefix", encoder.passage_prefix)
        if meta.dimension != encoder.dimension:
            raise _other(folder, meta, "dimension", encoder.dimension)
        for name in (_VECTORS, _TEXTS):
            if not (folder / name).is_file() or _sha256(folder / name) != meta.sha256.get(name):
                raise RetrievalError(f"{folder / name} is missing or damaged: build the index again")
        faiss = _faiss()
        try:  # IO_FLAG_MMAP copies a flat index
            vectors = faiss.read_index(str(folder / _VECTORS), faiss.IO_FLAG_MMAP_IFC)
            texts = pa.ipc.open_file(pa.memory_map(str(folder / _TEXTS))).read_all()
        except (RuntimeError, OSError, pa.ArrowException) as error:
            raise RetrievalError(f"{folder} holds other files than an index does: build the index again") from error
        if (vectors.ntotal, vectors.d, texts.num_rows) != (meta.documents, meta.dimension, meta.documents):
            raise RetrievalError(f"{folder} holds files of several indexes: build the index again")
        return cls(vectors, texts)

    def search(self, vector: np.ndarray, k: int) -> list[Passage]:
        """The best `k` by cosine with `vector`, shape (dimension,); ties in the order of the documents."""
        rows = self.texts.num_rows
        k = min(k, rows)
        if k <= 0:
            return []
        width = min(k + _SPARE_HITS, rows)
        hits = self._hits(vector, width)
        while width < rows and hits[-1][0] == hits[k - 1][0]:
            width = min(2 * width, rows)
            hits = self._hits(vector, width)
        return [self._passage(row, score) for score, row in hits[:k]]

    def _hits(self, vector: np.ndarray, width: int) -> list[Hit]:
        """The `width` best rows, best first. Rows that tie with the last one may be missing."""
        scores, rows = self.vectors.search(vector.reshape(1, -1), width)
        hits = [(round(float(score), 6), int(row)) for score, row in zip(scores[0], rows[0], strict=True)]
        return sorted(hits, key=lambda hit: (-hit[0], hit[1]))

    def _passage(self, row: int, score: float) -> Passage:
        fields = {name: self.texts.column(name)[row].as_py() for name in _COLUMNS.names}
        return Passage(**fields, score=score)


class DenseRetriever:
    """An index with the encoder for its queries."""

    def __init__(self, index: DenseIndex, encoder: Encoder) -> None:
        self._index, self._encoder = index, encoder

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """See `base.Retriever`."""
        return await self._encoder.in_thread(self._search, query, k)

    def _search(self, query: str, k: int) -> list[Passage]:
        return self._index.search(self._encoder.encode_query(query), k)


def refuse_existing(folder: Path) -> None:
    """Raises `RetrievalError` when an index cannot be written there, for something is."""
    if folder.exists():
        raise RetrievalError(f"{folder} exists; give another folder, or remove it first")


def embedded_text(document: Document) -> str:
    """What of a document is embedded: title and text."""
    return f"{document.title}\n{document.text}" if document.title else document.text


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise RetrievalError(
            f"dense retrieval needs faiss: {install_hint('dense')}, or set retrieval.kind to bm25"
        ) from error
    return faiss


def _texts(documents: Sequence[Document]) -> pa.Table:
    rows = [{"id": d.id, "title": d.title, "text": d.text} for d in documents]
    return pa.Table.from_pylist(rows, schema=_COLUMNS)


def read_meta(folder: Path, encoder: str, passage_prefix: str = "") -> IndexMeta:
    """How an index was made, where it is of this encoder and prefix (empty: of any). Loads nothing.

    Raises `RetrievalError` when it is missing, damaged, or of another encoder or prefix.
    """
    try:
        content = parse_json((folder / META).read_bytes())
    except OSError as error:
        raise RetrievalError(
            f"{folder} holds no index: make one with `trailforge index`, and give the folder it wrote"
        ) from error
    except ValueError as error:
        raise RetrievalError(f"{folder / META} is damaged: build the index again") from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise RetrievalError(f"{folder / META} is not of index format {_FORMAT}: build the index again")
    meta = _parse_meta(content, folder / META)
    if meta.encoder != encoder:
        raise _other(folder, meta, "encoder", encoder)
    if passage_prefix and meta.passage_prefix != passage_prefix:
        raise _other(folder, meta, "passage_prefix", passage_prefix)
    return meta


def _parse_meta(content: dict[str, Any], path: Path) -> IndexMeta:
    types = {"format": int, "dimension": int, "documents": int, "sha256": dict}
    names = {field.name for field in fields(IndexMeta)}
    given = {"query_prefix": "", **{name: value for name, value in content.items() if name != SEAL}}
    if given.keys() != names or not all(isinstance(given[name], types.get(name, str)) for name in names):
        raise RetrievalError(f"{path} is damaged: build the index again")
    if not is_as_sealed(content):
        raise RetrievalError(f"{path} is damaged: build the index again")
    return IndexMeta(**given)


def _other(folder: Path, meta: IndexMeta, name: str, wanted: object) -> RetrievalError:
    option = f" (trailforge index … --passage-prefix {json.dumps(wanted)})" if name == "passage_prefix" else ""
    return RetrievalError(
        f"{folder} was made with the {name} {getattr(meta, name)!r}, not {wanted!r}; "
        f"say what it was made with, or build it again{option}"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
