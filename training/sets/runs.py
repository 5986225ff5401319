"""Runs of any data set as training meets them: finished, and read by the roles that their tables declare."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trailforge.pipelines.dataset import Table
from trailforge.pipelines.datasets import dataset_names, load_dataset
from trailforge.pipelines.runs.finished import MANIFEST, FinishedRun, read_finished
from trailforge.schemas import InvalidInput, TableRole, is_read, stored_name, version_of

TRAINED = ("sft", "questions", "corpus", "pairs")
"""Roles of the tables that training reads."""


def trained_tables(dataset: str) -> dict[str, Table]:
    """The tables of a data set's runs that training reads, by name."""
    return {name: table for name, table in load_dataset(dataset).all_tables.items() if table.role in TRAINED}


def table_of(dataset: str, role: TableRole) -> tuple[str, Table] | None:
    """A data set's table of a role, with its name; None where it has none."""
    return next(((name, table) for name, table in trained_tables(dataset).items() if table.role == role), None)


def open_runs(folders: Sequence[Path]) -> list[FinishedRun]:
    """Several runs in the given order. Raises `InvalidInput` as `open_run`, and for a run that is given twice."""
    if not folders:
        raise InvalidInput("no run given")
    runs = [open_run(folder) for folder in folders]
    folder_of: dict[str, Path] = {}
    for run in runs:
        if (first := folder_of.setdefault(run.manifest_sha256, run.folder)) != run.folder or runs.count(run) > 1:
            raise InvalidInput(f"the same run as {first}", file=run.folder)
    return runs


def open_run(folder: Path) -> FinishedRun:
    """A finished run. Raises `InvalidInput` when there is none, it is not finished, or another version made it."""
    run = read_finished(folder)
    if run.dataset not in dataset_names():
        known = ", ".join(dataset_names())
        problem = f"a run of {run.dataset!r}; training takes runs of {known}"
        raise InvalidInput(problem, file=folder / MANIFEST, field="dataset")
    _check_versions(run)
    return run


def _check_versions(run: FinishedRun) -> None:
    """Before anything is read: the files of a table say their version too, but one file at a time."""
    stated = {version.table: version for version in run.manifest.schema_versions}
    for table, declared in trained_tables(run.dataset).items():
        found, record = stated.get(table), declared.record
        if found is not None and not is_read(record, found.record, found.version):
            raise InvalidInput(
                f"table {table} holds {found.record} {found.version}; this trailforge reads {stored_name(record)} "
                f"{version_of(record)}: make the run again with it",
                file=run.folder / MANIFEST,
                field="schema_versions",
            )
