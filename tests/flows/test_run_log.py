"""The log of a run: what happened, when, and what it cost; in its folder, in Python's logging and in Prefect's log."""

from __future__ import annotations

import json
import logging
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import fail_next, running
from tests.support.warm import Running
from tests.support.world import write_questions
from trailforge.flows import execute as module
from trailforge.flows.execute import RETRIES, RunRequest, execute
from trailforge.flows.run_log import LOG, LOGGER, read_last_error
from trailforge.pipelines.engine.model_stage import ModelWork
from trailforge.schemas import OutputError, ServerUnavailable

PRESET = """\
model: {name: scripted, prompt_price_per_million: 1.0, completion_price_per_million: 2.0}
retrieval: {kind: bm25}
output: {shard_size: 2}
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running() as url:
        yield url


@pytest.fixture
def request_(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> RunRequest:
    monkeypatch.setattr(module, "RETRY_AFTER_S", 0.0)
    write_questions(tmp_path / "questions.jsonl", 4)
    (tmp_path / "preset.yaml").write_text(PRESET)
    return RunRequest(
        dataset="mcts_trajectories",
        out=tmp_path / "out",
        preset=str(tmp_path / "preset.yaml"),
        files=(tmp_path / "questions.jsonl",),
        model=url,
    )


def events(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / LOG).read_text().splitlines()]


def fail(monkeypatch: pytest.MonkeyPatch, errors: list[Exception]) -> None:
    """The first tries to connect raise these."""
    connect = ModelWork.client

    async def client(work: ModelWork) -> Any:
        if errors:
            raise errors.pop(0)
        return await connect(work)

    monkeypatch.setattr(ModelWork, "client", client)


def test_a_run_tells_its_stages_and_what_they_cost(request_: RunRequest, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    began = datetime.now(UTC).replace(microsecond=0)
    manifest = execute(request_)
    first, stage, last = told = events(request_.out)
    assert [each["event"] for each in told] == ["run_began", "stage_ended", "run_ended"]
    assert {(each["run"], each["level"]) for each in told} == {(manifest.run_id, "info")}
    assert all(began <= datetime.fromisoformat(each["time"]) <= datetime.now(UTC) for each in told)
    assert (first["dataset"], first["preset"]) == ("mcts_trajectories", request_.preset)
    assert (stage["calls"], stage["cost"]) == (manifest.calls, manifest.cost) and manifest.cost > 0
    assert stage["prompt_tokens"] + stage["completion_tokens"] == manifest.prompt_tokens + manifest.completion_tokens
    for each, line in zip(last["books"], manifest.stages, strict=True):
        assert (each["name"], each["inputs"], each["accepted"]) == (line.name, line.inputs, line.accepted)
        assert each["rejected"] == {count.reason: count.count for count in line.rejected}
    assert last["calls"] == manifest.calls and f"{manifest.calls:,} calls" in last["message"]
    # Whoever listens to Python's logging hears the same.
    heard = [record.getMessage() for record in caplog.records if record.name == LOGGER.name]
    assert heard == [each["message"] for each in told]
    execute(request_)
    assert events(request_.out) == told, "a finished run stays as it is"


def test_calls_that_were_tried_again_are_told(request_: RunRequest, url: str) -> None:
    fail_next(url, {"status": 503}, {"status": 503})
    execute(request_)
    _, stage, _ = events(request_.out)
    assert stage["calls_tried_again"] == 2 and stage["prompts_refused"] == 0
    assert stage["message"].endswith(", 2 calls tried again")


def test_errors_are_told_and_the_next_start_goes_on_in_the_same_file(
    request_: RunRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, [ServerUnavailable("it loads its weights")] * (RETRIES + 1))
    with pytest.raises(ServerUnavailable):
        execute(request_)
    told = events(request_.out)
    assert [each["event"] for each in told] == ["run_began", *["stage_failed"] * (RETRIES + 1), "run_failed"]
    assert all(each["reason"] == ServerUnavailable.reason and "loads its weights" in each["error"] for each in told[1:])
    assert (told[-1]["level"], told[-1]["exit_code"]) == ("error", ServerUnavailable.exit_code)
    last = read_last_error(request_.out)
    assert last is not None and told[-1]["time"].startswith(last[0].replace(" ", "T"))
    assert last[1] == told[-1]["message"]
    execute(request_)
    assert read_last_error(request_.out) is None, "it ended well since"
    assert [each["event"] for each in events(request_.out)[len(told) :]] == ["run_began", "stage_ended", "run_ended"]


def test_a_log_of_a_run_with_other_settings_goes_on(request_: RunRequest) -> None:
    first = execute(request_)
    second = execute(replace(request_, seed=1, replace_run=True))
    assert {each["run"] for each in events(request_.out)} == {first.run_id, second.run_id}


def test_lines_that_nobody_can_read_are_passed_over(tmp_path: Path) -> None:
    assert read_last_error(tmp_path) is None
    (tmp_path / LOG).parent.mkdir()
    failed = {"time": "2026-11-21T03:00:05.123+00:00", "event": "stage_failed", "message": "it failed"}
    (tmp_path / LOG).write_text(f'{json.dumps(failed)}\n[1]\n{{"event": "run_fai')
    assert read_last_error(tmp_path) == ("2026-11-21 03:00:05", "it failed")


def test_a_log_that_cannot_be_written_ends_no_run(request_: RunRequest) -> None:
    execute(request_)
    (request_.out / LOG).unlink()
    (request_.out / LOG).mkdir()
    assert execute(replace(request_, seed=1, replace_run=True)).calls


def test_what_is_wrong_before_a_run_begins_leaves_no_folder(request_: RunRequest) -> None:
    request_.out.mkdir()
    (request_.out / "notes.txt").write_text("mine")
    with pytest.raises(OutputError):
        execute(request_)
    assert [path.name for path in request_.out.iterdir()] == ["notes.txt"]


@pytest.mark.slow
def test_a_run_that_is_stopped_says_so(request_: RunRequest, tmp_path: Path) -> None:
    """By SIGTERM, as machines do that go down; after a kill -9 the next start is what is told."""
    words = ["mcts-trajectories", "--questions", request_.files[0], "--preset", request_.preset, "--out", request_.out]
    with running(latency=0.5) as slow:
        told_to = tmp_path / "told"
        process = Running([*map(str, words), "--model", slow], os.environ, tmp_path / "said", told_to)
        until = time.monotonic() + 200
        while not (request_.out / LOG).exists() and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        process.wait(100)
    told = told_to.read_text()
    assert process.returncode == 128 + signal.SIGTERM
    assert "trailforge.run" not in told and told.count("stopped; the same command") == 1, (
        "what a person reads is told once"
    )
    assert [each["event"] for each in events(request_.out)] == ["run_began", "run_stopped"]
