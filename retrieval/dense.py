"""The folder of a dense index: vectors (faiss IndexFlatIP) and texts, memory-mapped."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, overload

import pyarrow as pa

from trailforge.retrieval.backends.dense import DenseIndex
from trailforge.retrieval.backends.vectors import Vectors, load_faiss
from trailforge.retrieval.embeddings import encoder_model
from trailforge.retrieval.encoder import Encoder
from trailforge.retrieval.seals import SEAL, is_as_sealed, seal
from trailforge.schemas import Document, RetrievalError, parse_json

_FORMAT = 1
_VECTORS, _TEXTS = "vectors.faiss", "texts.arrow"
META = "meta.json"
"""The file of an index with the hashes of the others."""
_COLUMNS = pa.schema([("id", pa.string()), ("title", pa.string()), ("text", pa.string())])


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


class _SavedTexts(Sequence[Document]):
    """The documents of an index, read one by one; `kept` is what has to live as long."""

    def __init__(self, texts: pa.Table, kept: object) -> None:
        self._texts, self._kept = texts, kept

    def __len__(self) -> int:
        return self._texts.num_rows

    @overload
    def __getitem__(self, row: int) -> Document: ...
    @overload
    def __getitem__(self, row: slice) -> list[Document]: ...
    def __getitem__(self, row: int | slice) -> Document | list[Document]:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        return Document(**{name: self._texts.column(name)[row].as_py() for name in _COLUMNS.names})


def save_index(index: DenseIndex, folder: Path, encoder: Encoder) -> None:
    """Write to a folder, all of it or nothing. Raises `RetrievalError` when the folder exists."""
    refuse_existing(folder)
    temporary = folder.with_name(f".{folder.name}.tmp-{uuid.uuid4().hex[:8]}")
    temporary.mkdir(parents=True)
    try:
        _write(index, temporary, encoder)
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write(index: DenseIndex, folder: Path, encoder: Encoder) -> None:
    faiss, matrix = load_faiss(), index.vectors.matrix
    flat = faiss.IndexFlatIP(matrix.shape[1])
    flat.add(matrix)
    faiss.write_index(flat, str(folder / _VECTORS))
    texts = pa.Table.from_pylist(
        [{"id": d.id, "title": d.title, "text": d.text} for d in index.documents], schema=_COLUMNS
    )
    with pa.ipc.new_file(str(folder / _TEXTS), texts.schema) as writer:
        writer.write_table(texts)
    meta = {
        "format": _FORMAT,
        "encoder": encoder.name,
        "passage_prefix": encoder.passage_prefix,
        "query_prefix": encoder.query_prefix,
        "dimension": flat.d,
        "documents": len(index.documents),
        "sha256": {name: _sha256(folder / name) for name in (_VECTORS, _TEXTS)},
    }
    (folder / META).write_text(json.dumps(seal(meta), indent=1), encoding="utf-8")


def open_index(folder: Path, encoder: Encoder) -> DenseIndex:
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
    faiss = load_faiss()
    try:  # IO_FLAG_MMAP copies a flat index
        flat = faiss.read_index(str(folder / _VECTORS), faiss.IO_FLAG_MMAP_IFC)
        texts = pa.ipc.open_file(pa.memory_map(str(folder / _TEXTS))).read_all()
    except (RuntimeError, OSError, pa.ArrowException) as error:
        raise RetrievalError(f"{folder} holds other files than an index does: build the index again") from error
    if (flat.ntotal, flat.d, texts.num_rows) != (meta.documents, meta.dimension, meta.documents):
        raise RetrievalError(f"{folder} holds files of several indexes: build the index again")
    matrix = faiss.rev_swig_ptr(flat.get_xb(), flat.ntotal * flat.d).reshape(flat.ntotal, flat.d)
    return DenseIndex(Vectors(matrix), _SavedTexts(texts, kept=flat))


def refuse_existing(folder: Path) -> None:
    """Raises `RetrievalError` when an index cannot be written there, for something is."""
    if folder.exists():
        raise RetrievalError(f"{folder} exists; give another folder, or remove it first")


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
    if meta.encoder != (encoder := encoder_model(encoder)):
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
