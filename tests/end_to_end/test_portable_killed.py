"""Kill -9 of driver, worker and model server of a portable run with a shared ledger, then the same command.

Nothing is lost, doubled or paid again that was acknowledged, what was finished at a kill is not made again, and the
bytes are those of an undisturbed local run.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.end_to_end.kills import Stamps, changed_files, finished_files
from tests.support import cluster, model_server, postgres
from tests.support.files import digests
from tests.support.warm import Running
from tests.support.world import write_questions
from trailforge.generators.mcts_trajectories import DATASET as MCTS
from trailforge.inference.ledgers import PASSWORD_VARIABLE, URL_VARIABLE
from trailforge.pipelines.dataset import LEDGER
from trailforge.pipelines.runs.finish import read_manifest
from trailforge.schemas import SearchTree, read_rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]

ROOT = Path(__file__).parents[2]
QUESTIONS = 24
PER_WORKER = 8
IN_FLIGHT = PER_WORKER * cluster.POOLS
MOMENTS = (0.05, 0.25, 0.4, 0.6, 0.8)
"""Of the kills, as shares of all calls."""
STAYED_AWAY = (3, 4)
"""Exit codes when no model server answers: while calls wait for it, or when a worker begins."""
PRESET = f"""
model: {{name: scripted, max_in_flight: {PER_WORKER}, stall_s: 8}}
retrieval: {{kind: bm25}}
schedule: {{questions_in_flight: 6, tail_questions: 4, worker_start_s: 120, worker_silence_s: 8}}
output: {{shard_size: 2}}
"""


class Model:
    """A model server at one address, which can be killed and started again, and notes every call."""

    def __init__(self, log: Path) -> None:
        self._log, self._process, self.url = log, None, ""

    def start(self) -> None:
        """At the same address as before."""
        port = urlsplit(self.url).port or 0
        self._process, self.url = model_server.start(
            latency=0.15, spread=0.5, slots=IN_FLIGHT, error_rate=0.3, log=self._log, port=port
        )

    def kill(self) -> None:
        """`kill -9`."""
        if self._process is not None:
            self._process.end_group()
            self._process = None

    def asked(self) -> list[str]:
        """Keys of all calls received, in order."""
        return [line.split()[1] for line in self._log.read_text().splitlines() if line.startswith("in ")]

    def forget(self) -> None:
        """Begin a new log."""
        os.truncate(self._log, 0)


class Site:
    """Questions, preset, model, database server, and what a run without kills has made."""

    def __init__(self, folder: Path, model: Model, database: postgres.Server) -> None:
        self.folder, self.model, self.database = folder, model, database
        self.whole, self.calls = folder / "undisturbed", 0

    def start(self, out: Path, workers: cluster.Cluster | None = None) -> Running:
        """The command in a process group of its own. On a cluster its ledger is a database of the run's name."""
        arguments = ["--questions", self.folder / "questions.jsonl", "--preset", self.folder / "preset.yaml"]
        arguments += ["--model", self.model.url, "--out", out, *(workers.options if workers else ())]
        environment = dict(os.environ)
        if workers is not None:
            environment |= {URL_VARIABLE: self.ledger(out), PASSWORD_VARIABLE: self.database.password}
        log = self.folder / f"{out.name}.log"
        return Running(["mcts-trajectories", *map(str, arguments)], environment, log, log)

    def ledger(self, out: Path) -> str:
        """URL of the run's ledger, without the password."""
        return self.database.url.replace("/postgres", f"/{out.name}")

    def log(self, out: Path) -> str:
        """The end of what the command said."""
        return (self.folder / f"{out.name}.log").read_text()[-3000:]

    def has_asked(self, share: float, process: Running) -> None:
        """Wait until the model has seen this share of all calls."""
        while len(set(self.model.asked())) < share * self.calls:
            assert process.poll() is None, "it had finished before it was disturbed"
            time.sleep(0.02)

    def begin(self, name: str) -> Path:
        """Folder and empty database of a run."""
        self.database.ask(f"CREATE DATABASE {name}")
        self.model.forget()
        return self.folder / name

    def check(self, out: Path, *kills: Stamps) -> None:
        """0 rows lost, 0 doubled, the same bytes, paid again at most what was in flight. Of each kill: what had been
        finished then, which is as it was.
        """
        asked = self.model.asked()
        repaid = len(asked) - len(set(asked))
        most = len(kills) * IN_FLIGHT
        print(f"{out.name}: {len(kills)} kills, {self.calls} calls, repaid {repaid}, in flight at most {most}")
        assert repaid <= most
        assert any(kills) and not [name for finished in kills for name in changed_files(out, finished)]
        assert len(set(asked)) == self.calls, "the disturbed run asked other things"
        assert rows(out) == rows(self.whole)
        trees = Counter(tree.question_id for tree in read_rows(sorted(out.glob("trees/*.parquet")), SearchTree))
        assert len(trees) == QUESTIONS and set(trees.values()) == {1}
        manifest = read_manifest(out)
        assert manifest is not None and all(stage.balance == 0 for stage in manifest.stages)
        assert not list(out.rglob("*.tmp*")) and not (out / LEDGER).exists()
        assert self.shared_calls(out) == self.calls
        password = self.database.password.encode()
        assert not [path for path in out.rglob("*") if path.is_file() and password in path.read_bytes()]
        assert password.decode() not in self.log(out)

    def shared_calls(self, out: Path) -> int:
        """Calls in the run's ledger."""
        import asyncio

        from trailforge.inference.ledgers.postgres import PostgresLedger

        async def entries() -> int:
            ledger = PostgresLedger(self.ledger(out), self.database.password)
            try:
                return await ledger.entries()
            finally:
                await ledger.aclose()

        return asyncio.run(entries())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("portable-killed")
    write_questions(folder / "questions.jsonl", QUESTIONS)
    (folder / "preset.yaml").write_text(PRESET)
    model = Model(folder / "calls.log")
    with postgres.running() as database:
        site = Site(folder, model, database)
        try:
            model.start()
            assert site.start(site.whole).wait(300) == 0, site.log(site.whole)
            site.calls = len(model.asked())
            yield site
        finally:
            model.kill()


def test_driver_worker_and_model_server_are_killed(site: Site, tmp_path: Path) -> None:
    """A killed worker is made up for by the command itself, and so is a model server that is back within seconds. A
    killed driver, and a model server that stays away, end the command; the same command goes on.
    """
    out, kills = site.begin("killed"), []
    with cluster.running(tmp_path, environment={PASSWORD_VARIABLE: site.database.password}) as workers:
        process = site.start(out, workers)
        site.has_asked(MOMENTS[0], process)
        site.model.kill()
        kills.append(finished_files(out))
        time.sleep(1)
        site.model.start()
        site.has_asked(MOMENTS[1], process)
        process.end_group()
        kills.append(finished_files(out))

        process = site.start(out, workers)
        site.has_asked(MOMENTS[2], process)
        os.kill(workers.workers()[-1], signal.SIGKILL)
        kills.append(finished_files(out))
        site.has_asked(MOMENTS[3], process)
        os.kill(workers.workers()[-1], signal.SIGKILL)  # as often as a run tries again
        kills.append(finished_files(out))
        site.has_asked(MOMENTS[4], process)
        site.model.kill()
        kills.append(finished_files(out))
        assert process.wait(300) in STAYED_AWAY, site.log(out) + workers.log()

        site.model.start()
        assert site.start(out, workers).wait(300) == 0, site.log(out) + workers.log()
        site.check(out, *kills)


def rows(folder: Path) -> dict[str, str]:
    """Rows and receipts of a run, byte for byte."""
    files = [p for t in MCTS.tables for p in folder.glob(f"{t}/*.parquet")] + list(folder.glob("shards/*.json"))
    return digests(folder, files)
