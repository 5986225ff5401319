"""Deployments run by workers: a window that lost its worker is finished by the next night's run, which makes its own,
while another deployment runs beside it; a third night's key is refused. Prefect's logs alone tell all of it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.support import POOL, PRESET, ROOT, Site
from tests.support import nightly_world
from tests.support.bundle_world import write_documents
from tests.support.cluster import children
from tests.support.model_server import fail_next, running
from tests.support.world import write_questions
from trailforge.flows.nights.windows import read_window
from trailforge.flows.run_log import LOG
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import KgTrajectory, Trajectory, read_rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

IN_FLIGHT = 4
KILLED, NEXT, REFUSED = "2026-11-20", "2026-11-21", "2026-11-22"
"""By the day of their windows."""
BUNDLES = {KILLED: [4, 9], NEXT: [8]}
"""Of the samples, published the day before."""
OF_REFUSED = [13]
"""The same of the night whose key is refused."""
BANDS = "window: {questions: {most: 1}}\n"
"""The first window has two."""
BESIDE, FLOW = "musique-nightly", "mcts-trajectories"
"""The other deployment, and its flow."""
SECRET = "sk-scheduled-and-not-to-be-seen"


class Lab:
    """A folder with documents of a day, a preset, a graph, and the deployment that makes data of them."""

    def __init__(self, site: Site, folder: Path, model: str) -> None:
        self.site, self.folder, self.out = site, folder, folder / "out"
        days = {KILLED: "2026-11-19", NEXT: "2026-11-20", REFUSED: "2026-11-21"}
        given = {**BUNDLES, REFUSED: OF_REFUSED}
        made = [nightly_world.documents_of([days[night]] * len(at), at) for night, at in given.items()]
        write_documents(folder / "documents.jsonl", [each for some in made for each in some])
        (folder / "bands.yaml").write_text(BANDS)
        preset = str(nightly_world.write_preset(folder / "preset.yaml", model, in_flight=IN_FLIGHT))
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
        return self.begin("nightly", self._parameters, state=due)

    def schedule_beside(self, model: str) -> str:
        """A run of the other deployment, due now; its id."""
        folder = self.folder / "beside"
        folder.mkdir()
        write_questions(folder / "questions.jsonl", 4)
        (folder / "preset.yaml").write_text(PRESET)
        given = {"questions": str(folder / "questions.jsonl"), "preset": str(folder / "preset.yaml")}
        return self.begin(BESIDE, {**given, "out": str(folder / "out"), "model": model})

    def begin(self, deployment: str, parameters: dict[str, str], **more: Any) -> str:
        """A run of a deployment; its id."""
        (found,) = self.site.ask("deployments/filter", deployments={"name": {"any_": [deployment]}})
        return self.site.ask(f"deployments/{found['id']}/create_flow_run", parameters=parameters, **more)["id"]

    def state(self, run: str) -> dict[str, Any]:
        """Of a run: its type, and what it says."""
        (found,) = self.site.ask("flow_runs/filter", flow_runs={"id": {"any_": [run]}})
        return found["state"]

    def has_ended(self, run: str) -> bool:
        """Is it over?"""
        return self.state(run)["type"] in {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}

    def log_of(self, run: str) -> list[tuple[str, str]]:
        """Of a run and of the runs below it: each line's time and text, in order."""
        below = {"parent_flow_run_id": {"any_": [run]}}
        runs = [run, *(each["id"] for each in self.site.ask("flow_runs/filter", flow_runs=below))]
        lines = self.site.ask("logs/filter", logs={"flow_run_id": {"any_": runs}}, sort="TIMESTAMP_ASC")
        return [(each["timestamp"], each["message"]) for each in lines]

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
                cwd=ROOT, env={**site.environment, "PREFECT_WORKER_QUERY_SECONDS": "3", "TRAILFORGE_API_KEY": SECRET},
                start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def until(self, has_come: Callable[[], bool], *, seconds: float = 180, every: float = 0.1) -> None:
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
from prefect.settings import get_current_settings
print("analytics:", get_current_settings().server.analytics_enabled)
hook, manual, made = sys.argv[1:]
block = Webhook(url=hook).save("bands")
Path(made).write_text(Path(manual).read_text().replace("block_document_id: BLOCK_ID", f"block_document_id: {block}"))
sys.argv = ["prefect", "--no-prompt", "automation", "create", "--from-file", made]
app()
"""
"""In one process: each that loads Prefect takes seconds."""


def listen(site: Site, folder: Path, hook: str) -> str:
    """The automation of the manual, with a block for this hook; what was printed."""
    environment = {name: value for name, value in site.environment.items() if "ANALYTICS" not in name}
    said = replace(site, environment=environment).python(
        "-c", LISTEN, hook, ROOT / "docs/automation.yaml", folder / "automation.yaml"
    )
    assert "Created automation" in said
    return said


@dataclass(frozen=True)
class Nights:
    """What was seen."""

    lab: Lab
    state: dict[str, Any]
    """Of the second night's run."""
    logs: dict[str, list[tuple[str, str]]]
    """Prefect's log of each night."""
    beside: str
    """Id of the other deployment's run."""
    received: list[Any]
    said: str
    """By a command of Prefect in the root."""
    log: str


@pytest.fixture(scope="module")
def nights(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Nights:
    folder = tmp_path_factory.mktemp("nights")
    model = running(nightly=1, latency=0.05, spread=0.5, slots=IN_FLIGHT, log=folder / "calls.log")
    with model as url, running() as other, told() as (hook, received):
        lab = Lab(site, folder, url)
        said = listen(site, folder, hook)
        worker = Worker(site, folder / "worker.log")
        try:
            killed = lab.schedule(KILLED)
            worker.until(lambda: any((lab.out / KILLED / "mcts/shards").glob("*.json")))
            worker.kill()
            assert (lab.out / KILLED / "bundles/manifest.json").exists()
            assert not (lab.out / KILLED / "mcts/manifest.json").exists()
            # Prefect would know it after five minutes, when the lease of its place ends.
            site.ask(f"flow_runs/{killed}/set_state", state={"type": "CRASHED"}, force=True)

            worker = Worker(site, folder / "worker.log")
            runs = [lab.schedule(NEXT), lab.schedule_beside(other)]
            worker.until(lambda: all(map(lab.has_ended, runs)), every=2)
            worker.until(lambda: received != [], seconds=60)
            fail_next(url, *[{"status": 401}] * 200)
            refused = lab.schedule(REFUSED)
            worker.until(lambda: lab.has_ended(refused), every=2)
        finally:
            worker.kill()
    logs = {night: lab.log_of(run) for night, run in ((KILLED, killed), (NEXT, runs[0]), (REFUSED, refused))}
    return Nights(lab, lab.state(runs[0]), logs, runs[1], received, said, (folder / "worker.log").read_text())


def test_each_night_makes_its_window_though_a_worker_is_killed(nights: Nights) -> None:
    says = f"{KILLED}, window: questions is 2, should be at most 1"
    assert nights.state["type"] == "FAILED" and nights.state["message"].endswith(says)
    assert nights.received == [{"text": says}]
    asked = nights.lab.asked()
    print(f"{len(asked)} calls, {len(asked) - len(set(asked))} paid again")
    assert len(asked) - len(set(asked)) <= IN_FLIGHT
    for night, bundles in BUNDLES.items():
        check_window(nights.lab.out / night, questions=len(bundles))


def test_the_logs_alone_tell_what_happened_when_and_what_it_cost(nights: Nights) -> None:
    """The killed night finishes bundles; the next one goes on with what is missing of it, then makes its own; of the
    third the refused key is said, and no more."""
    said = {night: [text for _, text in lines] for night, lines in nights.logs.items()}
    for night, lines in nights.logs.items():
        print(night, *(f"{when} {text}" for when, text in lines), sep="\n  ")
        assert all(when for when, _ in lines)
    # Prefect sends lines every two seconds, and a kill takes the last ones along; the runs' own logs have all.
    bundles, own = (
        [json.loads(line) for line in (nights.lab.out / KILLED / name / LOG).read_text().splitlines()]
        for name in ("bundles", "mcts")
    )
    assert bundles[-1]["event"] == "run_ended"
    assert re.match(r"finished: .* \d+ calls, [\d,]+ tokens", bundles[-1]["message"])
    events = [each["event"] for each in own]
    # A kill behind the last shard leaves no stage to the second run, which then only ends.
    assert [each for each in events if each != "stage_ended"] == ["run_began", "run_began", "run_ended"]
    assert events.count("stage_ended") <= 1
    finished = [text for text in said[NEXT] if text.startswith("finished: ")]
    assert len(finished) == 5 and all(re.search(r"\d+ calls, [\d,]+ tokens", text) for text in finished)
    assert not [text for text in said[REFUSED] if text.startswith("finished: ")]
    assert any(text.startswith(f"window {REFUSED}: ") and "the key is refused" in text for text in said[REFUSED])


def test_a_run_of_a_deployment_leaves_rows_and_artifacts(site: Site, nights: Nights) -> None:
    assert nights.lab.state(nights.beside)["type"] == "COMPLETED", nights.log
    assert verify_run(nights.lab.folder / "beside" / "out").problems == []
    artifacts = site.ask("artifacts/filter", artifacts={"flow_run_id": {"any_": [nights.beside]}})
    assert {each["type"] for each in artifacts} == {"progress", "table", "markdown"}
    assert {each["key"] for each in artifacts} == {f"{FLOW}-funnel", f"{FLOW}-cost", None}
    runs = {"flow_run_id": {"any_": [nights.beside]}, "level": {"ge_": 20}}
    told = [each["message"] for each in site.ask("logs/filter", logs=runs)]
    assert [said for said in told if said.startswith("finished: ")], told
    assert "finished: " in nights.log and "trailforge.run" not in nights.log, "a worker prints it twice"
    assert SECRET not in nights.log
    assert not [path for path in site.home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_the_windows_of_each_night_stand_under_one_key(site: Site, nights: Nights) -> None:
    found = site.ask("artifacts/filter", artifacts={"key": {"any_": ["night-summary"]}})
    (last,) = (each["data"] for each in found if each["description"] == NEXT)
    assert [line.split()[:2] for line in last.splitlines()[2:4]] == [[KILLED, "complete"], [NEXT, "complete"]]
    assert f"{KILLED}  outside its band: window: questions is 2" in last


def test_a_run_that_fails_says_why_in_lines_and_not_in_tracebacks(site: Site, nights: Nights) -> None:
    told = [each["message"] for each in site.ask("logs/filter", logs={"level": {"ge_": 40}})]
    assert any("should be at most 1" in message for message in told)
    assert not [message for message in (*told, nights.log) if "Traceback (most recent call last)" in message]


def test_a_prefect_command_in_the_root_reports_nothing_outside(nights: Nights) -> None:
    """By `prefect.toml`, without any help of the environment."""
    assert "analytics: False" in nights.said


def check_window(folder: Path, *, questions: int) -> None:
    """All three data sets are there, whole, and no row is there twice."""
    window = read_window(folder)
    assert window is not None and window.questions.accepted == questions
    for each in window.datasets:
        assert verify_run(folder / each.folder).problems == [] and each.rows > 0
    for table, record in (("mcts/mcts_trajectories", Trajectory), ("kg/kg_trajectories", KgTrajectory)):
        rows = [row.uid for row in read_rows(sorted((folder / table).glob("*.parquet")), record)]
        assert 0 < len(rows) == len(set(rows))
