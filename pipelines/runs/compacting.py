"""Rewrite a finished run in few large files: the same rows in the same order, with a manifest of their own.

Files of neighbouring shards become one, the same ones in every table, so that what belongs together still has one
name. Receipts add up as before, and `verify` checks the copy as it checks the run. The copy has no ledger, and no run
continues in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from trailforge.inference import Usage
from trailforge.pipelines.datasets import dataset_of, is_curated
from trailforge.pipelines.engine.files import output_errors, write_atomically, write_text
from trailforge.pipelines.engine.shards import Receipt, Shard, SupportCount, file_entry, write_receipt
from trailforge.pipelines.runs.accounting import add_up
from trailforge.pipelines.runs.finish import MANIFEST, finished_run, manifest_of
from trailforge.pipelines.runs.intake import SETTINGS, Settings
from trailforge.pipelines.runs.stages import stage_receipts
from trailforge.schemas import FileEntry, InvalidInput, Manifest, OutputError, to_dict

LARGE = 256 << 20
"""Size in bytes that files come near to: large enough for readers over a network, small enough for a viewer."""
_ROWS_PER_GROUP = 500
"""As in the files of runs: who looks at one row reads its group."""
_STEM = re.compile(r"(part-\d{5,})-[0-9a-f]{12}(?P<kind>(?:-[a-z]+)?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """The result of a compaction."""

    manifest: Manifest
    before: int
    """Number of files that the run's manifest names."""
    after: int


def compact_run(folder: Path, out: Path, *, large: int = LARGE) -> Compacted:
    """Write a finished run to `out`, which must not exist or be empty, in files of about `large` bytes.

    Nothing stands at `out` until all is written. Raises `InvalidInput` for a run that is not finished, is a curated
    data set, or has files of several versions, `CountMismatch` for missing receipts, and `OutputError` when files are
    in the way.
    """
    manifest, settings = finished_run(folder)
    if is_curated(settings):
        raise InvalidInput("is a curated data set; compact the run, and apply the decisions to that", file=folder)
    with output_errors(out):
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise OutputError(f"{out} is not empty; give another --out")
        staged = out.parent / f".{out.name}.compacting"
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(parents=True)
        try:
            made = _Compaction(folder, staged, manifest, settings, large).make()
            os.replace(staged, out)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise
    return Compacted(manifest=made, before=len(manifest.files), after=len(made.files))


class _Compaction:
    """The writing of one run anew."""

    def __init__(self, folder: Path, out: Path, manifest: Manifest, settings: Settings, large: int) -> None:
        self._folder, self._out, self._manifest, self._settings, self._large = folder, out, manifest, settings, large
        self._new: dict[str, str] = {}
        """By stem of a file the one that it goes into."""

    def make(self) -> Manifest:
        self._name_files()
        entries = list(self._write_files())
        receipts = stage_receipts(dataset_of(self._settings), self._folder, self._settings)
        taken = {entry.path for entry in self._settings.files}
        of_intake = {self._path(path) for path in taken}
        files = [entry for entry in entries if entry.path in of_intake]
        settings = replace(self._settings, shards=self._shards(), files=tuple(files), is_compact=True)
        write_text(self._out / SETTINGS, json.dumps(to_dict(settings), indent=1))
        made = [entry for entry in entries if entry.path not in of_intake]
        self._write_receipts(settings, receipts, made)
        for entry in self._manifest.card:
            self._copy(entry.path)
        manifest = manifest_of(self._out, settings, dataset_of(settings), seconds=self._manifest.seconds)
        manifest = replace(manifest, card=self._manifest.card)
        write_text(self._out / MANIFEST, json.dumps(to_dict(manifest), indent=1))
        return manifest

    def _name_files(self) -> None:
        """Group neighbouring shards of one kind until the largest table of the group is large enough."""
        sizes: dict[str, dict[str, int]] = defaultdict(dict)
        for entry in self._manifest.files:
            path = Path(entry.path)
            if path.suffix == ".parquet" and _STEM.fullmatch(path.stem):
                sizes[path.stem][path.parent.name] = (self._folder / path).stat().st_size
        kinds: dict[str, list[str]] = defaultdict(list)
        for stem in sorted({*sizes, *(shard.name for shard in self._settings.shards)}):
            if found := _STEM.fullmatch(stem):
                kinds[found["kind"]].append(stem)
        for kind, stems in kinds.items():
            for number, group in enumerate(self._groups(stems, sizes)):
                digest = hashlib.sha256("\n".join(group).encode()).hexdigest()[:12]
                self._new |= dict.fromkeys(group, f"part-{number:05d}-{digest}{kind}")

    def _groups(self, stems: Sequence[str], sizes: dict[str, dict[str, int]]) -> Iterator[list[str]]:
        group: list[str] = []
        totals: dict[str, int] = defaultdict(int)
        for stem in stems:
            for table, size in sizes.get(stem, {}).items():
                totals[table] += size
            group.append(stem)
            if max(totals.values(), default=0) >= self._large:
                yield group
                group, totals = [], defaultdict(int)
        if group:
            yield group

    def _path(self, path: str) -> str:
        """Where the content of a file of the run stands in the copy."""
        known = Path(path)
        return str(known.with_name(f"{self._new.get(known.stem, known.stem)}{known.suffix}"))

    def _write_files(self) -> Iterator[FileEntry]:
        parts: dict[str, list[FileEntry]] = defaultdict(list)
        for entry in self._manifest.files:
            parts[self._path(entry.path)].append(entry)
        for path, entries in sorted(parts.items()):
            if len(entries) == 1:
                self._copy(entries[0].path, path)
            else:
                paths = [self._folder / entry.path for entry in sorted(entries, key=lambda entry: entry.path)]
                (self._out / path).parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self._out / path, partial(_join, paths))
            yield file_entry(self._out, self._out / path, sum(entry.rows for entry in entries))

    def _copy(self, path: str, to: str = "") -> None:
        target = self._out / (to or path)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, partial(shutil.copyfile, self._folder / path))

    def _shards(self) -> tuple[Shard, ...]:
        """One for the shards of each group, with the items of all."""
        groups: dict[str, list[Shard]] = defaultdict(list)
        for shard in self._settings.shards:
            groups[self._new.get(shard.name, shard.name)].append(shard)
        return tuple(
            Shard(name=name, input=self._path(of_one[0].input), first=of_one[0].first,
                  rows=sum(each.rows for each in of_one))
            for name, of_one in groups.items()
        )  # fmt: skip

    def _write_receipts(self, settings: Settings, receipts: Sequence[Receipt], files: Iterable[FileEntry]) -> None:
        """The first has the books, calls and files of all stages, in their order; the others say that they are done."""
        whole = Receipt(
            shard=settings.shards[0].name,
            files=tuple(files),
            stages=tuple(add_up(receipt.stages for receipt in receipts)),
            usage=sum((receipt.usage for receipt in receipts), start=Usage()),
            support=sum((receipt.support for receipt in receipts), start=SupportCount()),
        )
        for number, shard in enumerate(settings.shards):
            write_receipt(self._out, whole if number == 0 else Receipt(shard=shard.name, files=(), stages=()))


def _join(paths: Sequence[Path], target: Path) -> None:
    """Write files of one schema as one, a row group at a time."""
    schema = pq.read_schema(paths[0])
    with pq.ParquetWriter(target, schema, compression="zstd", compression_level=3) as writer:
        waiting: list[pa.Table] = []
        for path in paths:
            with pq.ParquetFile(path) as file:
                if not file.schema_arrow.equals(schema, check_metadata=True):
                    problem = "of another version than the run's first files, so they do not become one"
                    raise InvalidInput(problem, file=path)
                for group in range(file.num_row_groups):
                    waiting.append(file.read_row_group(group, use_threads=False))
                    if sum(map(len, waiting)) >= _ROWS_PER_GROUP:
                        writer.write_table(pa.concat_tables(waiting), row_group_size=_ROWS_PER_GROUP)
                        waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting), row_group_size=_ROWS_PER_GROUP)
