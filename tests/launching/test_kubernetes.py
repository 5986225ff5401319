"""A run on Kubernetes, as its pods would run it: the Job's pod is lost in the middle, and another one goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.launching.kubernetes import Pods, kill
from tests.launching.slurm import answer_all, answer_until
from tests.launching.test_slurm import IN_FLIGHT, PRESET, WORKERS
from tests.support import postgres
from tests.support.world import write_questions
from trailforge import cli
from trailforge.pipelines.runs.verify import verify_run

SETTINGS = {
    "use_cpu": True,
    "sharding": "none",
    "secret": "keys",
    "generation": {"servers": 1, "workers": WORKERS},
}
_PATIENCE_S = 400.0


@pytest.mark.slow
@pytest.mark.skipif("TRAILFORGE_REHEARSE" not in os.environ, reason="`make rehearse` runs it")
def test_a_run_goes_on_in_another_pod_and_pays_for_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    write_questions(tmp_path / "questions.jsonl", 10)
    (tmp_path / "preset.yaml").write_text(yaml.safe_dump(PRESET))
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(SETTINGS))
    words = ["launch", "k8s", "--settings", "cluster.yaml", "mcts-trajectories", "--questions", "questions.jsonl"]
    done = CliRunner().invoke(cli.app, [*words, "--preset", "preset.yaml", "--out", "run"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    run = tmp_path / "run"
    (manifests,) = tmp_path.glob("*-launch/generate.yaml")
    with postgres.running() as database:
        secret = {"TRAILFORGE_API_KEY": "made for this", "TRAILFORGE_LEDGER_PASSWORD": database.password}
        pods = Pods(manifests, tmp_path, secret, database.url)
        try:
            pods.start()
            job = pods.start_job()
            answer_until(pods.calls, lambda: list((run / "shards").rglob("*.json")))
            assert pods.goes_on_after(kill(job)) and not (run / "manifest.json").exists()
            receipts = {path: path.stat().st_ino for path in (run / "shards").rglob("*.json")}
            answer_all(pods.calls)
            assert pods.start_job().wait(_PATIENCE_S) == 0, (tmp_path / "pods.log").read_text()[-6000:]
        finally:
            pods.stop()
    assert (run / "manifest.json").exists() and not verify_run(run).problems
    assert {path: path.stat().st_ino for path in receipts} == receipts
    asked = pods.asked()
    assert len(asked) - len(set(asked)) <= IN_FLIGHT * WORKERS
    assert not pods.goes_on_after(2) and not pods.goes_on_after(0) and pods.goes_on_after(10)
