"""Find data sets by name, for code that has a run's folder and does not know what made it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trailforge.pipelines.dataset import INPUTS, DataSet, Table
from trailforge.presets import declared_datasets
from trailforge.schemas import CuratedRow, FileEntry, InvalidInput, Manifest

if TYPE_CHECKING:
    from trailforge.pipelines.runs.intake import Settings

CURATED = "curated"
"""Table of a curated data set that says what people decided."""
CURATE = "curate"
"""Stage of a curated data set."""


def dataset_names() -> tuple[str, ...]:
    """Return the names of all installed data sets, in alphabetical order."""
    return tuple(declared_datasets())


def load_dataset(name: str) -> DataSet:
    """Return a data set by its name. Raises `InvalidInput` for one that is not installed."""
    if name not in declared_datasets():
        raise InvalidInput(f"no data set {name!r} is installed; this trailforge knows {', '.join(declared_datasets())}")
    return declared_datasets()[name].load()


def dataset_of(settings: Settings) -> DataSet:
    """Return the data set of a run. Raises what `load_dataset` raises."""
    dataset = load_dataset(settings.dataset)
    if is_curated(settings):
        return replace(dataset, tables={**dataset.tables, CURATED: Table(record=CuratedRow)})
    return dataset


def all_tables() -> frozenset[str]:
    """Return the names of the tables of all data sets."""
    return frozenset({INPUTS, CURATED}.union(*(load_dataset(name).tables for name in dataset_names())))


def all_lists() -> frozenset[str]:
    """Return the names of all data sets' files that hold rows in a form other than a table."""
    return frozenset().union(*(load_dataset(name).lists for name in dataset_names()))


def with_roles(manifest: Manifest) -> Manifest:
    """Return a run's manifest with the role of each table, which manifests before version 1.3 do not state."""
    if manifest.dataset not in dataset_names() or any(each.role for each in manifest.schema_versions):
        return manifest
    declared = load_dataset(manifest.dataset).all_tables
    tables = tuple(
        replace(each, role=declared[each.table].role, protocol=declared[each.table].protocol)
        if each.table in declared
        else each
        for each in manifest.schema_versions
    )
    return replace(manifest, schema_versions=tables)


def is_curated(settings: Settings) -> bool:
    """Tell whether a run's folder holds a curated data set, to whose rows people's decisions were applied."""
    return decisions_of(settings) is not None


def decisions_of(settings: Settings) -> FileEntry | None:
    """Return the entry of the file with people's decisions in a curated data set; None for any other run."""
    return next((entry for entry in settings.files if entry.path.startswith(f"{CURATED}/")), None)
