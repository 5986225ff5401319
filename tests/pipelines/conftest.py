"""One finished run of each data set for all tests of the folder; each gets a copy of its own."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.stages.model_work import ModelWork
from tests.pipelines.bundles_support import CONFIG, FinishedBundles, documents_file, make_bundles, scripted_client
from tests.pipelines.support import FinishedRun, make_run, questions_file
from tests.support.bundle_world import write_benchmark
from tests.support.figures import listened


@pytest.fixture(scope="session")
def original_run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """Made once. To be read only: take `finished_run` to change anything."""
    folder = tmp_path_factory.mktemp("made")
    source = questions_file(folder / "questions.jsonl")
    settings, manifest = make_run(folder / "run", source)
    return FinishedRun(folder / "run", source, settings, manifest)


@pytest.fixture
def finished_run(original_run: FinishedRun, tmp_path: Path) -> FinishedRun:
    """A copy of the finished run."""
    copy = tmp_path / "run"
    shutil.copytree(original_run.folder, copy)
    return replace(original_run, folder=copy)


@pytest.fixture(scope="session")
def original_bundles(tmp_path_factory: pytest.TempPathFactory) -> FinishedBundles:
    """Made once, of bundles. To be read only: take `finished_bundles` to change anything."""
    folder = tmp_path_factory.mktemp("made")
    source, benchmark = documents_file(folder / "documents.jsonl"), write_benchmark(folder / "benchmark.jsonl")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ModelWork, "client", scripted_client)
        settings, manifest = make_bundles(folder / "run", source, CONFIG.against([benchmark]))
    return FinishedBundles(folder / "run", source, benchmark, settings, manifest)


@pytest.fixture
def finished_bundles(original_bundles: FinishedBundles, tmp_path: Path) -> FinishedBundles:
    """A copy of the finished run of bundles."""
    copy = tmp_path / "run"
    shutil.copytree(original_bundles.folder, copy)
    return replace(original_bundles, folder=copy)


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that the next figures say."""
    return listened(monkeypatch)
