"""Commands whose data came to nothing: the data is there, and the exit code keeps a script from going on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.model_server import running
from tests.support.world import write_questions
from trailforge import cli
from trailforge.pipelines.runs.finish import read_manifest
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import NothingKept, NothingLeft

PRESET = "model: {name: scripted}\nretrieval: {kind: bm25}\noutput: {shard_size: 3}\n"


def trailforge(*words: object) -> BaseException | None:
    """What a command ended with."""
    return CliRunner().invoke(cli.app, [str(word) for word in words]).exception


def without_right_answers(path: Path) -> Path:
    """Questions whose gold answers nothing tells."""
    write_questions(path, 3)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row |= {"answer": "Nobody at all", "answer_aliases": [], "decomposition": []}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_run_that_kept_nothing_is_finished_and_ends_so_each_time_but_a_preview_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_LOGGING_LEVEL", "CRITICAL")
    questions, preset = without_right_answers(tmp_path / "q.jsonl"), tmp_path / "preset.yaml"
    preset.write_text(PRESET)
    with running() as url:
        words = ("mcts-trajectories", "--questions", questions, "--preset", preset, "--model", url)
        shown = CliRunner().invoke(cli.app, [*map(str, words), "--preview"])
        assert shown.exit_code == 0 and "nothing was kept of 2 questions (no_correct_rollout 2): see" in shown.output
        ended = [trailforge(*words, "--out", tmp_path / "out") for _ in range(2)]
    for error in ended:
        assert isinstance(error, NothingKept) and error.exit_code == 14, error
        assert "nothing was kept of 3 questions" in str(error) and "no_correct_rollout 3" in str(error)
    manifest = read_manifest(tmp_path / "out")
    assert manifest is not None and verify_run(tmp_path / "out").is_clean
    assert "NOTHING WAS KEPT" in (tmp_path / "out" / "README.md").read_text()
    learnt = trailforge("training-set", tmp_path / "out", "--out", tmp_path / "set", "--max-tokens", 1)
    assert isinstance(learnt, NothingLeft) and learnt.exit_code == 14
