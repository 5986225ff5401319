"""Define shards, the unit of work, and the files that they leave on disk.

A shard is a file of input items. Its name holds the hash of the items and of the configuration. The worker that runs
it writes its tables and, last, its *receipt* (`shards/NAME.json`). A shard with a receipt is not run again; without
one its files are made again, from the ledger and so at no cost, byte for byte the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trailforge.inference import Usage
from trailforge.pipelines.engine.files import (
    output_errors,
    plain_files,
    remove_file,
    sha256_of,
    write_atomically,
    write_text,
)
from trailforge.schemas import (
    FileEntry,
    InvalidInput,
    OutputError,
    StageCount,
    from_dict,
    parse_json,
    to_dict,
    write_parquet,
)

RECEIPTS = "shards"
SHARD_NAMES = r"part-(\d{5,}-[0-9a-f]{12}(-[a-z]+)?|inputs|bundles|selection|curation)"
"""Pattern of the names of a run's shards, as its tables have them."""
RECEIPT_NAMES = rf"({SHARD_NAMES}|bundles|selection|curation)\.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A file of items that are run together."""

    name: str
    """Stem of every file the shard writes: `part-INDEX-HASH`."""
    input: str
    """Path of the items, relative to the run's folder."""
    first: int
    """Position of the first item in the whole input."""
    rows: int
    made_of: str = ""
    """Digest of the files of earlier stages that it was made from; empty for items that were read from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportCount:
    """Counts of how often searches find the documents that answers rest on; both fields add up over items."""

    questions: int = 0
    """Number of questions that were searched for and whose supporting documents are known."""
    found: int = 0
    """Number of these questions for which some search brought a supporting document."""

    def __add__(self, other: SupportCount) -> SupportCount:
        return SupportCount(questions=self.questions + other.questions, found=self.found + other.found)

    @property
    def warning(self) -> str:
        """Return a warning where no search found any such document; empty otherwise."""
        if self.found or not self.questions:
            return ""
        of_them = "the one question" if self.questions == 1 else f"any of {self.questions:,} questions"
        return (
            f"no search found a supporting document of {of_them}: see whether what is searched (--documents, "
            "--retrieval) holds them, and whether encoder and prefixes are those of its index"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a finished shard wrote, and what it cost; it is stored as the shard's receipt."""

    shard: str
    files: tuple[FileEntry, ...]
    stages: tuple[StageCount, ...]
    usage: Usage = field(default_factory=Usage)
    shards: tuple[Shard, ...] = ()
    """Shards for the next stage, where this stage makes them."""
    made_of: str = ""
    """The shard's `made_of` when it was run."""
    support: SupportCount = field(default_factory=SupportCount)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemResult:
    """The result of one item: rows by table, counts by stage, and cost."""

    rows: Mapping[str, Sequence[Any]]
    stages: tuple[StageCount, ...]
    usage: Usage
    support: SupportCount = field(default_factory=SupportCount)
    """Whether searches for the item's question brought its documents."""


def write_table(folder: Path, table: str, name: str, record: type, rows: Sequence[Any]) -> FileEntry | None:
    """Write a shard's rows of a table; without rows there is no file."""
    path = folder / table / f"{name}.parquet"
    if not rows:
        remove_file(path)
        return None
    write_atomically(path, lambda temporary: write_parquet(temporary, record, rows))
    return file_entry(folder, path, len(rows))


def write_receipt(folder: Path, receipt: Receipt) -> None:
    """Write the receipt that marks a shard as finished."""
    write_text(folder / RECEIPTS / f"{receipt.shard}.json", json.dumps(to_dict(receipt), indent=1))


def finish_shard(
    folder: Path,
    shard: Shard,
    rows: Mapping[str, Sequence[Any]],
    stages: Iterable[StageCount],
    *,
    usage: Usage | None = None,
    files: Iterable[FileEntry] = (),
    shards: tuple[Shard, ...] = (),
    support: SupportCount | None = None,
) -> None:
    """Write rows, by table, in files of the shard's name, then its receipt. `files` were written by other means;
    `shards` are those that the next stage is to run.
    """
    written = [  # a table without rows has no record, and none is asked for
        write_table(folder, table, shard.name, type(next(iter(each), None)), each) for table, each in rows.items()
    ]
    receipt = Receipt(
        shard=shard.name,
        files=(*files, *(entry for entry in written if entry is not None)),
        stages=tuple(stages),
        usage=usage or Usage(),
        shards=shards,
        made_of=shard.made_of,
        support=support or SupportCount(),
    )
    write_receipt(folder, receipt)


def missing_shards(folder: Path, shards: Sequence[Shard]) -> list[Shard]:
    """Return the shards that are not finished."""
    return [shard for shard in shards if finished_receipt(folder, shard) is None]


def drop_receipts(folder: Path, shards: Iterable[Shard]) -> None:
    """Remove the receipts of shards that are to be run again: their files are about to be others."""
    with output_errors(folder):
        for shard in shards:
            receipt_path(folder, shard).unlink(missing_ok=True)


def finished_receipt(folder: Path, shard: Shard) -> Receipt | None:
    """Return the receipt of a shard; None when it is not finished, or was made of other files. Raises what
    `load_receipt` raises.
    """
    if not receipt_path(folder, shard).exists():
        return None
    receipt = read_receipt(folder, shard)
    return receipt if receipt.made_of == shard.made_of or "" in (receipt.made_of, shard.made_of) else None


def read_receipt(folder: Path, shard: Shard) -> Receipt:
    """Return the receipt of a shard that was run. Raises what `load_receipt` raises."""
    return load_receipt(receipt_path(folder, shard))


def load_receipt(path: Path) -> Receipt:
    """Read a receipt. Raises `OutputError` for one that cannot be read."""
    try:
        return from_dict(Receipt, parse_json(path.read_bytes()))
    except (OSError, ValueError, TypeError, InvalidInput) as error:
        raise OutputError(f"{path} is no receipt ({error}); the same command again makes its shard again") from error


def support_in(folder: Path) -> SupportCount:
    """Add up how often the searches of a finished run found supporting documents. Raises what `load_receipt` raises."""
    return sum((load_receipt(path).support for path in receipts_in(folder)), start=SupportCount())


def receipts_in(folder: Path) -> list[Path]:
    """List the receipts in a run's folder, by name. Files that people put beside them do not count."""
    return [path for path in plain_files(folder / RECEIPTS) if re.fullmatch(RECEIPT_NAMES, path.name)]


def receipt_path(folder: Path, shard: Shard) -> Path:
    """Return the path of a shard's receipt once it is finished."""
    return folder / RECEIPTS / f"{shard.name}.json"


def file_entry(folder: Path, path: Path, rows: int) -> FileEntry:
    """Return the entry of a file in receipt and manifest."""
    return FileEntry(path=path.relative_to(folder).as_posix(), rows=rows, sha256=sha256_of(path))
