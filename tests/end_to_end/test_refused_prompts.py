"""One prompt that the server refuses costs its item: runs and evaluations end well, and it can be asked again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.support import PRESET, trailforge
from tests.inference import misbehaving as bad
from tests.support import agent_model, world
from trailforge.pipelines.runs.status import read_status
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import RejectedRow, read_rows

pytestmark = pytest.mark.slow

SOON = PRESET.replace("max_in_flight: 8", "max_in_flight: 8, backoff_s: 0.02")
"""Eight tries of a prompt that fails each time take a minute by the usual waits."""
FILTERED = {"error": {"message": "The prompt triggered the content management policy", "code": "content_filter"}}


def poisoned(word: str, mode: bad.Mode) -> bad.Mode:
    """The mode to every prompt with a word in it, good replies to all others."""

    async def choosy(call: bad.Call) -> bool:
        return await (mode if word in json.dumps(call.body, ensure_ascii=False) else bad.well)(call)

    return choosy


def rejected(out: Path) -> list[RejectedRow]:
    return list(read_rows(sorted((out / "rejected").glob("*.parquet")), RejectedRow))


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        (bad.status("400 Bad Request", body=FILTERED), "content management policy"),
        (
            bad.status("500 Internal Server Error", body={"error": "CUDA error: device-side assert"}),
            "device-side assert",
        ),
    ],
    ids=["a filter", "a 500"],
)
def test_a_run_ends_with_the_refused_question_rejected_and_redo_asks_for_it_alone(
    tmp_path: Path, mode: bad.Mode, says: str
) -> None:
    questions = tmp_path / "questions.jsonl"
    world.write_questions(questions, 6)
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    rows[2]["question"] += " Mind the unmentionable."
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "preset.yaml").write_text(SOON)
    out = tmp_path / "out"
    with bad.misbehaving_beside(poisoned("unmentionable", mode), world.Model()) as server:
        command = ["mcts-trajectories", "--questions", questions, "--out", out, "--preset", tmp_path / "preset.yaml"]
        command += ["--model", server.url]
        ended = trailforge(*command)
        assert ended.code == 0, ended.err
        refused = [row for row in rejected(out) if row.reason == "prompt_refused"]
        assert len(refused) == 1 and says in refused[0].detail and "unmentionable" in refused[0].payload
        status = read_status(out)
        assert (status.state, status.refused) == ("finished", 1) and verify_run(out).problems == []
        server.calls = 0
        assert trailforge(*command).code == 0 and server.calls == 0, "the same command does not ask again"
        server.mode = bad.well
        ended = trailforge(*command, "--redo", "refused")
        assert ended.code == 0, ended.err
        asked = server.calls
        assert "asking again for 1 refused prompts" in ended.err
    assert read_status(out).refused == 0 and verify_run(out).problems == []
    assert not any(row.reason == "prompt_refused" for row in rejected(out))
    assert 0 < asked < 40, "what had been answered came from the ledger"


def test_an_evaluation_has_a_row_for_the_refused_question_and_redo_asks_for_it_alone(tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    world.write_questions(questions, 6)
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    rows[0]["question"] += " Mind the unmentionable."
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out, mode = tmp_path / "out", bad.status("400 Bad Request", body=FILTERED)
    with bad.misbehaving_beside(poisoned("unmentionable", mode), agent_model.Model()) as server:
        command = ["evaluate", questions, "--agent", "single_shot", "--backend", "bm25", "--out", out]
        command += ["--model", server.url, "--model-name", bad.MODEL]
        ended = trailforge(*command)
        assert ended.code == 0, ended.err
        assert "failed 1" in ended.err
        server.mode, server.calls = bad.well, 0
        ended = trailforge(*command, "--redo", "refused")
        assert ended.code == 0 and server.calls == 1, ended.err


def test_out_of_credit_ends_a_run_at_once_and_it_goes_on_when_that_is_mended(tmp_path: Path) -> None:
    world.write_questions(tmp_path / "questions.jsonl", 4)
    (tmp_path / "preset.yaml").write_text(PRESET)
    quota = bad.status(
        "429 Too Many Requests", body={"error": {"message": "No credits left", "code": "insufficient_quota"}}
    )
    with bad.misbehaving_beside(bad.after(20, quota), world.Model()) as server:
        command = ["mcts-trajectories", "--questions", tmp_path / "questions.jsonl", "--out", tmp_path / "out"]
        command += ["--preset", tmp_path / "preset.yaml", "--model", server.url]
        ended = trailforge(*command)
        assert ended.code == 4 and "nothing is left to pay with (status 429: No credits left)" in ended.error_line
        assert server.calls < 40
        server.mode = bad.well
        assert trailforge(*command).code == 0
    assert verify_run(tmp_path / "out").problems == []
