"""Make a curated data set, a run's folder of its own, from a finished run and what people decided on its rows.

It has the tables of the run without what was rejected and with what was fixed, `curated/`, which tells all changes,
one more stage in its counts, and the same inputs and receipts but for that. So all code that reads a run reads it,
and `pipelines.runs.verify` checks it against the run that it was made of. The same run and rulings give the same
bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from trailforge.pipelines import CURATE, CURATED, DataSet, curated, dataset_of, is_curated, products_of, resolve
from trailforge.pipelines.curated import NAME, SFT, Curator
from trailforge.pipelines.engine import (
    LOCK,
    Receipt,
    exclusive,
    file_entry,
    output_errors,
    write_atomically,
    write_receipt,
    write_table,
    write_text,
)
from trailforge.pipelines.runs import SETTINGS, Settings, finished_run, run_configuration, stage
from trailforge.pipelines.runs.accounting import check_balance
from trailforge.pipelines.runs.finish import manifest_of, write_end
from trailforge.pipelines.runs.stages import CURATION, stage_receipts
from trailforge.schemas import (
    CuratedRow,
    FileEntry,
    InvalidInput,
    Manifest,
    OutputError,
    RejectedRow,
    Ruling,
    SftRow,
    read_parquet,
    read_rows,
    to_dict,
)

_STAGED = ".{name}.curating"


def apply_rulings(folder: Path, out: Path, rulings: Sequence[Ruling], log: FileEntry) -> Manifest:
    """Write the curated data set of a finished run to `out`, which must not exist or be empty, and return its manifest.

    `rulings` are the merged decisions on rows of this run; `log` describes the file they come from. Nothing stands at
    `out` until all is written. Raises `InvalidInput` for a run that is not finished or is curated already, for rulings
    that are empty, not allowed, or on rows that do not exist; `OutputError` when files are in the way.
    """
    manifest, settings = finished_run(folder)
    if is_curated(settings):
        raise InvalidInput("is a curated data set; decide on rows of the run that it was made of", file=folder)
    if not any(ruling.table != "rejected" for ruling in rulings):
        raise InvalidInput("nobody decided on a row of this run; `trailforge curate decide` does", file=log.path)
    with output_errors(out):
        if out.exists() and any(out.iterdir()):
            raise OutputError(f"{out} is not empty; give another --out")
    staged = out.parent / _STAGED.format(name=out.name)
    if staged.is_symlink() or (staged.is_dir() and any(staged.iterdir()) and not (staged / LOCK).exists()):
        raise OutputError(f"{staged} is in the way, and no killed `curate apply` left it; move it away")
    with exclusive(staged):
        try:
            _clear(staged)
            made = _Curation(folder, staged, manifest, settings, Curator(settings.dataset, rulings)).make(log)
            with output_errors(out):
                os.replace(staged, out)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise
    return made


class _Curation:
    """The making of one curated data set, table by table."""

    def __init__(self, folder: Path, out: Path, manifest: Manifest, settings: Settings, curator: Curator) -> None:
        self._folder, self._out, self._manifest, self._settings = folder, out, manifest, settings
        self._curator = curator
        self._dataset = dataset_of(settings)
        self._products = products_of(settings.dataset)
        self._files: dict[str, FileEntry | None] = {}
        """By path in the run: the file as it is now, None when no row is left. Where no row changes, it is copied."""
        self._changes: list[CuratedRow] = [*curator.sources]
        self._left = 0

    def make(self, log: FileEntry) -> Manifest:
        self._write_products()
        self._write_rest()
        settings, dataset = self._settle(log)
        self._write_receipts(dataset_of(self._settings))
        manifest = manifest_of(self._out, settings, dataset, seconds=self._manifest.seconds)
        check_balance(manifest.stages)
        card = resolve(dataset.card)(self._out, manifest, settings)
        return write_end(self._out, manifest, dataset, card + _section(self._settings.run_id, self._changes))

    def _write_products(self) -> None:
        for table, product in self._products.items():
            for entry in (entry for entry in self._manifest.files if entry.path.startswith(f"{table}/")):
                rows, name = read_rows([self._folder / entry.path], product.record), Path(entry.path)
                kept: list[Any] = []
                changes: list[CuratedRow] = []
                for row, change in self._curator.curate(table, name.name, rows):
                    kept += [] if row is None else [row]
                    changes += [] if change is None else [change]
                if any(change.action != "accept" for change in changes):
                    self._files[entry.path] = write_table(self._out, table, name.stem, product.record, kept)
                self._changes += changes
                self._left += len(kept)
        self._curator.check_all_found()

    def _write_rest(self) -> None:
        """SFT rows and the questions as JSON Lines follow from the products; all else stays as it is."""
        for entry in self._manifest.files:
            table = entry.path.split("/")[0]
            if entry.path in self._files:
                continue
            if table == SFT:
                self._files[entry.path] = self._sft(entry)
            elif entry.path in self._dataset.lists:
                self._files[entry.path] = self._lines(entry.path)
            else:
                _copy(self._folder / entry.path, self._out / entry.path)
                self._files[entry.path] = entry
        for path in sorted((self._folder / "plots").glob("*.png")):
            _copy(path, self._out / "plots" / path.name)

    def _sft(self, entry: FileEntry) -> FileEntry | None:
        config = run_configuration(self._dataset, self._settings)
        rows = self._curator.sft(read_parquet(self._folder / entry.path, SftRow), config)
        return write_table(self._out, SFT, Path(entry.path).stem, SftRow, list(rows))

    def _lines(self, name: str) -> FileEntry | None:
        table = self._dataset.rows
        paths = sorted((self._out / table).glob("part-*.parquet"))
        rows = list(read_rows(paths, self._dataset.tables[table].record))
        if not rows:
            return None
        path = self._out / name
        write_text(path, "".join(map(resolve(self._dataset.lists[name]), rows)))
        return file_entry(self._out, path, len(rows))

    def _settle(self, log: FileEntry) -> tuple[Settings, DataSet]:
        """`run.json` with `curated/`, under a run id of its own, and the receipt of the stage."""
        entry = write_table(self._out, CURATED, NAME, CuratedRow, self._changes)
        assert entry is not None  # there is a ruling on a row that was found, or on a source
        content = json.dumps([self._settings.run_id, *map(to_dict, self._changes)], sort_keys=True)
        settings = replace(
            self._settings,
            run_id=f"{self._settings.dataset}-{hashlib.sha256(content.encode()).hexdigest()[:12]}",
            sources=(*self._settings.sources, log),
            files=(*self._now(self._settings.files), entry),
        )
        write_text(self._out / SETTINGS, json.dumps(to_dict(settings), indent=1))
        rejected = curated.rejected_rows(self._changes)
        gone = write_table(self._out, "rejected", NAME, RejectedRow, rejected)
        reasons = [row.reason for row in rejected]
        books = stage(CURATE, inputs=self._left + len(reasons), accepted=self._left, rejected=reasons)
        write_receipt(self._out, Receipt(shard=CURATION, files=(gone,) if gone else (), stages=(books,)))
        return settings, dataset_of(settings)

    def _write_receipts(self, dataset: DataSet) -> None:
        """The run's own, with the files as they are now."""
        for receipt in stage_receipts(dataset, self._folder, self._settings):
            write_receipt(self._out, replace(receipt, files=self._now(receipt.files)))

    def _now(self, entries: Iterable[FileEntry]) -> tuple[FileEntry, ...]:
        """Files of the run as they are in the curated data set, without those of which no row is left."""
        now = (self._files[entry.path] for entry in entries)
        return tuple(entry for entry in now if entry is not None)


def _clear(folder: Path) -> None:
    """Remove what a killed process left there."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()


def _copy(source: Path, target: Path) -> None:
    if not source.is_file():
        raise InvalidInput("missing; `trailforge verify` tells more", file=source)
    write_atomically(target, partial(shutil.copyfile, source))


def _section(run_id: str, changes: Sequence[CuratedRow]) -> str:
    counts = Counter(row.action for row in changes)
    people = {name for row in changes for name in row.who}
    names: Mapping[str, str] = {
        "accept": "accepted as they are",
        "fix": "fixed",
        "reject": "rejected",
        "follow": "gone with these, since they were made of them",
    }
    lines = [f"| {text} | {counts[name]} |" for name, text in names.items() if name in counts]
    return "\n".join(
        [
            "\n## Curation\n",
            f"Made of the run `{run_id}` by {len(people)} curator{'s' if len(people) != 1 else ''}; `{CURATED}` tells",
            "each decision. A fixed row has a uid of its own. Its conversation, gold answer and rewards agree;",
            "figures of its search are those of the row that it is derived from; scores that a model or other rows",
            "gave to another wording are left out.\n",
            "| rows | count |",
            "|---|---:|",
            *lines,
            "",
        ]
    )
