"""The first second of a run: what is wrong costs next to nothing and leaves nothing, what is right says so at once."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.support import PRESET, ROOT
from tests.support.model_server import running
from tests.support.world import write_questions
from trailforge.flows import names_prefect_server

HEAVY = {"prefect", "apache_beam", "torch"}
COMMANDS = {
    "mcts-trajectories": ("--questions",),
    "kg-trajectories": ("--questions", "--kg"),
    "kg-questions": ("--kg",),
    "document-bundles": ("--documents", "--benchmark"),
    "agent-trajectories": ("--questions", "--documents"),
}
MOST_CPU_S = 1.0


def failed(*arguments: object) -> tuple[str, float]:
    """What a command that fails says, and the seconds of the processor that it takes; once more if that is too many."""
    said, seconds = "", 0.0
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-m", "trailforge", *map(str, arguments)],
            cwd=ROOT, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        assert done.returncode in (2, 9), done.stderr
        said = done.stderr
        if seconds < MOST_CPU_S:
            break
    return said, seconds


PATHS = [(command, option) for command, options in COMMANDS.items() for option in options]


@pytest.mark.parametrize(("command", "option"), PATHS)
def test_a_wrong_path_costs_less_than_a_second_and_leaves_nothing(command: str, option: str, tmp_path: Path) -> None:
    write_questions(tmp_path / "there.jsonl", 2)
    given = {COMMANDS[command][0]: tmp_path / "there.jsonl", option: tmp_path / "nowhere"}
    said, seconds = failed(command, *(part for pair in given.items() for part in pair), "--out", tmp_path / "out")
    assert "nowhere" in said and "no such file" in said and seconds < MOST_CPU_S
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_preset_or_out_costs_less_than_a_second_and_leaves_nothing(command: str, tmp_path: Path) -> None:
    write_questions(tmp_path / "there.jsonl", 2)
    made_of = (command, COMMANDS[command][0], tmp_path / "there.jsonl")
    said, seconds = failed(*made_of, "--preset", "nowhere", "--out", tmp_path / "out")
    assert "no preset 'nowhere'" in said and seconds < MOST_CPU_S
    said, seconds = failed(*made_of, "--out", tmp_path / "there.jsonl" / "out")
    assert "part of the path is a file" in said and seconds < MOST_CPU_S
    assert [path.name for path in tmp_path.iterdir()] == ["there.jsonl"]


def test_a_file_that_holds_no_questions_leaves_no_folder(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    failed("mcts-trajectories", "--preset", "demo", "--questions", tmp_path / "empty.jsonl", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_run_speaks_before_it_loads_what_is_heavy_and_needs_no_prefect(tmp_path: Path) -> None:
    write_questions(tmp_path / "questions.jsonl", 2)
    (tmp_path / "preset.yaml").write_text(PRESET)
    given = {"questions": "questions.jsonl", "preset": "preset.yaml", "out": "out"}
    arguments = [part for option, name in given.items() for part in (f"--{option}", str(tmp_path / name))]
    script = f"""
import sys
from trailforge import cli
from trailforge.flows import execute
def say(line):
    print(line.split()[0], {HEAVY!r} & {{*sys.modules}}, flush=True)
execute.say = say
try:
    cli.main({["mcts-trajectories", *arguments]!r} + sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
print({{"prefect"}} & {{*sys.modules}})
"""
    with running() as url:
        done = subprocess.run(
            [sys.executable, "-c", script, "--model", url],
            cwd=ROOT, env={**os.environ, "COLUMNS": "400"}, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "reading set()" and lines[-1] == "set()"
    assert any(f"trailforge inspect {tmp_path / 'out'}" in line for line in lines)


NAMED = 'active = "a"\n[profiles.a]\nPREFECT_API_URL = "http://there"\n[profiles.b]\n'


@pytest.mark.parametrize(
    ("variables", "profiles", "expected"),
    [
        ({}, None, False),
        ({"PREFECT_API_URL": "http://127.0.0.1:4200/api"}, None, True),
        ({"PREFECT_API_URL": ""}, NAMED, False),
        ({}, NAMED, True),
        ({"PREFECT_PROFILE": "b"}, NAMED, False),
        ({}, "active = ", False),
    ],
)
def test_a_server_is_named_by_the_environment_or_by_the_active_profile(
    variables: dict[str, str], profiles: str | None, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if profiles is not None:
        (tmp_path / "profiles.toml").write_text(profiles)
    assert names_prefect_server() is expected
