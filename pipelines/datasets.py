"""All data sets by name, for whoever has a run's folder and does not know what is in it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from trailforge.pipelines.dataset import INPUTS, DataSet, Table
from trailforge.schemas import CuratedRow, FileEntry, InvalidInput

if TYPE_CHECKING:
    from trailforge.pipelines.runs.intake import Settings

GROUP = "trailforge.datasets"
"""Of entry points: name of a data set, and where its declaration is."""
CURATED = "curated"
"""Table of a curated data set that says what people decided."""
CURATE = "curate"
"""Stage of a curated data set."""


def dataset_names() -> tuple[str, ...]:
    """Of all data sets that are installed, in alphabetical order."""
    return tuple(_declared())


def load_dataset(name: str) -> DataSet:
    """A data set by its name. Raises `InvalidInput` for one that is not installed."""
    if name not in _declared():
        raise InvalidInput(f"a run of {name!r}; this trailforge knows {', '.join(_declared())}")
    return _declared()[name].load()


def dataset_of(settings: Settings) -> DataSet:
    """The data set of a run. Raises as `load_dataset`."""
    dataset = load_dataset(settings.dataset)
    if is_curated(settings):
        return replace(dataset, tables={**dataset.tables, CURATED: Table(record=CuratedRow)})
    return dataset


def all_tables() -> frozenset[str]:
    """Names of the tables of all data sets."""
    return frozenset({INPUTS, CURATED}.union(*(load_dataset(name).tables for name in dataset_names())))


def all_lists() -> frozenset[str]:
    """Names of the files in which some data sets list rows beside their tables."""
    return frozenset().union(*(load_dataset(name).lists for name in dataset_names()))


def is_curated(settings: Settings) -> bool:
    """Whether people's decisions were applied to these rows."""
    return decisions_of(settings) is not None


def decisions_of(settings: Settings) -> FileEntry | None:
    """The file of a curated data set that says what people decided; None for a run."""
    return next((entry for entry in settings.files if entry.path.startswith(f"{CURATED}/")), None)


@cache
def _declared() -> dict[str, EntryPoint]:
    return {each.name: each for each in sorted(entry_points(group=GROUP), key=lambda each: each.name)}
