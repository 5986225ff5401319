"""Kill -9 of runs over a knowledge graph, then the same command: the same bytes, and nothing paid twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flows.configuration import configuration_of
from inference import SqliteLedger
from pipelines import kg_questions, kg_trajectories
from pipelines.dataset import LEDGER
from pipelines.finish import finish_run, read_manifest
from pipelines.intake import write_settings
from pipelines.kg_config import KgQuestionRunConfig, KgRunConfig
from pipelines.kg_questions import KG_QUESTIONS
from pipelines.kg_trajectories import KG
from pipelines.shards import run_pipeline
from pipelines.verify import verify_run
from tests.end_to_end.support import ROOT, prefect_server
from tests.pipelines.kg_support import questions_file, searched_graph
from tests.pipelines.support import IN_PROCESS
from tests.support.kg_agent import paths_store
from tests.support.model_server import running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

IN_FLIGHT = 4
QUESTIONS = 6
SHARED = f"model: {{name: scripted, max_in_flight: {IN_FLIGHT}}}\nschedule: {{questions_in_flight: 3}}\n"
SEARCHING = f"""{SHARED}
generator: {{episodes: 3, top_k: 2}}
retrieval: {{kind: bm25}}
output: {{shard_size: 2}}
"""
ASKING = f"""{SHARED}
count: 12
paths:
  {{max_degree: 9, max_fan_out: 4, min_functionality: 0.0, min_triples: 1, open_ended: [], many_tails: [],
    one_head: [likes, helps, follows, fears], symmetric: [], max_attempts: 40}}
output: {{shard_size: 4}}
"""


@dataclass(frozen=True)
class Site:
    """A folder with graphs, questions and presets, a model server that notes every call, a Prefect server."""

    folder: Path
    url: str
    environment: dict[str, str]

    def start(self, command: str, out: Path) -> subprocess.Popen[str]:
        """The command in a process group of its own."""
        options = {"--preset": self.preset(command), "--kg": self.graph(command), "--model": self.url, "--out": out}
        if command == "kg-trajectories":
            options["--questions"] = self.folder / "questions.jsonl"
        arguments = [str(part) for option in options.items() for part in option]
        with (out.parent / f"{out.name}.log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, "cli.py", command, *arguments],
                cwd=ROOT, env=os.environ | self.environment | {"PYTHONPATH": str(ROOT)}, text=True,
                start_new_session=True, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def preset(self, command: str) -> Path:
        """Of a command."""
        return self.folder / f"{command}.yaml"

    def graph(self, command: str) -> Path:
        """Of a command."""
        return self.folder / "graphs" / command

    def make_undisturbed(self, command: str, out: Path) -> None:
        """The same run in this process, without flow and command."""
        of = (KG, KgRunConfig) if command == "kg-trajectories" else (KG_QUESTIONS, KgQuestionRunConfig)
        preset = str(self.preset(command))
        config: Any = configuration_of(of[1], of[0].name, preset, self.url, None, 0, None)
        config = config.on_graph(self.graph(command))
        if command == "kg-trajectories":
            settings = kg_trajectories.take_in(self.folder / "questions.jsonl", out, config, None)
            write_settings(out, settings)
            work = kg_trajectories.KgWork(folder=str(out), run_id=settings.run_id, config=config)
            run_pipeline(work, out, settings.shards, IN_PROCESS)
        else:
            settings, _ = kg_questions.take_in(out, config)
            write_settings(out, settings)
            for stage in kg_questions.STAGES:
                kg_questions.run(stage, out, settings, config, preset, IN_PROCESS)
        finish_run(out, settings, of[0], seconds=0.0)

    def finish(self, command: str, out: Path) -> None:
        """Run to the end."""
        process = self.start(command, out)
        assert process.wait(120) == 0, (out.parent / f"{out.name}.log").read_text()[-3000:]

    def asked(self) -> list[str]:
        """Keys of all calls that the server received, in order."""
        lines = (self.folder / "calls.log").read_text().splitlines()
        return [line.split()[1] for line in lines if line.startswith("in ")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("killed")
    questions_file(folder / "questions.jsonl", count=QUESTIONS, broken_row=None)
    (folder / "graphs").mkdir()
    searched_graph(folder / "graphs/kg-trajectories", QUESTIONS)
    paths_store(folder / "graphs/kg-questions")
    (folder / "kg-trajectories.yaml").write_text(SEARCHING)
    (folder / "kg-questions.yaml").write_text(ASKING)
    server = running(kg=1, latency=0.06, spread=0.5, slots=IN_FLIGHT, log=folder / "calls.log")
    with server as url, prefect_server(folder / "prefect.log") as environment:
        yield Site(folder, url, environment)


def receipts(out: Path) -> int:
    return len(list((out / "shards").glob("part-*.json")))


@pytest.mark.parametrize("command", ["kg-trajectories", "kg-questions"])
def test_a_killed_run_goes_on_and_ends_in_the_same_bytes(site: Site, command: str) -> None:
    whole, out = site.folder / f"{command}-whole", site.folder / f"{command}-killed"
    tables = (KG if command == "kg-trajectories" else KG_QUESTIONS).tables
    os.truncate(site.folder / "calls.log", 0)
    site.make_undisturbed(command, whole)
    calls = site.asked()
    assert len(calls) == len(set(calls)) > 40, "a call was made twice without any kill"
    assert verify_run(whole).problems == []

    os.truncate(site.folder / "calls.log", 0)
    lost = [killed_when(site, command, out, lambda: len(site.asked()) > len(calls) // 3)]
    if command == "kg-trajectories":
        lost.append(killed_when(site, command, out, lambda: receipts(out) == 2))
    site.finish(command, out)

    asked = site.asked()
    print(f"{len(calls)} calls; {lost} lost in kills, {len(asked) - len(set(asked))} paid again")
    assert set(asked) == set(calls), "the killed run asked other things"
    assert len(asked) - len(set(asked)) <= sum(lost) and max(lost) <= IN_FLIGHT
    assert rows(out, tables) == rows(whole, tables)
    assert {path.split("/")[0] for path in rows(whole, tables)} >= {*tables, "inputs", "plots", "shards"}
    assert not list(out.rglob("*.tmp*"))
    assert verify_run(out).problems == []
    manifests = [manifest for manifest in (read_manifest(out), read_manifest(whole)) if manifest is not None]
    assert len(manifests) == 2 and len({(m.run_id, m.stages, m.files, m.calls, m.cost) for m in manifests}) == 1


def killed_when(site: Site, command: str, out: Path, has_come: Callable[[], bool]) -> int:
    """Start, and kill the group when the moment has come; how many calls were in flight then, and so are lost."""
    asked_before, kept_before = len(site.asked()), calls_kept(out)
    process = site.start(command, out)
    try:
        while not has_come():
            assert process.poll() is None, (out.parent / f"{out.name}.log").read_text()[-3000:]
            time.sleep(0.005)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert read_manifest(out) is None
    return (len(site.asked()) - asked_before) - (calls_kept(out) - kept_before)


def calls_kept(out: Path) -> int:
    """In the ledger."""
    if not (out / LEDGER).exists():
        return 0
    ledger = SqliteLedger(out / LEDGER)
    try:
        return ledger.entries()
    finally:
        ledger.close()


def rows(folder: Path, tables: Iterable[str]) -> dict[str, bytes]:
    """Rows, pictures and receipts of a run, byte for byte."""
    found = [p for table in ("inputs", *tables) for p in folder.glob(f"{table}/*.parquet")]
    files = [*found, *folder.glob("plots/*.png"), *folder.glob("shards/*.json"), *folder.glob("questions.jsonl")]
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(files)}
