"""Builds the index of a corpus from a file of passages."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from retrieval.dense import DenseIndex, embedded_text
from retrieval.encoder import Encoder
from schemas import Document, InvalidInput

_GZIP = b"\x1f\x8b"
_PER_BATCH = 1024


def build_index(source: Path, folder: Path, encoder_name: str) -> int:
    """Embed a corpus and save its index; how many passages it has. Raises `InvalidInput` naming file and row."""
    import numpy as np
    from rich.progress import track

    documents = list(read_corpus(source))
    if not documents:
        raise InvalidInput("holds no passages", file=source)
    encoder = Encoder(encoder_name)
    starts = track(range(0, len(documents), _PER_BATCH), description="embedding", disable=len(documents) < _PER_BATCH)
    batches = [encoder.encode_documents([embedded_text(d) for d in documents[s : s + _PER_BATCH]]) for s in starts]
    DenseIndex.build(documents, np.concatenate(batches)).save(folder, encoder_name)
    return len(documents)


def read_corpus(source: Path) -> Iterator[Document]:
    """Passages of a JSONL file (gzip too) or a Parquet file with title and text; the row number is the id where none is."""
    if not source.is_file():
        raise InvalidInput("no such file", file=source)
    rows = _parquet_rows(source) if source.suffix == ".parquet" else _json_rows(source)
    for number, row in rows:
        text = row.get("text", row.get("paragraph_text"))
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput("must be a text that is not empty", file=source, row=number, field="text")
        yield Document(
            id=str(row.get("id", number)), title=str(row.get("title") or ""), text=text, source=str(row.get("source") or "")
        )


def _json_rows(source: Path) -> Iterator[tuple[int, dict]]:
    with open(source, "rb") as raw:
        packed = raw.read(2) == _GZIP
    with gzip.open(source, "rt", encoding="utf-8") if packed else open(source, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InvalidInput(f"not valid JSON ({error})", file=source, row=number) from error
            if not isinstance(row, dict):
                raise InvalidInput("not a JSON object", file=source, row=number)
            yield number, row


def _parquet_rows(source: Path) -> Iterator[tuple[int, dict]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(source) as file:
        number = 0
        for batch in file.iter_batches():
            for row in batch.to_pylist():
                number += 1
                yield number, row
