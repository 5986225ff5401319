"""Builds the index of a corpus from a file of passages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trailforge.retrieval.backends.dense import DenseIndex
from trailforge.retrieval.backends.vectors import embedded_text
from trailforge.retrieval.dense import refuse_existing, save_index
from trailforge.retrieval.encoder import PACKAGED, Encoder
from trailforge.schemas import Document, InvalidInput
from trailforge.schemas.files import json_lines

Row = tuple[int, dict[str, Any]]
"""Number, 1-based (the line of a JSON Lines file), and content."""

_PER_CHUNK = 1024
"""Documents encoded at once: fixed, so that a corpus always gives the same bits."""


def build_index(
    source: Path, folder: Path, encoder_name: str = PACKAGED, *, passage_prefix: str = "", query_prefix: str = ""
) -> int:
    """Embed a corpus and save its index; how many passages it has. Texts and vectors are held in memory meanwhile.

    `query_prefix` is noted for those who search it. Raises `InvalidInput` naming file and row, and `RetrievalError` for
    a missing encoder or a folder that exists.
    """
    import numpy as np
    from rich.progress import track

    refuse_existing(folder)
    documents = list(read_corpus(source))
    if not documents:
        raise InvalidInput("holds no passages", file=source)
    encoder = Encoder(encoder_name, passage_prefix=passage_prefix, query_prefix=query_prefix)
    starts = range(0, len(documents), _PER_CHUNK)
    chunks = ([embedded_text(d) for d in documents[start : start + _PER_CHUNK]] for start in starts)
    watched = track(chunks, description="embedding", total=len(starts), disable=len(starts) == 1)
    vectors = np.concatenate([encoder.encode_documents(chunk) for chunk in watched])
    save_index(DenseIndex.build(documents, vectors), folder, encoder)
    return len(documents)


def read_corpus(source: Path) -> Iterator[Document]:
    """Passages of a JSON Lines file (gzip too) or a Parquet file: `text`, and if there are any, `title` and `id`.

    Without an `id` the row's number is one. Raises `InvalidInput` for a file that cannot be read, for a row without
    text, and for an id that came before.
    """
    seen: set[str] = set()
    for number, row in _rows(source):
        document = _document(row, number, source)
        if document.id in seen:
            raise InvalidInput(f"{document.id!r} is the id of an earlier row", file=source, row=number, field="id")
        seen.add(document.id)
        yield document


def _document(row: dict[str, Any], number: int, source: Path) -> Document:
    text = row.get("text", row.get("paragraph_text"))
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput("must be a text that is not empty", file=source, row=number, field="text")
    title, key = str(row.get("title") or ""), row.get("id")
    return Document(id=str(number if key is None else key), title=title.strip(), text=text.strip())


def _rows(source: Path) -> Iterator[Row]:
    if source.suffix == ".parquet":
        yield from _parquet_rows(source)
        return
    for number, row in json_lines(source):
        if not isinstance(row, dict):
            raise InvalidInput("not a JSON object", file=source, row=number)
        yield number, row


def _parquet_rows(source: Path) -> Iterator[Row]:
    try:
        with pq.ParquetFile(source) as file:
            rows = (row for batch in file.iter_batches() for row in batch.to_pylist())
            yield from enumerate(rows, start=1)
    except FileNotFoundError as error:
        raise InvalidInput("no such file", file=source) from error
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise InvalidInput(f"cannot be read as Parquet ({error})", file=source) from error
