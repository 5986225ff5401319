"""A command that is handed to a launcher is the command that was typed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from trailforge import cli
from trailforge.schemas import InvalidInput

SET = ["train", "rl", "my set", "--preset", "msearcher", "--out", "out/rl"]
MORE = ["--documents", "a", "--documents", "b c", "--retrieval", "dense", "--seed", "3", "--importance-weights", "none"]


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(cli.app, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_all_that_was_typed_is_handed_on_but_how_it_is_launched() -> None:
    text = printed(*SET, *MORE, "--launcher", "local", "--print")
    assert f"{Path('out/rl-launch').absolute()}/train.sh" in text
    line = next(line for line in text.splitlines() if line.startswith("trailforge "))
    assert shlex.split(line) == ["trailforge", *SET, *MORE]
    again = printed(*shlex.split(line)[1:], "--launcher", "local", "--print")
    assert again == text


def test_the_settings_of_a_launch_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "launch.yaml").write_text("{nodes: 2, name: mine, image: here/it}\n")
    text = printed(*SET, "--launcher", "k8s", "--launch", str(tmp_path / "launch.yaml"), "--print")
    jobset = yaml.safe_load(text)
    assert jobset["metadata"]["name"] == "mine"
    assert jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"] == 2


@pytest.mark.parametrize(
    ("content", "problem"),
    [("{nodes: two}", "expected int"), ("{node: 2}", "node"), ("[", "not valid YAML"), ("- a", "expected a mapping")],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "launch.yaml").write_text(content)
    with pytest.raises(InvalidInput, match=problem) as refused:
        printed(*SET, "--launcher", "slurm", "--launch", str(tmp_path / "launch.yaml"), "--print")
    assert refused.value.file == tmp_path / "launch.yaml"


def test_printing_wants_a_launcher() -> None:
    with pytest.raises(InvalidInput, match="want a --launcher"):
        printed(*SET, "--print")
