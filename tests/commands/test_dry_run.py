"""`--dry-run` of every data set: what is said on the line counts, and neither Prefect nor Beam is loaded."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.end_to_end.support import ROOT
from tests.support.kg_agent import paths_store
from tests.support.world import write_questions
from trailforge import cli
from trailforge.flows.preview import gpu_hours, price_hint, stops
from trailforge.inference import Caps, Usage
from trailforge.inference.vllm.server import VllmConfig
from trailforge.pipelines.runs.config import ModelConfig
from trailforge.schemas import InvalidInput


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    return inputs_of("mcts-trajectories", tmp_path)


def inputs_of(command: str, folder: Path) -> list[str]:
    """A command that is to say what it would take."""
    (folder / "preset.yaml").write_text(
        "model: {name: scripted}\nserver: {tokens_per_second: 100, price_per_hour: 36}\n"
    )
    given: dict[str, Path] = {}
    if command in ("mcts-trajectories", "kg-trajectories"):
        write_questions(folder / "questions.jsonl", 8)
        given["--questions"] = folder / "questions.jsonl"
    if command.startswith("kg"):
        given["--kg"] = paths_store(folder / "graph").folder
    if command == "document-bundles":
        given["--documents"] = ROOT / "sample_data" / "documents.jsonl"
    if command == "kg-questions":
        with (folder / "preset.yaml").open("a") as preset:
            preset.write(
                "paths: {max_degree: 9, max_fan_out: 4, min_functionality: 0.0, min_triples: 1, max_guess: 1.0, "
                "many_tails: [], one_head: [likes, helps, follows, fears], symmetric: [], max_attempts: 40}\n"
            )
    else:
        searching = "tools" if command == "document-bundles" else "retrieval"
        with (folder / "preset.yaml").open("a") as preset:
            preset.write(f"{searching}: {{kind: bm25}}\n")
    options = [str(part) for pair in given.items() for part in pair]
    return [command, *options, "--preset", str(folder / "preset.yaml"), "--dry-run"]


def written(folder: Path) -> list[Path]:
    """All files but the note of a graph that its bytes were checked."""
    return sorted(path for path in folder.rglob("*") if path.name != ".checked")


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
    assert done.exit_code == 2 and "--dry-run makes none" in done.output


@pytest.mark.parametrize("command", ["kg-trajectories", "kg-questions", "document-bundles"])
def test_what_is_a_bound_is_called_one(command: str, tmp_path: Path) -> None:
    told = printed(*inputs_of(command, tmp_path), "--model-name", "mine", "--max-calls", "1")
    assert "a bound, reckoned from" in told and "for mine at" in told and "--max-calls 1 would stop the run" in told


def test_hours_of_a_server_are_reckoned_by_its_measured_speed(inputs: list[str]) -> None:
    usage = Usage(calls=9, prompt_tokens=1, completion_tokens=720_000)
    (line,) = gpu_hours(usage, VllmConfig(tokens_per_second=100, price_per_hour=36, tensor_parallel_size=4))
    assert line == "2.0 hours of the server (8.0 GPU-hours) at 100 tokens/s, 72.00 to pay"
    assert gpu_hours(usage, VllmConfig(price_per_hour=36)) == []
    assert "hours of the server" in printed(*inputs)


def test_neither_prefect_nor_beam_is_loaded_and_nothing_is_written(tmp_path: Path) -> None:
    """In one interpreter: what is not loaded by any is not loaded by each."""
    commands: list[list[str]] = []
    for command in ("mcts-trajectories", "kg-trajectories", "kg-questions", "document-bundles"):
        (tmp_path / command).mkdir()
        commands.append(inputs_of(command, tmp_path / command))
    before = written(tmp_path)
    script = f"""
import sys
from trailforge import cli
for arguments in {commands!r}:
    try:
        cli.main(arguments)
    except SystemExit as end:
        assert not end.code, (arguments, end.code)
print({{"prefect", "apache_beam", "torch"}} & {{*sys.modules}})
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "set()" and written(tmp_path) == before


def test_where_neither_prices_nor_speed_are_known_it_is_said_which_fields_tell_them() -> None:
    hosted, unknown = ModelConfig(name="m", url="http://127.0.0.1:1/v1"), VllmConfig()
    hint = price_hint(hosted, unknown)
    for name in ("prompt_price_per_million", "completion_price_per_million"):
        assert f"model.{name}" in hint and hasattr(hosted, name)
    for name in ("tokens_per_second", "price_per_hour"):
        assert f"server.{name}" in hint and hasattr(unknown, name)
    assert "vLLM logs its generation throughput" in hint
    assert price_hint(replace(hosted, url="embedded"), unknown) == ""
    assert price_hint(replace(hosted, prompt_price_per_million=1.0), unknown) == ""
    assert price_hint(hosted, VllmConfig(tokens_per_second=100)) == ""


def test_what_the_run_refuses_is_refused(tmp_path: Path) -> None:
    inputs = inputs_of("mcts-trajectories", tmp_path)
    with (tmp_path / "questions.jsonl").open("a") as file:
        file.write('{"question": "Cut')
    done = CliRunner(env={"COLUMNS": "400"}).invoke(cli.app, inputs)
    assert isinstance(done.exception, InvalidInput) and "1 of 9 rows are invalid" in str(done.exception)


def test_rows_that_are_left_out_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    inputs = inputs_of("mcts-trajectories", tmp_path)
    questions = tmp_path / "questions.jsonl"
    write_questions(questions, 40)
    with questions.open("a") as file:
        file.write('{"question": "Cut')
    printed(*inputs)
    assert "1 of 41 rows are invalid and left out" in caplog.text


def test_a_question_without_what_the_run_searches_is_refused(tmp_path: Path) -> None:
    inputs = inputs_of("mcts-trajectories", tmp_path)
    (tmp_path / "questions.jsonl").write_text('{"question": "Who?", "answer": "Ann"}\n')
    done = CliRunner(env={"COLUMNS": "400"}).invoke(cli.app, [*inputs, "--scope", "question"])
    assert isinstance(done.exception, InvalidInput) and "--documents" in str(done.exception)
