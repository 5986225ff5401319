"""All data sets by name, for whoever has a run's folder and does not know what is in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from trailforge.curation.rows import STAGE as CURATE
from trailforge.curation.rows import TABLE as CURATED
from trailforge.generators.document_bundles.checks import BundleRowChecks
from trailforge.generators.document_bundles.work import BUNDLES
from trailforge.generators.kg_questions.checks import KgQuestionRowChecks
from trailforge.generators.kg_questions.work import KG_QUESTIONS
from trailforge.generators.kg_trajectories.checks import KgRowChecks
from trailforge.generators.kg_trajectories.work import KG
from trailforge.generators.mcts_trajectories.checks import MctsRowChecks
from trailforge.generators.mcts_trajectories.work import MCTS
from trailforge.pipelines.dataset import Dataset, Stage
from trailforge.pipelines.engine.shards import Shard
from trailforge.pipelines.runs.intake import INPUTS, Settings
from trailforge.pipelines.runs.row_checks import RowChecks
from trailforge.schemas import CuratedRow, FileEntry, InvalidInput

_ALL: dict[str, tuple[Dataset, type[RowChecks]]] = {
    MCTS.name: (MCTS, MctsRowChecks),
    BUNDLES.name: (BUNDLES, BundleRowChecks),
    KG.name: (KG, KgRowChecks),
    KG_QUESTIONS.name: (KG_QUESTIONS, KgQuestionRowChecks),
}

CURATION = "curation"
"""The shard of what people decided, in a curated data set."""


def dataset_of(settings: Settings) -> Dataset:
    """The data set of a run. Raises `InvalidInput` for one that this version does not know."""
    dataset, told = _entry(settings)[0], _told(settings)
    return dataset if told is None else _curated(dataset, told)


def all_tables() -> frozenset[str]:
    """Names of the tables of all data sets."""
    return frozenset({INPUTS, CURATED}.union(*(dataset.tables for dataset, _ in _ALL.values())))


def is_curated(settings: Settings) -> bool:
    """Whether people's decisions were applied to these rows."""
    return _told(settings) is not None


def row_checks_of(settings: Settings) -> type[RowChecks]:
    """What verifies the rows of a run. Raises as `dataset_of`."""
    return _entry(settings)[1]


def _entry(settings: Settings) -> tuple[Dataset, type[RowChecks]]:
    if settings.dataset not in _ALL:
        raise InvalidInput(f"a run of {settings.dataset!r}; this trailforge knows {', '.join(_ALL)}")
    return _ALL[settings.dataset]


def _told(settings: Settings) -> FileEntry | None:
    """The file of a curated data set that tells what people decided; None for a run."""
    return next((entry for entry in settings.files if entry.path.startswith(f"{CURATED}/")), None)


def _curated(dataset: Dataset, told: FileEntry) -> Dataset:
    """The data set with one more table and one more stage."""
    shard = Shard(name=CURATION, input=told.path, first=0, rows=told.rows)
    stage = Stage(name=CURATE, unit="rows", shards=(shard,))

    def stages(folder: Path, settings: Settings) -> list[Stage]:
        return [*dataset.stages(folder, settings), stage]

    return replace(dataset, tables={**dataset.tables, CURATED: CuratedRow}, stages=stages)
