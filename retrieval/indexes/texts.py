"""Store the documents of an index as an Arrow file, which is read memory-mapped, so that processes share one copy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import overload

import pyarrow as pa

from trailforge.schemas import Document, RetrievalError, count_tokens

_COLUMNS = pa.schema([("id", pa.string()), ("title", pa.string()), ("text", pa.string())])
_ROWS = 4096
"""Of a batch: all but the last have as many, so that a row's batch is known without a search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextsWritten:
    """Size and hash of the documents that were written."""

    documents: int
    tokens: int
    """Number of tokens of titles and texts by `schemas.text.count_tokens`: the same whatever back end, encoder and
    model."""
    sha256: str
    """SHA-256 of ids, titles and texts, in order."""


class MappedDocuments(Sequence[Document]):
    """Documents by row, with id, title and text, read from a memory-mapped file."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = batches
        self._columns = [batch.columns for batch in batches]
        self._length = sum(batch.num_rows for batch in batches)

    @classmethod
    def open(cls, path: Path) -> MappedDocuments:
        """Open a file that `write_texts` wrote. Raises `RetrievalError` for other files."""
        try:
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
            batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        except (OSError, pa.ArrowException) as error:
            raise RetrievalError(f"{path} is missing or damaged: build the index again") from error
        if reader.schema != _COLUMNS or any(batch.num_rows != _ROWS for batch in batches[:-1]):
            raise RetrievalError(f"{path} holds other columns than an index does: build the index again")
        return cls(batches)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, row: int) -> Document: ...
    @overload
    def __getitem__(self, row: slice) -> list[Document]: ...
    def __getitem__(self, row: int | slice) -> Document | list[Document]:
        if isinstance(row, slice):
            return [self._document(each) for each in range(*row.indices(self._length))]
        if not -self._length <= row < self._length:
            raise IndexError(row)
        return self._document(row % self._length)

    def __iter__(self) -> Iterator[Document]:
        for batch in self._batches:
            for row in batch.to_pylist():
                yield Document(**row)

    def _document(self, row: int) -> Document:
        keys, titles, texts = self._columns[row // _ROWS]
        place = row % _ROWS
        return Document(id=keys[place].as_py(), title=titles[place].as_py(), text=texts[place].as_py())


def write_texts(documents: Iterable[Document], path: Path) -> TextsWritten:
    """Write documents to a file, a few thousand in memory at a time. Raises `OSError`."""
    count, tokens, digest = 0, 0, hashlib.sha256()
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, _COLUMNS) as writer:
        rest = iter(documents)
        while some := list(islice(rest, _ROWS)):
            columns = [[d.id for d in some], [d.title for d in some], [d.text for d in some]]
            writer.write_batch(pa.record_batch([pa.array(each, pa.string()) for each in columns], schema=_COLUMNS))
            count += len(some)
            for document in some:
                tokens += count_tokens(document.title) + count_tokens(document.text)
                for part in (document.id, document.title, document.text):
                    encoded = part.encode()
                    digest.update(len(encoded).to_bytes(8))
                    digest.update(encoded)
    return TextsWritten(documents=count, tokens=tokens, sha256=digest.hexdigest())
