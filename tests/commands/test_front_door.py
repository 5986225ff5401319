"""The beginning of a run: what is wrong costs next to nothing and leaves nothing, what is right says so at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
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
MOST_CPU = 2.0
"""Times what `--help` takes. Beam or Prefect alone would be two or three times that."""

_ONE_BY_ONE = """
import json, os, resource, sys
from trailforge import cli
for given in json.load(sys.stdin):
    out, child_in = os.pipe()
    if not (child := os.fork()):
        os.dup2(child_in, 1)
        os.dup2(child_in, 2)
        cli.main(given)
    os.close(child_in)
    said = open(out).read()
    _, status, its = os.wait4(child, 0)
    own = resource.getrusage(resource.RUSAGE_SELF)
    seconds = own.ru_utime + own.ru_stime + its.ru_utime + its.ru_stime
    print(json.dumps([os.waitstatus_to_exitcode(status), said, seconds]))
"""
"""Begins the command line cold, and each command in a fork of it, as most of what a start costs is the same for all."""


def ends(commands: list[list[str]]) -> Iterator[tuple[int, str, float]]:
    """Exit code of each command, what it says, and the seconds of the processor from a cold start to it."""
    done = subprocess.run(
        [sys.executable, "-c", _ONE_BY_ONE],
        cwd=ROOT, input=json.dumps(commands), capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return (tuple(json.loads(line)) for line in done.stdout.splitlines())


def test_what_is_wrong_costs_hardly_more_than_help_and_leaves_nothing(tmp_path: Path) -> None:
    there, nowhere, out = tmp_path / "there.jsonl", tmp_path / "nowhere", tmp_path / "out"
    write_questions(there, 2)
    cases = list[tuple[list[str], *tuple[str, ...]]]()
    for command, options in COMMANDS.items():
        for option in options:
            given = {options[0]: there, option: nowhere, "--out": out}
            cases.append((_words(command, given), "nowhere", "no such file"))
        given = {options[0]: there, "--preset": "nowhere", "--out": out}
        cases.append((_words(command, given), "no preset 'nowhere'"))
        given = {options[0]: there, "--out": there / "out"}
        cases.append((_words(command, given), "part of the path is a file"))
    for given in (tmp_path, ""):
        cases.append((_words("mcts-trajectories", {"--questions": given, "--out": out}), "a folder, and no file"))
    cases.append((_words("nightly", {"--documents": nowhere, "--out": out}), "nowhere", "no such file"))
    for stage in ("sft", "dpo", "rl"):
        words = ["train", stage, str(nowhere), "--preset", "msearcher", "--out", str(out)]
        cases.append((words, "nowhere", "no training set"))
    for _ in range(3):  # those once more that take too long
        (_, _, helped), *ended = ends([["--help"], *(words for words, *_ in cases)])
        cases, tried = list[tuple[list[str], *tuple[str, ...]]](), cases
        for (words, *parts), (code, said, seconds) in zip(tried, ended, strict=True):
            assert code in (2, 9) and all(part in said for part in parts), f"{words}: {code}, {said}"
            if seconds >= MOST_CPU * helped:
                cases.append((words, *parts))
    assert not cases
    assert list(tmp_path.iterdir()) == [there]


def _words(command: str, given: Mapping[str, object]) -> list[str]:
    return [command, *(str(part) for pair in given.items() for part in pair)]


def test_a_file_that_holds_no_questions_leaves_no_folder(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    given = {"--preset": "demo", "--questions": tmp_path / "empty.jsonl", "--out": tmp_path / "out"}
    [(code, said, _)] = ends([_words("mcts-trajectories", given)])
    assert code in (2, 9) and "empty.jsonl" in said
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
def print_note(line):
    print(line.split()[0], {HEAVY!r} & {{*sys.modules}}, flush=True)
execute.print_note = print_note
try:
    cli.main({["mcts-trajectories", *arguments]!r} + sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
print({{"prefect"}} & {{*sys.modules}})
"""
    with running() as url:
        done = subprocess.run(
            [sys.executable, "-c", script, "--model", url],
            cwd=ROOT, env={**os.environ, "COLUMNS": "400"}, capture_output=True, text=True, timeout=250,
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
