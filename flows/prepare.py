"""What a start finds in a run's folder: nothing, a run that goes on, one that is finished, or another one."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from trailforge.pipelines.dataset import DataSet, resolve
from trailforge.pipelines.datasets import dataset_of
from trailforge.pipelines.engine.files import output_errors
from trailforge.pipelines.engine.shards import Shard
from trailforge.pipelines.runs.config import RunConfig
from trailforge.pipelines.runs.damage import drop_damaged
from trailforge.pipelines.runs.finish import MANIFEST, read_manifest
from trailforge.pipelines.runs.intake import (
    STAGED,
    RunInputs,
    Settings,
    config_of,
    discard_staged,
    read_settings,
    refuse_other_run,
    write_settings,
)
from trailforge.pipelines.runs.own_files import drop_rows
from trailforge.pipelines.runs.stages import is_complete
from trailforge.schemas import InvalidInput, Manifest, read_parquet

C = TypeVar("C", bound=RunConfig)


def say(line: str) -> None:
    """Print a line for people, who may pipe what a command prints elsewhere."""
    print(line, file=sys.stderr, flush=True)


def with_redo(out: Path, config: C, is_asked: bool) -> C:
    """How often cut replies were asked for anew: as the folder's run says, and once more if that is asked.

    A run that was stopped in the middle of it goes on with the same number.
    """
    earlier = read_settings(out)
    if earlier is None:
        if is_asked:
            raise InvalidInput("holds no run, so there are no replies to ask for anew; leave out --redo", file=out)
        return config
    number = config_of(earlier).get("redo", 0)
    begins = is_asked and (number == 0 or _finished(out, earlier) is not None)
    return replace(config, redo=number + begins)


def prepare(
    out: Path, dataset: DataSet, config: RunConfig, inputs: RunInputs, *, replace_run: bool
) -> tuple[Settings, Manifest | None]:
    """Take the input in. The same run goes on, with every shard that is finished; another one is refused.

    `replace_run`: the rows of another one go, its ledger stays. With the settings comes the manifest of a run that is
    finished and whole; None when something is to be made (again), and what is damaged is said. A manifest that counts
    on shards which are to be run goes after the new settings are written: see `drop_rows`.
    """
    try:
        settings, earlier = resolve(dataset.take_in)(inputs, out, config), read_settings(out)
        if earlier is not None and earlier.run_id == settings.run_id:
            is_damaged = drop_damaged(out, dataset, earlier, say)
            finished = _finished(out, earlier)
            if finished is not None and not is_damaged and is_complete(dataset, out, earlier):
                return earlier, finished  # not a byte of it changes
        elif earlier is not None:
            if not (replace_run or _is_redo_of(out, dataset, earlier, settings, config)):
                refuse_other_run(out, settings)
            drop_rows(out, dataset_of(earlier), say)
        write_settings(out, settings)
        if not is_complete(dataset, out, settings):
            with output_errors(out):
                (out / MANIFEST).unlink(missing_ok=True)
        return settings, None
    finally:
        discard_staged(out)


def _finished(out: Path, settings: Settings) -> Manifest | None:
    """The manifest of this very run. Raises as `read_manifest`."""
    manifest = read_manifest(out)
    return manifest if manifest is not None and manifest.run_id == settings.run_id else None


def _is_redo_of(out: Path, dataset: DataSet, earlier: Settings, settings: Settings, config: RunConfig) -> bool:
    """The same items and settings, but that cut replies are asked for once more."""
    number = config_of(earlier).get("redo", 0)
    if config.redo <= number or replace(config, redo=number).hash != earlier.config_hash:
        return False
    before, now = ([shard.rows for shard in each.shards] for each in (earlier, settings))
    if before != now:
        return False
    hashes = {entry.path: entry.sha256 for each in (earlier, settings) for entry in each.files}
    pairs = zip(earlier.shards, settings.shards, strict=True)
    others = ((a, b) for a, b in pairs if hashes[a.input] != hashes[b.input])
    return all(_read_items(out, dataset, a) == _read_items(out, dataset, b) for a, b in others)


def _read_items(out: Path, dataset: DataSet, shard: Shard) -> list[Any]:
    """Rows, not hashes: other versions write the same rows as other bytes."""
    staged = out / STAGED / shard.input
    return read_parquet(staged if staged.exists() else out / shard.input, dataset.inputs.record)
