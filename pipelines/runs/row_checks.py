"""What a verification of rows is made of, for whatever data set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trailforge.pipelines.curated import NAME, Curator, Undo, products_of, rejected_rows, rulings_of, uid_of
from trailforge.pipelines.datasets import CURATE
from trailforge.schemas import InvalidInput, Manifest, RejectedRow, iter_parquet

_MOST_SHOWN = 20


@dataclass(slots=True)
class Report:
    """What a verification found."""

    files: int = 0
    rows: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Nothing differs."""
        return not self.problems


class RowChecks(ABC):
    """Recomputes what the rows say of themselves, file by file: memory holds the rows of one name at a time.

    A data set counts in `accepted` what it finds of each stage, and every row of `rejected/`; `check_books` holds that
    against the manifest. Of a curated data set the rows are checked as the run made them, for that is what filters and
    rewards follow from, and then that what stands there is what people decided on them.
    """

    def __init__(self, folder: Path, manifest: Manifest, config: Any, report: Report) -> None:
        self.folder, self.manifest, self.config, self.report = folder, manifest, config, report
        self.accepted: Counter[str] = Counter()
        self._rejected: Counter[tuple[str, str]] = Counter()
        self._undo = Undo(folder)

    @abstractmethod
    def check(self) -> None:
        """Fill the report."""

    def names(self) -> list[str]:
        """Names of the files, each once: those of one shard have the same name in every table."""
        emptied = {row.file for row in self._undo.rows if row.file}
        return sorted({Path(entry.path).name for entry in self.manifest.files} | emptied)

    def rows(self, table: str, name: str, record: type) -> Iterator[Any]:
        """Rows of a file as the run made them; none when the table has no such file."""
        return self._undo.original(table, name, record, self.standing(table, name, record))

    def standing(self, table: str, name: str, record: type) -> Iterator[Any]:
        """Rows of a file as they stand there: without what people rejected, with what they fixed."""
        path = self.folder / table / name
        if path.exists():
            for batch in iter_parquet(path, record):
                yield from batch

    def count_rejected(self, name: str) -> None:
        """Count a file of `rejected/` by stage and reason."""
        for row in self.rows("rejected", name, RejectedRow):
            self._rejected[row.stage, row.reason] += 1

    def problem(self, name: str, uid: str, text: str) -> None:
        """Report what differs; the first twenty."""
        if len(self.report.problems) < _MOST_SHOWN:
            self.report.problems.append(f"{name}, {uid}: {text}")

    def check_books(self) -> None:
        """Hold what was counted against the manifest's stages."""
        if self._undo.rows:
            self._check_curation()
        for stage_name in self.accepted.keys() - {line.name for line in self.manifest.stages}:
            if self.accepted[stage_name]:
                self.report.problems.append(f"stage {stage_name}: {self.accepted[stage_name]} rows, not in the books")
        for line in self.manifest.stages:
            counted = self.accepted.get(line.name)
            if counted is not None and counted != line.accepted:
                self.report.problems.append(f"stage {line.name}: {line.accepted} accepted, {counted} rows found")
            for count in (*line.rejected, *line.failed):
                found = self._rejected.pop((line.name, count.reason), 0)
                if found != count.count:
                    self.report.problems.append(
                        f"stage {line.name}: {count.count} x {count.reason}, {found} rows in rejected/"
                    )
        for (stage_name, reason), found in self._rejected.items():
            self.report.problems.append(f"rejected/: {found} rows of {stage_name}/{reason} that no stage counts")

    def _check_curation(self) -> None:
        """What stands in the tables and in `rejected/` follows from what the run made and what people decided."""
        try:
            dataset = self.manifest.dataset
            curator = Curator(dataset, rulings_of(self._undo.rows))
            expected = [*curator.sources]
            self.accepted[CURATE] = 0
            for table, product in products_of(dataset).items():
                for name in self.names():
                    standing = self.standing(table, name, product.record)
                    for row, change in curator.curate(table, name, self.rows(table, name, product.record)):
                        expected += [change] if change is not None else []
                        if row is not None:
                            self.accepted[CURATE] += 1
                            if row != next(standing, None):
                                self.problem(name, uid_of(row), "this row is not what people left of what the run made")
        except InvalidInput as error:
            self.report.problems.append(f"{CURATE}: {error}")
            return
        if expected != self._undo.rows:
            self.problem(NAME, "curated", "this is not what follows from the decisions that are told there")
        if list(self.rows("rejected", f"{NAME}.parquet", RejectedRow)) != rejected_rows(expected):
            self.problem(NAME, "rejected", "they are not the rows that people rejected, and what was made of them")
