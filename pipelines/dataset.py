"""What the ends of a run have to know of a data set: its tables, its books, its card."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trailforge.pipelines.engine.shards import Receipt, Shard, finished_receipt, missing_shards
from trailforge.pipelines.runs.config import RunConfig, read_config
from trailforge.pipelines.runs.intake import Settings, config_of
from trailforge.schemas import CountMismatch, Manifest

LEDGER = "ledger/calls.sqlite"
"""Of a run that shares none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Shards that are run one way."""

    name: str
    unit: str
    """What the items are called."""
    shards: tuple[Shard, ...] | None
    """None: an earlier stage has to make them first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """One of the kinds of data that a run can make."""

    name: str
    item: type
    """Record of the rows of `inputs/`."""
    tables: Mapping[str, type]
    """Record of each other table, by its name."""
    config: type[RunConfig]
    last_stage: str
    """Stage whose accepted items are the rows that calls and cost are counted by."""
    counted: tuple[str, ...]
    """A table and its columns of which the first that is not null is a row's kind: what a status counts."""
    candidates: str = ""
    """Table of what `last_stage` selects from; empty where rows are counted at once."""
    option: str = "--questions"
    """Of the command, by which its input is given."""
    stages: Callable[[Path, Settings], list[Stage]]
    """In the order in which they run."""
    card: Callable[[Path, Manifest, Settings], str]
    """The card as Markdown; its plots are written beside it."""
    beside: Mapping[str, str]
    """Files that are no rows, as figures are: by folder, what their names match."""
    lists: tuple[str, ...] = ()
    """Files in the run's folder itself that hold some of its rows in another form."""

    def receipts(self, folder: Path, settings: Settings) -> list[Receipt]:
        """Of all stages. Raises `CountMismatch` when one is missing."""
        found: list[Receipt] = []
        for stage in self.stages(folder, settings):
            if stage.shards is None:
                raise CountMismatch(f"stage {stage.name} has not begun")
            receipts = {shard.name: finished_receipt(folder, shard) for shard in stage.shards}
            missing = [name for name, receipt in receipts.items() if receipt is None]
            if missing:
                raise CountMismatch(f"{len(missing)} of {len(stage.shards)} shards have no receipt, first {missing[0]}")
            found += [receipt for receipt in receipts.values() if receipt is not None]
        return found

    def is_complete(self, folder: Path, settings: Settings) -> bool:
        """Whether every shard of every stage is finished. Raises as `finished_receipt`."""
        stages = self.stages(folder, settings)
        return all(stage.shards is not None and not missing_shards(folder, stage.shards) for stage in stages)

    def configuration(self, settings: Settings) -> Any:
        """The configuration that a run was made with, of the class `config`. Raises `OutputError` as `config_of`."""
        return read_config(self.config, config_of(settings), source="run.json")


def following(
    folder: Path, shards: Sequence[Shard] | None, made: Callable[[list[Receipt]], tuple[Shard, ...]]
) -> tuple[Shard, ...] | None:
    """What follows from the receipts of these shards; None while one is missing."""
    receipts = [finished_receipt(folder, shard) for shard in shards or ()]
    finished = [receipt for receipt in receipts if receipt is not None]
    return None if shards is None or len(finished) < len(receipts) else made(finished)


def digest_of(receipts: Iterable[Receipt]) -> str:
    """Of all files that these shards made, and of what they made them of: see `Shard.made_of`."""
    made = sorted(f"{r.made_of} {entry.path} {entry.sha256}" for r in receipts for entry in r.files)
    return hashlib.sha256("\n".join(made).encode()).hexdigest()
