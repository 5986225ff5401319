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

_WITHOUT_EXTRAS = f"""
import sys
from trailforge import cli

missing = {set(EXTRAS)!r}

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
_WITH_PAGE = f"missing -= {PAGE!r}"
_COMMANDS = """
for arguments in {commands!r}:
    try:
        cli.main(arguments)
    except SystemExit as end:
        assert not end.code, (arguments, end.code)
"""
_BROWSED = """
from streamlit.testing.v1 import AppTest

sys.argv[1:] = [{folder!r}, "ann"]
page = AppTest.from_file({page!r}, default_timeout=300).run()
assert not page.exception, page.exception
assert page.metric
"""

_END = "--- the next run ---"


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


def test_runs_are_read_and_decided_on_with_the_core_alone_and_then_curated_and_browsed_with_the_page(
    folders: list[Path],
) -> None:
    """In an interpreter where no package of an extra is installed, and later those of the page are."""
    page, parts = str(ROOT / "inspector" / "page.py"), list[str]()
    for folder in folders:
        uid = uid_of(folder)
        commands = [
            ["verify", str(folder)],
            ["status", str(folder)],
            ["show", str(folder), "--id", uid],
            ["curate", "decide", str(folder), uid, "--reject", "too easy"],
            ["curate", "stats", str(folder)],
        ]
        parts.append(_COMMANDS.format(commands=commands))
    for number, folder in enumerate(folders):
        curated = str(folder.with_name("curated"))
        commands = [["curate", "apply", str(folder), "--out", curated], ["verify", curated]]
        browsed = _BROWSED.format(folder=str(folder), page=page)
        parts.append(f"{'' if number else _WITH_PAGE}\n{_COMMANDS.format(commands=commands)}{browsed}")
    script = _WITHOUT_EXTRAS + f"\nprint({_END!r})\n".join([*parts, ""])
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    *said, _ = done.stdout.split(_END)
    read, curated = said[: len(folders)], said[len(folders) :]
    for folder, text in zip(folders, read, strict=True):
        for expected in ("all as the manifest says", "finished", uid_of(folder), "reject by"):
            assert expected in text, folder
    assert len(curated) == len(folders) and all("all as the manifest says" in text for text in curated)
