"""A stage that asks no model, told by one function: each input gives a row, or a verdict against it.

TRY = RowStage(name="try", item=Question, table="easy", make=make)      in a data set's work.py
Stage(name="try", run="….work:TRY.run", asks_model=False, …)            in its declaration, whose only stage it is:
checks="….work:TRY.checks"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from trailforge.pipelines.curated import uid_of
from trailforge.pipelines.dataset import INPUTS, StageRun
from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.engine.model_stage import rejected_row
from trailforge.pipelines.engine.shards import finish_shard, missing_shards
from trailforge.pipelines.runs.accounting import stage
from trailforge.pipelines.runs.verify import Report, RowChecks
from trailforge.schemas import Manifest, RejectedRow, Verdict, read_parquet, to_dict


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStage:
    """How a stage runs, and how its rows are verified: they are made again."""

    name: str
    item: type
    """Record of its inputs."""
    table: str
    """Of its rows."""
    make: Callable[[Any, Any], Any]
    """`(item, config) -> row`, or the `Verdict` that rejects the item. The same for the same."""

    def run(self, task: StageRun) -> None:
        """Rows, books and a receipt of each shard that has none."""
        for shard in missing_shards(task.folder, task.shards):
            items = read_parquet(task.folder / shard.input, self.item)
            rows, rejected = self.make_rows(items, task.config)
            books = stage(self.name, inputs=len(items), accepted=len(rows), rejected=[row.reason for row in rejected])
            finish_shard(task.folder, shard, {self.table: rows, "rejected": rejected}, (books,))

    def checks(self, folder: Path, manifest: Manifest, config: Any, report: Report) -> RowChecks:
        """For a data set whose only stage this is."""
        return _MadeAgain(self, folder, manifest, config, report)

    def make_rows(self, items: Iterable[Any], config: Any) -> tuple[list[Any], list[RejectedRow]]:
        """Rows, and who is rejected and why, both in the order of the items."""
        rows: list[Any] = []
        rejected: list[RejectedRow] = []
        for item in items:
            made = self.make(item, config)
            if isinstance(made, Verdict):
                rejected.append(rejected_row(self.name, uid_of(item), made, to_dict(item)))
            else:
                rows.append(made)
        return rows, rejected


class _MadeAgain(RowChecks):
    """Rows and rejected rows against what their inputs give."""

    def __init__(self, of: RowStage, folder: Path, manifest: Manifest, config: Any, report: Report) -> None:
        super().__init__(folder, manifest, config, report)
        self._stage = of
        self._record = load_dataset(manifest.dataset).records[of.table]

    def check(self) -> None:
        """Fill the report."""
        self.accepted.update({"read": 0, self._stage.name: 0})
        for name in self.names():
            items = list(self.rows(INPUTS, name, self._stage.item))
            self.accepted["read"] += len(items)
            rows, rejected = self._stage.make_rows(items, self.config)
            self.accepted[self._stage.name] += self._compare(
                name, self.rows(self._stage.table, name, self._record), rows
            )
            found = (row for row in self.rows("rejected", name, RejectedRow) if row.stage == self._stage.name)
            self._compare(name, found, rejected)
            self.count_rejected(name)
        self.check_books()

    def _compare(self, name: str, found: Iterable[Any], made: Iterable[Any]) -> int:
        """How many rows are found; each has to be the one that is made at its place."""
        count = 0
        for row, expected in zip_longest(found, made):
            count += row is not None
            if row != expected:
                self.problem(name, uid_of(row or expected), "it is not what its input gives")
        return count
