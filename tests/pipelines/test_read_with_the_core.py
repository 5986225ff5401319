"""What is made with Beam is read, checked and decided on without it: by the light core, and its page with `[page]`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.pipelines.bundles_support import FinishedBundles
from tests.pipelines.kg_support import FinishedKg
from tests.pipelines.support import FinishedRun
from tests.test_architecture import ROOT
from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.runs.finished import open_run
from trailforge.schemas.errors import EXTRAS

PAGE = {module for module, extra in EXTRAS.items() if extra == "page"}

_WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
{script}
"""
_COMMANDS = """
from trailforge import cli

for arguments in {commands!r}:
    try:
        cli.main(arguments)
    except SystemExit as end:
        assert not end.code, (arguments, end.code)
"""
_BROWSED = """
from streamlit.testing.v1 import AppTest

sys.argv[1:] = [{folder!r}, "ann"]
page = AppTest.from_file({page!r}, default_timeout=60).run()
assert not page.exception, page.exception
assert page.metric
"""

_END = "--- the next run ---"


def run_without(missing: set[str], script: str) -> str:
    """What a script prints in an interpreter where some packages are not installed."""
    code = _WITHOUT.format(missing=missing, script=script)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folders(
    tmp_path: Path,
    original_run: FinishedRun,
    original_bundles: FinishedBundles,
    original_kg: Mapping[str, FinishedKg],
) -> list[Path]:
    """A copy of a finished run of each data set: one interpreter reads them all, since its start takes the longest."""
    runs = {
        "mcts_trajectories": original_run.folder,
        "document_bundles": original_bundles.folder,
        "kg_trajectories": original_kg["free"].folder,
        "kg_questions": original_kg["written"].folder,
    }
    return [Path(shutil.copytree(folder, tmp_path / name / "run")) for name, folder in runs.items()]


def uid_of(folder: Path) -> str:
    """Of a run's first row."""
    run = open_run(folder)
    return run.row(load_dataset(run.dataset).rows, 0)["uid"]


def test_runs_are_read_and_decided_on_with_the_core_alone(folders: list[Path]) -> None:
    commands = [
        [
            ["verify", str(folder)],
            ["status", str(folder)],
            ["show", str(folder), "--id", uid_of(folder)],
            ["curate", "decide", str(folder), uid_of(folder), "--reject", "too easy"],
            ["curate", "stats", str(folder)],
        ]
        for folder in folders
    ]
    parted = "".join(f"{_COMMANDS.format(commands=some)}\nprint({_END!r})\n" for some in commands)
    *said, _ = run_without({*EXTRAS}, parted).split(_END)
    for folder, text in zip(folders, said, strict=True):
        for expected in ("all as the manifest says", "finished", uid_of(folder), "reject by"):
            assert expected in text, folder


def test_curated_sets_are_made_and_the_page_served_without_what_makes_runs(folders: list[Path]) -> None:
    page, script = str(ROOT / "inspector" / "page.py"), ""
    for folder in folders:
        curated = str(folder.with_name("curated"))
        commands = [
            ["curate", "decide", str(folder), uid_of(folder), "--reject", "too easy"],
            ["curate", "apply", str(folder), "--out", curated],
            ["verify", curated],
        ]
        script += _COMMANDS.format(commands=commands) + _BROWSED.format(folder=str(folder), page=page)
        script += f"\nprint({_END!r})\n"
    *said, _ = run_without({*EXTRAS} - PAGE, script).split(_END)
    assert len(said) == len(folders) and all("all as the manifest says" in text for text in said)
