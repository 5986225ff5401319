"""A night that cannot make all of its entries ends before its first call; one that was killed is planned anew for the
entry that has no row, while the others stay as they are.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.end_to_end.support import SERVER, Ended, Site, trailforge
from tests.end_to_end.test_nightly import check_window
from tests.support import nightly_world
from tests.support.bundle_world import write_documents
from tests.support.model_server import running, stats
from tests.support.warm import Running
from trailforge.flows.nights import windows
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.pipelines.dataset import LEDGER

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DAY = "2026-11-20"
BUNDLES = [4, 9]
IN_FLIGHT = 4


@dataclass(frozen=True)
class Lab:
    """Documents of a day, a graph, presets, a model server, and the Prefect server of the folder."""

    folder: Path
    url: str
    environment: dict[str, str]

    @property
    def window(self) -> Path:
        """Of the day."""
        return self.folder / "out" / DAY

    def arguments(self, kg_preset: str, *more: str) -> list[str]:
        """Of the command, by which KG trajectories go by this preset."""
        makes = nightly_world.write_makes(
            self.folder / "makes.yaml", str(self.folder / "preset.yaml"), str(self.folder / kg_preset)
        )
        given = ["--documents", str(self.folder / "*.jsonl"), "--out", str(self.folder / "out"), "--day", DAY]
        return ["nightly", *given, "--kg", str(self.folder / "kg"), "--model", self.url, "--makes", str(makes), *more]

    def run(self, kg_preset: str, *more: str) -> Ended:
        """The command, to its end."""
        return trailforge(*self.arguments(kg_preset, *more), environment=self.environment, timeout_s=240)

    def kill_when(self, has_come: Callable[[], bool], kg_preset: str, *more: str) -> None:
        """Start the command, and `kill -9` it with all that it started at a moment."""
        log = self.folder / "killed.log"
        process = Running(self.arguments(kg_preset, *more), {**os.environ, **self.environment}, log, log)
        try:
            end = time.monotonic() + 240
            while not has_come():
                assert process.poll() is None and time.monotonic() < end, log.read_text()[-4000:]
                time.sleep(0.01)
        finally:
            process.end_group()

    def asked(self) -> list[str]:
        """Keys of all calls that the model server received, in order."""
        lines = (self.folder / "calls.log").read_text().splitlines()
        return [line.split()[1] for line in lines if line.startswith("in ")]


@pytest.fixture(scope="module")
def lab(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    model = running(nightly=1, latency=0.3, slots=IN_FLIGHT, log=folder / "calls.log")
    environment = {name: site.environment[name] for name in (SERVER, "PREFECT_HOME")}
    with model as url:
        documents = nightly_world.documents_of(["2026-11-19"] * len(BUNDLES), BUNDLES)
        write_documents(folder / "documents.jsonl", documents)
        nightly_world.graph_of(folder / "kg", BUNDLES)
        preset = nightly_world.write_preset(folder / "preset.yaml", url, in_flight=IN_FLIGHT)
        text = preset.read_text()
        (folder / "other.yaml").write_text(text.replace("episodes: 2", "episodes: 1"))
        graph, dense = "  generator: {episodes: 2", "  retrieval: {kind: dense, encoder: nobody/has-it}"
        (folder / "lacking.yaml").write_text(text.replace(f"{graph}, top_k: 2}}\n  retrieval: {{kind: bm25}}",
                                                          f"{graph}, top_k: 2}}\n{dense}"))  # fmt: skip
        yield Lab(folder, url, environment)


def files_of(*runs: Path) -> dict[Path, tuple[int, bytes]]:
    """When each file was written, and what is in it; no lock, which says who was there last."""
    found = (path for run in runs for path in run.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def has_paid(run: Path) -> bool:
    if not (run / LEDGER).is_file():
        return False
    with closing(SqliteLedger(run / LEDGER)) as book:
        return book.entries() > 0


def test_a_night_with_a_missing_encoder_ends_before_its_first_call(lab: Lab) -> None:
    ended = lab.run("lacking.yaml")
    fault = (
        f"kg (preset {lab.folder}/lacking.yaml): encoder: nobody/has-it is no folder and not in the model hub's cache"
    )
    assert ended.code == 11 and fault in ended.error_line and "--fetch" in ended.error_line
    assert [line for line in ended.out.splitlines() if line.startswith("fault")] == [
        line for line in ended.out.splitlines() if fault in line
    ]
    assert (stats(lab.url)["calls"], lab.asked()) == (0, [])
    kept = {path.name for path in lab.window.glob("[!.]*")}
    assert kept == {windows.PLAN, windows.TAKEN, windows.DOCUMENTS}


def test_an_entry_is_planned_anew_beside_finished_ones_though_it_is_killed_twice(lab: Lab) -> None:
    kg, finished = lab.window / "kg", [lab.window / "bundles", lab.window / "mcts"]
    lab.kill_when(lambda: has_paid(kg), "preset.yaml")  # the day's window of the test before: kg goes by this now
    assert not any((kg / "shards").glob("*.json"))
    before = files_of(*finished)
    assert {path.name for path in before} >= {"manifest.json", "run.json", "calls.sqlite"}

    refused = lab.run("other.yaml")
    assert (
        refused.code == 9
        and "kg paid for calls, but has no row; to make it with the new, add --replan kg" in refused.error_line
    )
    lab.kill_when(lambda: any((kg / "shards").glob("*.json")), "other.yaml", "--replan", "kg")
    plan = json.loads((lab.window / windows.PLAN).read_text())
    assert [Path(make["preset"]).name for make in plan["makes"]] == ["preset.yaml", "preset.yaml", "other.yaml"]
    held = lab.run("preset.yaml", "--replan", "kg")
    assert held.code == 9 and f"kg had begun; give the old parameters, or move {kg} away" in held.error_line

    ended = lab.run("other.yaml")
    assert ended.code == 0, ended.err
    assert files_of(*finished) == before
    check_window(lab.window, questions=len(BUNDLES))
    asked = lab.asked()
    print(f"{len(asked)} calls, {len(asked) - len(set(asked))} paid again")
    assert len(asked) - len(set(asked)) <= 2 * IN_FLIGHT
