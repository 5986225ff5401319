"""`--log-format json`: every line on stderr is an object, for programs that collect logs."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.support import trailforge
from tests.support.model_server import running
from tests.support.world import write_questions

pytestmark = pytest.mark.slow

PRESET = "model: {name: scripted}\nretrieval: {kind: bm25}\noutput: {shard_size: 2}\n"


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """A run of two questions."""
    write_questions(tmp_path / "questions.jsonl", 2)
    (tmp_path / "preset.yaml").write_text(PRESET)
    named = {"--questions": "questions.jsonl", "--preset": "preset.yaml", "--out": "out"}
    return ["mcts-trajectories", *(word for name, file in named.items() for word in (name, str(tmp_path / file)))]


def objects(stderr: str) -> list[dict[str, Any]]:
    """Of which each line is one."""
    lines = [json.loads(line) for line in stderr.splitlines()]
    assert all(datetime.fromisoformat(line["time"]).tzinfo and line["level"] and line["message"] for line in lines)
    return lines


def told(*words: str, code: int, **environment: str) -> list[dict[str, Any]]:
    """The objects on stderr of a command that ends with this code."""
    done = trailforge(*words, timeout_s=400, environment=environment)
    assert done.code == code, done.err
    return objects(done.err)


def test_what_happens_in_a_run_is_told_in_objects(command: list[str], tmp_path: Path) -> None:
    """From a cold start: what libraries say while they are imported is told in objects, too."""
    with running() as url:
        words = [sys.executable, "-m", "trailforge", *command, "--model", url, "--log-format", "json"]
        done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    lines = objects(done.stderr)
    events = [line["event"] for line in lines]
    assert [each for each in events if each not in ("note", "progress")] == ["run_began", "stage_ended", "run_ended"]
    assert {(line["done"], line["total"]) for line in lines if line["event"] == "progress"} >= {(2, 2)}
    kept = [json.loads(line) for line in (tmp_path / "out" / "progress" / "log.jsonl").read_text().splitlines()]
    assert kept == [line for line in lines if line["event"] not in ("note", "progress")]


def test_errors_and_notices_are_objects_too(command: list[str], tmp_path: Path) -> None:
    """Also by the environment, and where the error is found before a run begins."""
    *_, error = told(*command, "--model", "http://127.0.0.1:9/v1", code=4, TRAILFORGE_LOG_FORMAT="json")
    assert (error["event"], error["level"], error["exit_code"]) == ("end", "error", 4)
    (tmp_path / "preset.yaml").write_text("model: {nmae: x}\n")
    *_, error = told(*command, "--log-format", "json", code=2)
    assert (error["event"], error["exit_code"]) == ("end", 2) and "nmae" in error["message"]
    write_questions(tmp_path / "questions.jsonl", 30)
    with (tmp_path / "questions.jsonl").open("a") as file:
        file.write('{"id": "none"}\n')
    (tmp_path / "preset.yaml").write_text(PRESET)
    lines = told(*command, "--dry-run", "--log-format", "json", code=0)
    assert any(line["event"] == "log" and "1 of 31 rows are invalid" in line["message"] for line in lines)
