"""One finished run of each data set for all tests of the folder, in all processes; each gets a copy of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pipelines.bundles_support import CONFIG, FinishedBundles, documents_file, make_bundles, scripted_client
from tests.pipelines.kg_support import (
    BY_RULE,
    FREE,
    GUIDED,
    WRITTEN,
    FinishedKg,
    make_questions,
    make_trajectories,
    searched_graph,
)
from tests.pipelines.kg_support import questions_file as questions_file_of
from tests.pipelines.kg_support import scripted_client as kg_client
from tests.pipelines.support import FinishedRun, make_run, questions_file
from tests.support.bundle_world import write_benchmark
from tests.support.figures import texts  # noqa: F401 - a fixture
from tests.support.kg_agent import paths_store
from tests.support.shared import made_once
from trailforge.generators.kg_questions import DATASET as KG_QUESTIONS
from trailforge.generators.kg_trajectories import DATASET as KG
from trailforge.pipelines.engine.model_stage import ModelWork
from trailforge.pipelines.runs.intake import Settings
from trailforge.protocols import result_filters
from trailforge.schemas import Manifest


@pytest.fixture(scope="session")
def original_run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """Made once. To be read only: take `finished_run` to change anything."""

    def make(folder: Path) -> FinishedRun:
        source = questions_file(folder / "questions.jsonl")
        return FinishedRun(folder / "run", source, *make_run(folder / "run", source))

    return made_once(tmp_path_factory, "trajectories", make)


@pytest.fixture
def finished_run(original_run: FinishedRun, tmp_path: Path) -> FinishedRun:
    """A copy of the finished run."""
    copy = tmp_path / "run"
    shutil.copytree(original_run.folder, copy)
    return replace(original_run, folder=copy)


@pytest.fixture(scope="session")
def original_bundles(tmp_path_factory: pytest.TempPathFactory) -> FinishedBundles:
    """Made once, of bundles. To be read only: take `finished_bundles` to change anything."""

    def make(folder: Path) -> FinishedBundles:
        source, benchmark = documents_file(folder / "documents.jsonl"), write_benchmark(folder / "benchmark.jsonl")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(ModelWork, "client", scripted_client)
            made = make_bundles(folder / "run", source, CONFIG.against([benchmark]))
        return FinishedBundles(folder / "run", source, benchmark, *made)

    return made_once(tmp_path_factory, "bundles", make)


@pytest.fixture
def finished_bundles(original_bundles: FinishedBundles, tmp_path: Path) -> FinishedBundles:
    """A copy of the finished run of bundles."""
    copy = tmp_path / "run"
    shutil.copytree(original_bundles.folder, copy)
    return replace(original_bundles, folder=copy)


@pytest.fixture(autouse=True)
def always_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The filter of triples: the small graph never offers more than may be kept."""
    monkeypatch.setattr(result_filters, "UNASKED", 0)


@pytest.fixture(scope="session")
def original_kg(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, FinishedKg]:
    """Runs over a knowledge graph, by what they are: `free`, `guided`, `written`, `by_rule`. To be read only."""
    made = made_once(tmp_path_factory, "graph", _make_kg)
    datasets = {"free": KG, "guided": KG, "written": KG_QUESTIONS, "by_rule": KG_QUESTIONS}
    return {name: FinishedKg(*made[name], dataset) for name, dataset in datasets.items()}


def _make_kg(folder: Path) -> dict[str, tuple[Path, Path, Settings, Manifest]]:
    source, searched = questions_file_of(folder / "questions.jsonl"), searched_graph(folder / "searched")
    paths = paths_store(folder / "paths").folder
    runs: dict[str, tuple[Path, Path, Settings, Manifest]] = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(result_filters, "UNASKED", 0)
        patched.setattr(ModelWork, "client", kg_client)
        for name, searching in (("free", FREE), ("guided", GUIDED)):
            made = make_trajectories(folder / name, source, searching.on_graph(searched))
            runs[name] = (folder / name, searched, *made)
        for name, asking in (("written", WRITTEN), ("by_rule", BY_RULE)):
            made = make_questions(folder / name, asking.on_graph(paths))
            runs[name] = (folder / name, paths, *made)
    return runs


@pytest.fixture
def finished_kg(original_kg: Mapping[str, FinishedKg], tmp_path: Path) -> Callable[[str], FinishedKg]:
    """Gives a copy of one of these runs."""

    def copy_of(name: str) -> FinishedKg:
        shutil.copytree(original_kg[name].folder, tmp_path / "run")
        return replace(original_kg[name], folder=tmp_path / "run")

    return copy_of
