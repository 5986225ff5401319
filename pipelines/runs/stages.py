"""List the stages of a run with the shards known so far; those of a later stage follow from receipts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from trailforge.pipelines.dataset import DataSet, Stage, StageRun, resolve
from trailforge.pipelines.datasets import CURATE, decisions_of
from trailforge.pipelines.engine.shards import Receipt, Shard, finished_receipt, missing_shards
from trailforge.pipelines.runs.intake import Settings, run_configuration
from trailforge.schemas import CountMismatch, InvalidInput

CURATION = "curation"
"""Name of the one shard of a curated data set, which holds what people decided."""


def _run_nothing(run: StageRun) -> None:
    raise InvalidInput("is a curated data set; its rows follow from the run that it was made of", file=run.folder)


_CURATE = Stage(name=CURATE, unit="rows", run=_run_nothing, asks_model=False)


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """A stage of a run, with its shards."""

    stage: Stage
    shards: tuple[Shard, ...] | None
    """Shards of the stage; None: an earlier stage has to make them first."""
    before: tuple[Shard, ...] = ()
    """Shards of the stage before it, as far as they are known."""

    @property
    def name(self) -> str:
        """Return the name of the stage."""
        return self.stage.name

    @property
    def unit(self) -> str:
        """Return what the stage's items are called."""
        return self.stage.unit


def planned_stages(dataset: DataSet, folder: Path, settings: Settings) -> list[PlannedStage]:
    """Return the stages of a run, in the order in which they run. Raises what `finished_receipt` raises."""
    planned: list[PlannedStage] = []
    is_choosy = any(stage.is_wanted is not None for stage in dataset.stages)
    config = run_configuration(dataset, settings) if is_choosy else None
    for stage in dataset.stages:
        if stage.is_wanted is not None and not resolve(stage.is_wanted)(config):
            continue
        before = planned[-1].shards if planned else None
        shards = () if settings.is_compact and planned else settings.shards
        if stage.follow is not None and not settings.is_compact:
            shards = following(folder, before, resolve(stage.follow))
        planned.append(PlannedStage(stage, shards, before or ()))
    decided = decisions_of(settings)
    if decided is not None:
        shard = Shard(name=CURATION, input=decided.path, first=0, rows=decided.rows)
        planned.append(PlannedStage(_CURATE, (shard,)))
    return planned


def stage_receipts(dataset: DataSet, folder: Path, settings: Settings) -> list[Receipt]:
    """Return the receipts of all stages of a run. Raises `CountMismatch` when one is missing."""
    found: list[Receipt] = []
    for stage in planned_stages(dataset, folder, settings):
        if stage.shards is None:
            raise CountMismatch(f"stage {stage.name} has not begun; run the command of the run again")
        receipts = {shard.name: finished_receipt(folder, shard) for shard in stage.shards}
        missing = [name for name, receipt in receipts.items() if receipt is None]
        if missing:
            raise CountMismatch(
                f"{len(missing)} of {len(stage.shards)} shards have no receipt, first {missing[0]}; "
                "run the command of the run again"
            )
        found += [receipt for receipt in receipts.values() if receipt is not None]
    return found


def is_complete(folder: Path, planned: Iterable[PlannedStage]) -> bool:
    """Tell whether every shard of every stage is finished. Raises what `finished_receipt` raises."""
    return all(stage.shards is not None and not missing_shards(folder, stage.shards) for stage in planned)


def following(
    folder: Path,
    shards: tuple[Shard, ...] | None,
    follow: Callable[[tuple[Shard, ...], list[Receipt]], tuple[Shard, ...]],
) -> tuple[Shard, ...] | None:
    """Return the next stage's shards, which `follow` derives from these shards and their receipts; None while a receipt
    is missing.
    """
    receipts = [finished_receipt(folder, shard) for shard in shards or ()]
    finished = [receipt for receipt in receipts if receipt is not None]
    return None if shards is None or len(finished) < len(receipts) else follow(shards, finished)


def digest_of(receipts: Iterable[Receipt]) -> str:
    """Return a hash of all files in these receipts, and of what those were made of: see `Shard.made_of`."""
    made = sorted(f"{r.made_of} {entry.path} {entry.sha256}" for r in receipts for entry in r.files)
    return hashlib.sha256("\n".join(made).encode()).hexdigest()
