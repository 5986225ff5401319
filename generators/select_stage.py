"""The stage that compares questions of all inputs with each other: its single shard, its input and its output."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from trailforge.pipelines.engine import Shard, finish_shard, rejected_row, write_table
from trailforge.pipelines.runs import stage
from trailforge.schemas import BundleQuestion, FileEntry, KgQuestion, RejectedRow, Verdict, read_parquet, to_dict

NAME = "select"
CANDIDATES = "candidates"
REJECTED = "part-selection"

Row = TypeVar("Row", BundleQuestion, KgQuestion)


def only_shard(written: Sequence[Shard], made_of: str = "") -> Shard:
    """Return the one shard of this stage, which works on the questions of all inputs together. `written` are the shards
    of the questions, `made_of` is a digest of their files.
    """
    rows = sum(shard.rows for shard in written)
    return Shard(name="selection", input=CANDIDATES, first=0, rows=rows, made_of=made_of)


def read_candidates(folder: Path, written: Sequence[Shard], record: type[Row]) -> Iterator[Row]:
    """Yield the rows that the filters of single questions kept, in the order of the inputs."""
    for shard in written:
        path = folder / CANDIDATES / f"{shard.name}.parquet"
        if path.exists():
            yield from read_parquet(path, record)


def write_parts(
    folder: Path, table: str, record: type[Row], rows: Sequence[Row], size: int
) -> tuple[tuple[FileEntry, ...], tuple[Shard, ...]]:
    """Write a table that one stage makes at once, `size` rows of the class `record` a file; returns its files, and
    these as shards of a next stage.
    """
    files: list[FileEntry] = []
    shards: list[Shard] = []
    for first in range(0, len(rows), size):
        batch = rows[first : first + size]
        content = json.dumps([to_dict(row) for row in batch], sort_keys=True)
        name = f"part-{len(shards):05d}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
        entry = write_table(folder, table, name, record, batch)
        assert entry is not None
        files.append(entry)
        shards.append(Shard(name=name, input=entry.path, first=first, rows=len(batch), made_of=entry.sha256))
    return tuple(files), tuple(shards)


def finish_selection(
    folder: Path,
    shard: Shard,
    kept: Sequence[Row],
    rejected: Sequence[tuple[Row, Verdict]],
    files: Sequence[FileEntry],
    next_shards: tuple[Shard, ...] = (),
) -> None:
    """Write the rejected rows with their reasons, and the receipt by which the stage is done. `files` are those of the
    kept rows, `next_shards` the input of the next stage.
    """
    left = [rejected_row(NAME, row.uid, verdict, to_dict(row)) for row, verdict in rejected]
    entry = write_table(folder, "rejected", REJECTED, RejectedRow, left)
    books = stage(NAME, inputs=len(kept) + len(left), accepted=len(kept), rejected=[row.reason for row in left])
    finish_shard(folder, shard, {}, (books,), files=(*files, entry) if entry else files, shards=next_shards)
