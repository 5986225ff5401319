"""Stages without Prefect: an error that may mend costs a retry, any other one ends the run at once."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.model_server import running
from tests.support.world import write_questions
from trailforge.flows import execute as module
from trailforge.flows.execute import RETRIES, RunRequest, execute
from trailforge.inference import ModelClient
from trailforge.pipelines.engine.model_stage import ModelWork
from trailforge.pipelines.runs.finish import MANIFEST
from trailforge.schemas import InvalidInput, ProviderError, RetrievalError, SearchFailed, ServerUnavailable

PRESET = "model: {name: scripted, max_in_flight: 8}\nretrieval: {kind: bm25}\noutput: {shard_size: 3}\n"


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRequest:
    monkeypatch.setattr(module, "RETRY_AFTER_S", 0.0)
    write_questions(tmp_path / "questions.jsonl", 4)
    (tmp_path / "preset.yaml").write_text(PRESET)
    return RunRequest(
        dataset="mcts_trajectories",
        out=tmp_path / "out",
        preset=str(tmp_path / "preset.yaml"),
        files=(tmp_path / "questions.jsonl",),
        model="http://127.0.0.1:9/v1",
    )


def run(request: RunRequest, monkeypatch: pytest.MonkeyPatch, errors: list[Exception]) -> None:
    """Run with these errors at the first tries to connect, which are taken off the list."""
    connect = ModelWork.client

    async def client(work: ModelWork) -> ModelClient:
        if errors:
            raise errors.pop(0)
        return await connect(work)

    monkeypatch.setattr(ModelWork, "client", client)
    with running() as url:
        execute(replace(request, model=url))


@pytest.mark.slow
def test_a_server_that_is_away_for_a_moment_costs_a_retry(
    request_: RunRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[Exception] = [ServerUnavailable("it loads its weights")] * RETRIES
    run(request_, monkeypatch, errors)
    assert not errors and (request_.out / MANIFEST).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (ServerUnavailable("away"), RETRIES + 1),
        (ProviderError("the key is refused"), 1),
        (RetrievalError("cannot load the encoder 'nobody/has-it'"), 1),
        (SearchFailed("its server is away"), RETRIES + 1),
    ],
)
def test_in_the_end_the_error_comes_out_as_it_was_raised(
    request_: RunRequest, monkeypatch: pytest.MonkeyPatch, error: Exception, tries: int
) -> None:
    errors = [error] * 10
    with pytest.raises(type(error), match=str(error)):
        run(request_, monkeypatch, errors)
    assert len(errors) == 10 - tries and not (request_.out / MANIFEST).exists()


@pytest.mark.parametrize(("error", "is_traced"), [(InvalidInput("no such file"), False), (KeyError("a defect"), True)])
@pytest.mark.parametrize("logger", ["prefect.flow_runs", "prefect.task_runs", "prefect.engine"])
def test_an_error_of_ours_is_a_line_in_prefects_log_and_a_defect_keeps_its_traceback(
    caplog: pytest.LogCaptureFixture, logger: str, error: Exception, is_traced: bool
) -> None:
    try:
        raise error
    except Exception:
        logging.getLogger(logger).exception("Encountered exception during execution")
        logging.getLogger(logger).exception("It failed: %r", error)
    first, second = caplog.records
    assert [bool(record.exc_info) for record in (first, second)] == [is_traced] * 2
    assert ("Traceback" in caplog.text) == is_traced
    if not is_traced:
        assert first.getMessage() == "Encountered exception during execution: no such file"
        assert second.getMessage() == "It failed: InvalidInput('no such file')"
