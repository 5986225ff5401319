"""Which versions the rows of runs are of, by the metadata of their files alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from trailforge.pipelines.datasets import dataset_of
from trailforge.pipelines.runs.finish import read_manifest
from trailforge.pipelines.runs.intake import INPUTS, SETTINGS, read_settings
from trailforge.schemas import InvalidInput, is_read, stored_name, version_of


def run_folders(folder: Path) -> list[Path]:
    """The folder itself if it holds a run, else those of the runs in it and in its folders."""
    if (folder / SETTINGS).is_file():
        return [folder]
    return sorted(path.parent for depth in ("*", "*/*") for path in folder.glob(f"{depth}/{SETTINGS}"))


def files_of(run: Path) -> list[Path]:
    """Parquet files of the tables of a run."""
    return sorted(path for table in _records(run) for path in (run / table).glob("*.parquet"))


def other_versions(run: Path) -> Iterator[str]:
    """Files that this trailforge does not read, each with the version that it is of and the one that is read.

    Raises `InvalidInput` and `OutputError` for a run whose settings it does not know.
    """
    records = _records(run)
    try:
        read_manifest(run)
    except InvalidInput as error:
        yield f"{error}"
    for path in files_of(run):
        record = records[path.parent.name]
        try:
            metadata = pq.read_schema(path).metadata or {}
        except (pa.ArrowInvalid, OSError) as error:
            yield f"{path} cannot be read ({error})"
            continue
        name = metadata.get(b"trailforge.record", b"nothing").decode()
        version = metadata.get(b"trailforge.version", b"none").decode()
        if not is_read(record, name, version):
            yield f"{path} holds {name} {version}, expected {stored_name(record)} {version_of(record)}"


def _records(run: Path) -> dict[str, type]:
    settings = read_settings(run)
    if settings is None:
        raise InvalidInput("holds no run", file=run)
    dataset = dataset_of(settings)
    return {INPUTS: dataset.inputs.record, **dataset.records}
