"""Commands of docs/trainer.md and docs/cluster.md, read by the programs that they name, where these are installed."""

# pyright: reportMissingImports=false

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from trailforge.schemas import from_dict

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ("trainer", "cluster")
ELSEWHERE = "sets/all --preset msearcher --out trained/x"
"""What `…` stands for."""


OF_THE_SYSTEM = {"cp", "docker", "done", "export", "for", "kubectl", "openssl"}
"""Of shells and clusters, which no engine brings."""


def blocks(language: str) -> list[str]:
    """Code of both guides in a language."""
    texts = [(ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in GUIDES]
    return [block for text in texts for block in re.findall(rf"```{language}\n(.*?)\n```", text, re.DOTALL)]


def commands(program: str) -> list[list[str]]:
    """Words behind a program's name, in every command that names it first."""
    lines = [line for block in blocks("bash") for line in block.replace("\\\n", " ").splitlines()]
    words = [shlex.split(line.replace("…", ELSEWHERE), comments=True) for line in lines]
    return [each[1:] for each in words if each and each[0] == program]


def test_no_program_is_named_that_nobody_reads_for() -> None:
    lines = [line for block in blocks("bash") for line in block.replace("\\\n", " ").splitlines()]
    programs = {shlex.split(line, comments=True)[0] for line in lines}
    read = {"trailforge", "vf-eval", "ray", "python3.11", ".venv-verl/bin/pip", "dask"}
    assert programs - OF_THE_SYSTEM == read and programs >= OF_THE_SYSTEM


@pytest.mark.parametrize("words", commands("trailforge"), ids=" ".join)
def test_ours(words: list[str]) -> None:
    """By the command line's own parser, down to the options of the command."""
    pytest.importorskip("typer")
    from trailforge import cli

    command: Any = cli.build_command()
    context, rest = None, words
    while hasattr(command, "commands"):
        command, rest = command.commands[rest[0]], rest[1:]
    context = command.make_context(command.name, list(rest), parent=context)
    assert context.params and not context.args


def test_locks_that_are_installed_are_there() -> None:
    for words in commands(".venv-verl/bin/pip"):
        assert words[0] == "install" and all((ROOT / word).is_file() for word in words if word.endswith(".lock"))


def test_settings_of_verl_and_of_launches_are_fields() -> None:
    from trailforge.launching.config import LaunchConfig
    from trailforge.training.exports.verl import VerlOptions

    records = [record for block in blocks("yaml") if (record := record_of(block)) is not None]
    assert [type(each) for each in records] == [LaunchConfig, VerlOptions]


def record_of(block: str) -> Any:
    """What a block of YAML is read into; None for a part of a preset."""
    from trailforge.launching.config import LaunchConfig
    from trailforge.training.exports.verl import VerlOptions

    content = yaml.safe_load(block)
    if "judge" in content:
        return None
    return from_dict(VerlOptions if "overrides" in content else LaunchConfig, content)


@pytest.mark.parametrize("words", commands("dask"), ids=" ".join)
def test_dask(words: list[str]) -> None:
    """By Dask's own commands."""
    command: Any = pytest.importorskip(f"distributed.cli.dask_{words[0]}").main
    assert command.make_context(words[0], list(words[1:])).params


@pytest.mark.parametrize("words", commands("ray"), ids=" ".join)
def test_ray(words: list[str]) -> None:
    """By Ray's own command."""
    scripts: Any = pytest.importorskip("ray.scripts.scripts")
    command = scripts.cli.commands[words[0]]
    assert command.make_context(words[0], list(words[1:])).params["head"]


def check_read_by_verifiers(words: list[str], folder: Path) -> None:
    """Its own command reads them and writes down what it read."""
    pytest.importorskip("verifiers.v1")
    program = shutil.which("vf-eval", path=str(Path(sys.executable).parent))
    assert program is not None
    command = [program, *words, "--dry-run", "--output-dir", str(folder), "--run.name", "read"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(folder.rglob("eval.json"))


@pytest.mark.parametrize("words", commands("vf-eval"), ids=" ".join)
def test_verifiers_reads_the_command(words: list[str], tmp_path: Path) -> None:
    check_read_by_verifiers(words, tmp_path)


@pytest.mark.parametrize("block", blocks("toml"))
def test_verifiers_reads_the_file(block: str, tmp_path: Path) -> None:
    (tmp_path / "train.toml").write_text(block)
    check_read_by_verifiers(["@", "train.toml"], tmp_path)
