"""`trailforge status` beside a real run: while it works, after kill -9 half way, and at its end."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.support import trailforge
from tests.support.model_server import running
from tests.support.warm import Running
from tests.support.world import write_questions

pytestmark = pytest.mark.slow

PRESET = """\
model: {name: scripted, max_in_flight: 8}
retrieval: {kind: bm25}
schedule: {questions_in_flight: 4}
output: {shard_size: 4}
"""


def status(folder: Path) -> dict[str, Any]:
    ended = trailforge("status", folder, "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_status_of_a_run_that_is_killed_half_way_and_goes_on(tmp_path: Path) -> None:
    questions, out = tmp_path / "questions.jsonl", tmp_path / "run"
    write_questions(questions, 16)
    (tmp_path / "preset.yaml").write_text(PRESET)
    with running(latency=0.15) as url:
        arguments = ("mcts-trajectories", "--questions", questions, "--out", out, "--model", url)
        command = [*arguments, "--preset", tmp_path / "preset.yaml"]
        process = Running([*map(str, command)], os.environ, tmp_path / "log", tmp_path / "log")
        try:
            while not list(out.glob("shards/*.json")):
                assert process.poll() is None
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGSTOP)  # so that it does not end before we have asked
            now = status(out)
            assert (now["state"], now["is_held"], now["items"]) == ("running", True, 16)
            assert now["pace"]["paid_calls"] > 0 and now["pace"]["seconds_left"] > 0
        finally:
            process.end_group()
        killed = status(out)
        assert (killed["state"], killed["is_held"], killed["pace"]) == ("stopped", False, None)
        assert 1 <= killed["shards_done"] <= 4 and killed["calls_kept"] >= now["pace"]["paid_calls"]
        assert trailforge(*command).code == 0
    finished = status(out)
    assert (finished["state"], finished["items_done"]) == ("finished", 16)
    shown = trailforge("status", out, "--watch")
    assert shown.code == 0 and shown.out.startswith(f"{out}: finished") and "shards     4 of 4" in shown.out


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    assert status(tmp_path)["state"] == "empty"
    ended = trailforge("status", tmp_path / "none")
    assert (ended.code, ended.error_line) == (2, f"error: {tmp_path}/none: no such run folder")
