"""All data sets by name, for whoever has a run's folder and does not know what is in it."""

from __future__ import annotations

from pipelines.bundles_verify import BundleRowChecks
from pipelines.dataset import Dataset
from pipelines.document_bundles import BUNDLES
from pipelines.intake import Settings
from pipelines.kg_questions import KG_QUESTIONS
from pipelines.kg_questions_verify import KgQuestionRowChecks
from pipelines.kg_trajectories import KG
from pipelines.kg_verify import KgRowChecks
from pipelines.mcts_trajectories import MCTS
from pipelines.mcts_verify import MctsRowChecks
from pipelines.row_checks import RowChecks
from schemas import InvalidInput

_ALL: dict[str, tuple[Dataset, type[RowChecks]]] = {
    MCTS.name: (MCTS, MctsRowChecks),
    BUNDLES.name: (BUNDLES, BundleRowChecks),
    KG.name: (KG, KgRowChecks),
    KG_QUESTIONS.name: (KG_QUESTIONS, KgQuestionRowChecks),
}


def dataset_of(settings: Settings) -> Dataset:
    """The data set of a run. Raises `InvalidInput` for one that this version does not know."""
    return _entry(settings)[0]


def row_checks_of(settings: Settings) -> type[RowChecks]:
    """What verifies the rows of a run. Raises as `dataset_of`."""
    return _entry(settings)[1]


def _entry(settings: Settings) -> tuple[Dataset, type[RowChecks]]:
    if settings.dataset not in _ALL:
        raise InvalidInput(f"a run of {settings.dataset!r}; this trailforge knows {', '.join(_ALL)}")
    return _ALL[settings.dataset]
