"""Kill -9 of the whole process group at random moments, then the same command: nothing lost, doubled or paid twice."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pipelines.dataset import LEDGER
from pipelines.finish import read_manifest
from pipelines.mcts_trajectories import TABLES
from schemas import SearchTree, read_rows
from tests.support.files import digests
from tests.support.model_server import running
from tests.support.world import write_questions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
QUESTIONS = 24
IN_FLIGHT = 16
RUNS, KILLS_PER_RUN = 2, 5
PRESET = f"""
model: {{name: scripted, max_in_flight: {IN_FLIGHT}}}
retrieval: {{kind: bm25}}
schedule: {{questions_in_flight: 8, tail_questions: 6}}
output: {{shard_size: 4}}
"""


class Site:
    """A folder with questions and a preset, and a model server that notes every call."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url, self.log = folder, url, folder / "calls.log"

    def start(self, out: Path) -> subprocess.Popen[str]:
        """The command in a process group of its own."""
        arguments = ["--questions", self.folder / "questions.jsonl", "--preset", self.folder / "preset.yaml"]
        with (out.parent / f"{out.name}.log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, "cli.py", "mcts-trajectories", *arguments, "--model", self.url, "--out", out],
                cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def finish(self, out: Path) -> None:
        """Run to the end."""
        process = self.start(out)
        assert process.wait(300) == 0, (out.parent / f"{out.name}.log").read_text()[-3000:]

    def asked(self) -> list[str]:
        """Keys of all calls that the server received, in order."""
        return [line.split()[1] for line in self.log.read_text().splitlines() if line.startswith("in ")]

    def forget(self) -> None:
        """Begin a new log."""
        os.truncate(self.log, 0)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("killed")
    write_questions(folder / "questions.jsonl", QUESTIONS)
    (folder / "preset.yaml").write_text(PRESET)
    with running(latency=0.15, spread=0.5, slots=IN_FLIGHT, error_rate=0.3, log=folder / "calls.log") as url:
        yield Site(folder, url)


@pytest.fixture(scope="module")
def undisturbed(site: Site) -> tuple[Path, int]:
    """A run that nothing happened to: its folder, and how many calls it made."""
    site.finish(site.folder / "undisturbed")
    asked = site.asked()
    assert len(asked) == len(set(asked)), "a call was made twice without any kill"
    return site.folder / "undisturbed", len(asked)


@pytest.mark.parametrize("number", range(RUNS))
def test_a_killed_run_goes_on_and_ends_in_the_same_bytes(
    number: int, site: Site, undisturbed: tuple[Path, int]
) -> None:
    whole, calls = undisturbed
    rng, out = random.Random(number), site.folder / f"killed-{number}"
    site.forget()
    moments = sorted(rng.sample(range(calls + 1), KILLS_PER_RUN))
    in_flight = [kill_after(site, out, calls=moment, delay=rng.uniform(0, 0.4)) for moment in moments]
    site.finish(out)

    asked = site.asked()
    print(f"kills after {moments} of {calls} calls; in flight {in_flight}; repaid {len(asked) - len(set(asked))}")
    assert max(in_flight) <= IN_FLIGHT
    assert len(asked) - len(set(asked)) <= sum(in_flight)
    assert len(set(asked)) == calls, "the killed run asked other things"
    assert shards(out) == shards(whole)
    assert not list(out.rglob("*.tmp*"))
    trees = Counter(tree.question_id for tree in read_rows(sorted(out.glob("trees/*.parquet")), SearchTree))
    assert len(trees) == QUESTIONS and set(trees.values()) == {1}
    manifest = read_manifest(out)
    assert manifest is not None and all(stage.balance == 0 for stage in manifest.stages)


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_told_to_stop_stops_at_once_and_says_how_to_go_on(sent: int, code: int, site: Site) -> None:
    site.forget()
    out = site.folder / f"stopped-{code}"
    process = site.start(out)
    while len(site.asked()) < 50 and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(sent)
    assert process.wait(20) == code
    assert (out.parent / f"{out.name}.log").read_text().rstrip().endswith("the same command goes on from here")
    assert read_manifest(out) is None


def kill_after(site: Site, out: Path, *, calls: int, delay: float) -> int:
    """Start, kill the group some time after the server has seen so many calls; how many were in flight then: asked by
    this process, and not in the ledger. (What an earlier one lost and this one did not come to is not.)
    """
    asked_before, kept_before = len(site.asked()), in_ledger(out)
    process = site.start(out)
    while len(set(site.asked())) < calls and process.poll() is None:
        time.sleep(0.02)
    try:
        process.wait(delay)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return (len(site.asked()) - asked_before) - (in_ledger(out) - kept_before)


def in_ledger(out: Path) -> int:
    """Calls that the ledger of a killed run holds."""
    if not (out / LEDGER).exists():
        return 0
    with closing(sqlite3.connect(out / LEDGER)) as ledger:
        return ledger.execute("SELECT count(*) FROM calls").fetchone()[0]


def shards(folder: Path) -> dict[str, str]:
    """The rows of a run, byte for byte."""
    return digests(folder, (path for table in TABLES for path in folder.glob(f"{table}/*.parquet")))
