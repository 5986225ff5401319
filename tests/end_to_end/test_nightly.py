"""The nightly deployment: a window loses its worker and is finished by the next night's run, which makes its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.support import POOL, ROOT, Site
from tests.support import nightly_world
from tests.support.bundle_world import write_documents
from tests.support.cluster import children
from tests.support.model_server import running
from trailforge.flows.nights.windows import read_window
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import KgTrajectory, Trajectory, read_rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

IN_FLIGHT = 4
KILLED, NEXT = "2026-11-20", "2026-11-21"
"""By the day of their windows."""
BUNDLES = {KILLED: [4, 9], NEXT: [8]}
"""Of the samples, published the day before."""
BANDS = "window: {questions: {most: 1}}\n"
"""The first window has two."""


class Lab:
    """A folder with documents of a day, a preset, a graph, and the deployment that makes data of them."""

    def __init__(self, site: Site, folder: Path, model: str) -> None:
        self.site, self.folder, self.out = site, folder, folder / "out"
        days = {KILLED: "2026-11-19", NEXT: "2026-11-20"}
        made = [nightly_world.documents_of([days[night]] * len(at), at) for night, at in BUNDLES.items()]
        write_documents(folder / "documents.jsonl", [each for some in made for each in some])
        (folder / "bands.yaml").write_text(BANDS)
        preset = str(nightly_world.write_preset(folder / "preset.yaml", model, in_flight=IN_FLIGHT))
        (found,) = site.ask("deployments/filter", deployments={"name": {"any_": ["nightly"]}})
        self._deployment = found["id"]
        self._parameters = {
            "documents": [str(folder / "*.jsonl")],
            "out": str(self.out),
            "kg": str(nightly_world.graph_of(folder / "kg", [at for some in BUNDLES.values() for at in some])),
            "model": model,
            "bands": str(folder / "bands.yaml"),
            "makes": str(nightly_world.write_makes(folder / "makes.yaml", preset)),
        }

    def schedule(self, day: str) -> str:
        """A run that was due on this day at one in the morning; its id."""
        due = {"type": "SCHEDULED", "state_details": {"scheduled_time": f"{day}T01:00:00Z"}}
        path = f"deployments/{self._deployment}/create_flow_run"
        return self.site.ask(path, parameters=self._parameters, state=due)["id"]

    def state(self, run: str) -> dict[str, Any]:
        """Of a run: its type, and what it says."""
        (found,) = self.site.ask("flow_runs/filter", flow_runs={"id": {"any_": [run]}})
        return found["state"]

    def has_ended(self, run: str) -> bool:
        """Is it over?"""
        return self.state(run)["type"] in {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}

    def asked(self) -> list[str]:
        """Keys of all calls that the model server received, in order."""
        lines = (self.folder / "calls.log").read_text().splitlines()
        return [line.split()[1] for line in lines if line.startswith("in ")]


class Worker:
    """`prefect worker start`, and the flows that it starts."""

    def __init__(self, site: Site, log: Path) -> None:
        self._log = log
        with log.open("a") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL],
                cwd=ROOT, env={**site.environment, "PREFECT_WORKER_QUERY_SECONDS": "1"}, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def until(self, has_come: Callable[[], bool], *, seconds: float = 180, every: float = 0.02) -> None:
        """Wait for a moment. To ask the server for it takes some of its time: seldom is enough."""
        end = time.monotonic() + seconds
        while not has_come():
            assert self._process.poll() is None and time.monotonic() < end, self._log.read_text()[-4000:]
            time.sleep(every)

    def kill(self) -> None:
        """-9, the flows too."""
        doomed = [self._process.pid]
        for pid in doomed:
            doomed += children(pid)
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def told() -> Iterator[tuple[str, list[Any]]]:
    """A web hook on loopback: its URL, and what was sent to it."""
    received: list[Any] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", received
    finally:
        server.shutdown()


LISTEN = """
import sys
from pathlib import Path
from prefect.blocks.webhook import Webhook
from prefect.cli import app
hook, manual, made = sys.argv[1:]
block = Webhook(url=hook).save("bands")
Path(made).write_text(Path(manual).read_text().replace("block_document_id: BLOCK_ID", f"block_document_id: {block}"))
sys.argv = ["prefect", "--no-prompt", "automation", "create", "--from-file", made]
app()
"""
"""In one process: each that loads Prefect takes seconds."""


def listen(site: Site, folder: Path, hook: str) -> None:
    """The automation of the manual, with a block for this hook."""
    said = site.python("-c", LISTEN, hook, ROOT / "docs/automation.yaml", folder / "automation.yaml")
    assert "Created automation" in said


def test_each_night_makes_its_window_though_a_worker_is_killed(site: Site, tmp_path: Path) -> None:
    model = running(nightly=1, latency=0.05, spread=0.5, slots=IN_FLIGHT, log=tmp_path / "calls.log")
    with model as url, told() as (hook, received):
        lab = Lab(site, tmp_path, url)
        listen(site, tmp_path, hook)
        worker = Worker(site, tmp_path / "worker.log")
        try:
            killed = lab.schedule(KILLED)
            worker.until(lambda: any((lab.out / KILLED / "mcts/shards").glob("*.json")))
            worker.kill()
            assert (lab.out / KILLED / "bundles/manifest.json").exists()
            assert not (lab.out / KILLED / "mcts/manifest.json").exists()
            # Prefect would know it after five minutes, when the lease of its place ends.
            site.ask(f"flow_runs/{killed}/set_state", state={"type": "CRASHED"}, force=True)

            worker = Worker(site, tmp_path / "worker.log")
            run = lab.schedule(NEXT)
            worker.until(lambda: lab.has_ended(run), every=0.5)
            worker.until(lambda: received != [], seconds=60)
        finally:
            worker.kill()

    says = f"{KILLED}, window: questions is 2, should be at most 1"
    assert lab.state(run)["type"] == "FAILED" and lab.state(run)["message"].endswith(says)
    assert received == [{"text": says}]
    asked = lab.asked()
    print(f"{len(asked)} calls, {len(asked) - len(set(asked))} paid again")
    assert len(asked) - len(set(asked)) <= IN_FLIGHT
    for night, bundles in BUNDLES.items():
        check_window(lab.out / night, questions=len(bundles))


def check_window(folder: Path, *, questions: int) -> None:
    """All three data sets are there, whole, and no row is there twice."""
    window = read_window(folder)
    assert window is not None and window.questions.accepted == questions
    for each in window.datasets:
        assert verify_run(folder / each.folder).problems == [] and each.rows > 0
    for table, record in (("mcts/mcts_trajectories", Trajectory), ("kg/kg_trajectories", KgTrajectory)):
        rows = [row.uid for row in read_rows(sorted((folder / table).glob("*.parquet")), record)]
        assert 0 < len(rows) == len(set(rows))
