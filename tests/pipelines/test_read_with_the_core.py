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


def run_without(missing: set[str], script: str) -> str:
    """What a script prints in an interpreter where some packages are not installed."""
    code = _WITHOUT.format(missing=missing, script=script)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(params=["mcts_trajectories", "document_bundles", "kg_trajectories", "kg_questions"])
def folder(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    original_run: FinishedRun,
    original_bundles: FinishedBundles,
    original_kg: Mapping[str, FinishedKg],
) -> Path:
    """A copy of a finished run of each data set."""
    runs = {
        "mcts_trajectories": original_run.folder,
        "document_bundles": original_bundles.folder,
        "kg_trajectories": original_kg["free"].folder,
        "kg_questions": original_kg["written"].folder,
    }
    return Path(shutil.copytree(runs[request.param], tmp_path / "run"))


def test_a_run_is_read_and_decided_on_with_the_core_alone(folder: Path) -> None:
    run = open_run(folder)
    uid = run.row(load_dataset(run.dataset).rows, 0)["uid"]
    commands = [
        ["verify", str(folder)],
        ["status", str(folder)],
        ["show", str(folder), "--id", uid],
        ["curate", "decide", str(folder), uid, "--reject", "too easy"],
        ["curate", "stats", str(folder)],
    ]
    said = run_without({*EXTRAS}, _COMMANDS.format(commands=commands))
    for expected in ("all as the manifest says", "finished", uid, "reject by"):
        assert expected in said


def test_a_curated_set_is_made_and_the_page_served_without_what_makes_runs(folder: Path) -> None:
    run = open_run(folder)
    uid = run.row(load_dataset(run.dataset).rows, 0)["uid"]
    curated = str(folder.with_name("curated"))
    commands = [
        ["curate", "decide", str(folder), uid, "--reject", "too easy"],
        ["curate", "apply", str(folder), "--out", curated],
        ["verify", curated],
    ]
    page = str(ROOT / "inspector" / "page.py")
    script = _COMMANDS.format(commands=commands) + _BROWSED.format(folder=str(folder), page=page)
    assert "all as the manifest says" in run_without({*EXTRAS} - PAGE, script)
