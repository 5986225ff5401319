"""A run's job as Slurm would run it: servers, workers, scheduler and ledger, and its end of time in the middle."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.launching.slurm import Slurm
from tests.support.postgres import programs_folder
from tests.support.world import write_questions
from trailforge import cli
from trailforge.pipelines.runs.verify import verify_run

IN_FLIGHT, WORKERS = 4, 2
PRESET = {
    "model": {"name": "scripted", "max_in_flight": IN_FLIGHT},
    "generator": {"rollout": {"top_k": 2}},
    "retrieval": {"kind": "bm25"},
    "output": {"shard_size": 2},
    "server": {"model": "scripted", "silence_s": 20},
}
SETTINGS = {
    "use_cpu": True,
    "sharding": "none",
    "generation": {"nodes": 2, "servers": 2, "workers": WORKERS},
}


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that another user may enter, as PostgreSQL is run by one for root."""
    with tempfile.TemporaryDirectory(prefix="trailforge-slurm-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def written(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The job's script, as the command writes it."""
    monkeypatch.chdir(home)
    monkeypatch.setattr("trailforge.launching.generation._PAUSE_S", 1)
    write_questions(home / "questions.jsonl", 10)
    (home / "preset.yaml").write_text(yaml.safe_dump(PRESET))
    (home / "cluster.yaml").write_text(yaml.safe_dump(SETTINGS))
    words = ["launch", "slurm", "--settings", "cluster.yaml", "mcts-trajectories", "--questions", "questions.jsonl"]
    done = CliRunner().invoke(cli.app, [*words, "--preset", "preset.yaml", "--out", "run"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return home / "run-launch" / "generate.sbatch"


@pytest.mark.slow
@pytest.mark.skipif(programs_folder() is None, reason="PostgreSQL is not installed here (no initdb)")
def test_a_run_goes_on_in_the_next_allocation_and_pays_for_nothing_twice(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    script, slurm = written(home, monkeypatch), Slurm(home)
    run = home / "run"
    job = slurm.start(script)
    slurm.until(job, lambda: len(slurm.asked()) > 40)
    # A server dies under way: it is started again, and the run goes on.
    first = slurm.servers.read_text().split()
    assert len(first) == 2
    os.kill(int(first[0]), signal.SIGKILL)
    slurm.until(job, lambda: len(slurm.servers.read_text().split()) == 3)
    slurm.until(job, lambda: list((run / "shards").rglob("*.json")))
    assert not (run / "manifest.json").exists()
    assert slurm.end_of_time(job) == 0
    assert slurm.said()[-1] == f"requeue {slurm.id}"
    receipts = {path: path.stat().st_ino for path in (run / "shards").rglob("*.json")}

    assert slurm.wait(slurm.start(script)) == 0, (home / "job.log").read_text()[-6000:]
    assert (run / "manifest.json").exists() and not verify_run(run).problems
    assert {path: path.stat().st_ino for path in receipts} == receipts
    # Again only what was under way when the server died, and when time ended.
    asked = slurm.asked()
    assert len(asked) - len(set(asked)) <= 2 * IN_FLIGHT * WORKERS
    assert slurm.said()[-1].startswith("srun")
    assert not list((home / "run-launch").glob("tls-*")) and (home / "run-launch" / "ledger").is_dir()
