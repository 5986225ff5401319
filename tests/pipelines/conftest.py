"""One finished run for all tests of the folder; each gets a copy of its own."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pipelines.support import FinishedRun, make_run, questions_file


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
