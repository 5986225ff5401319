"""A browser, and a run with many rows to decide on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from streamlit.components.v2 import manifest_scanner

from tests.support.browser import browsing
from tests.support.rows import QUESTION, trajectory
from trailforge.pipelines.runs.intake import Settings
from trailforge.schemas import Question, Trajectory, to_dict, write_parquet

ROWS = 600


@pytest.fixture(scope="session", autouse=True)
def one_look_for_components() -> Iterator[None]:
    """Each page under test reads what all installed packages say of themselves: the same, and longer than it runs."""
    found = cache(manifest_scanner.scan_component_manifests)
    with mock.patch.object(manifest_scanner, "scan_component_manifests", found):
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as started:
        yield started


@pytest.fixture(scope="module")
def many_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose rows have their number in their title."""
    folder = tmp_path_factory.mktemp("many-rows")
    questions = [
        replace(QUESTION, id=f"q{number:03}", question=f"Row {number:03}: {QUESTION.question}")
        for number in range(ROWS)
    ]  # fmt: skip
    rows = [trajectory(uid=f"u{each.id[1:]}", question=each) for each in questions]
    for table, record, content in (("inputs", Question, questions), ("mcts_trajectories", Trajectory, rows)):
        (folder / table).mkdir()
        write_parquet(folder / table / "part-00000.parquet", record, content)
    settings = Settings(
        dataset="mcts_trajectories", run_id="run", config_hash="c", config="{}", sources=(), limit=None, shards=(),
        files=(), books=(),
    )  # fmt: skip
    (folder / "run.json").write_text(json.dumps(to_dict(settings)))
    return folder
