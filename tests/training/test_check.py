"""`trailforge train check`: a base model and the trained one on the same questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.training.tiny import SAMPLE, rl_rows, sft_rows, training_set
from trailforge.commands.training import app
from trailforge.presets import load_training_preset
from trailforge.schemas import AgentEpisode, InvalidInput, read_rows

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

EVALUATION = """\
model: {name: tiny, url: none}
top_k: 2
agents: {react: {max_searches: 1, max_tokens: 1500, turn_tokens: 8, temperature: 0.0}}
"""
TRAINING = {"batch_size": 4, "epochs": 1, "max_tokens": 1024, "logging": "none"}


def test_a_check_trains_between_two_evaluations_and_is_not_made_twice(tiny_model: Path, tmp_path: Path) -> None:
    rows = training_set(tmp_path / "set", sft=sft_rows(copies=2), held_out=rl_rows())
    (tmp_path / "evaluation.yaml").write_text(EVALUATION)
    preset = load_training_preset("demo")
    (tmp_path / "training.yaml").write_text(yaml.safe_dump({**preset, "sft": {**preset["sft"], **TRAINING}}))
    given = {
        "--preset": tmp_path / "training.yaml",
        "--evaluation": tmp_path / "evaluation.yaml",
        "--base-model": tiny_model,
        "--documents": SAMPLE / "documents.jsonl",
        "--limit": 2,
        "--out": tmp_path / "out",
    }
    words = ["check", str(rows), *(str(word) for pair in given.items() for word in pair)]
    for _ in range(2):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, (done.output, done.exception)
        assert "A: react bm25" in done.output and "McNemar" in done.output
    figures = json.loads((tmp_path / "out/sft/training.json").read_text())
    assert figures["steps"] == 2
    asked = {}
    for name in ("before", "after"):
        episodes = list(read_rows(sorted((tmp_path / "out" / name).rglob("episodes/**/*.parquet")), AgentEpisode))
        asked[name] = {each.question for each in episodes}
        assert len(episodes) == 2
    assert asked["before"] == asked["after"]


def test_a_name_of_a_model_that_is_not_here_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    rows = training_set(tmp_path / "set", sft=sft_rows(), held_out=rl_rows())
    words = ["check", str(rows), "--preset", "msearcher", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, InvalidInput) and "hf download Qwen/" in str(done.exception)
    assert not (tmp_path / "out").exists()
