"""`trailforge mcts-trajectories --dry-run`: what is said on the line counts, and neither Prefect nor Beam is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.end_to_end.support import PRESET, ROOT
from tests.support.world import write_questions
from trailforge import cli
from trailforge.flows.dry_run import stops
from trailforge.inference import Caps, Usage


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    write_questions(tmp_path / "questions.jsonl", 8)
    (tmp_path / "preset.yaml").write_text(PRESET)
    given = ["--questions", tmp_path / "questions.jsonl", "--preset", tmp_path / "preset.yaml", "--dry-run"]
    return ["mcts-trajectories", *map(str, given)]


def printed(*arguments: str) -> str:
    done = CliRunner(env={"COLUMNS": "400"}).invoke(cli.app, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_model_and_the_caps_of_the_line_are_those_of_the_estimate(inputs: list[str]) -> None:
    told = printed(*inputs, "--model", "http://10.0.0.5:8000/v1", "--model-name", "mine", "--max-calls", "10")
    assert "for mine at http://10.0.0.5:8000/v1" in told
    assert "--max-calls 10 would stop the run at about" in told
    assert "would stop" not in printed(*inputs, "--max-calls", "100000000")


def test_a_cap_stops_what_is_estimated_to_go_over_it() -> None:
    usage = Usage(calls=200, prompt_tokens=900, completion_tokens=100, cost=8.0)
    assert stops(usage, Caps(max_calls=200, max_tokens=1000, max_cost=8.0)) == []
    calls, tokens, cost = stops(usage, Caps(max_calls=50, max_tokens=100, max_cost=0))
    assert calls.startswith("--max-calls 50 would stop the run at about 25% of it")
    assert "--max-tokens 100 " in tokens and "10%" in tokens and "--max-cost 0 " in cost and "0%" in cost
    assert stops(Usage(), Caps(max_calls=0)) == []


@pytest.mark.parametrize("option", [["--replace"], ["--redo", "truncated"]])
def test_what_changes_a_run_that_is_there_is_refused(inputs: list[str], option: list[str]) -> None:
    done = CliRunner(env={"COLUMNS": "400"}).invoke(cli.app, [*inputs, *option])
    assert done.exit_code == 2 and "--dry-run has none" in done.output


def test_neither_prefect_nor_beam_is_loaded(inputs: list[str]) -> None:
    script = f"""
import sys
from trailforge import cli
try:
    cli.main({inputs!r})
except SystemExit as end:
    assert not end.code, end.code
print({{"prefect", "apache_beam", "torch"}} & {{*sys.modules}})
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "set()"
