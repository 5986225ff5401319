"""The commands that the guides print are ones that the program takes; `tests/end_to_end/test_guides.py` runs them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from trailforge import cli
from trailforge.inference.vllm.server import VllmConfig
from trailforge.launching.config import Cluster, LaunchConfig
from trailforge.launching.generation import RunToLaunch, render_run
from trailforge.launching.training import render
from trailforge.schemas import from_dict
from trailforge.training.exports.verl import VerlOptions

ROOT = Path(__file__).parents[2]
GUIDES = (
    *("docs/trainer.md", "docs/cluster.md", "docs/evaluation.md", "docs/operator.md", "docs/curator.md"),
    "docs/deploy.md",
    *("docs/python.md", "docs/your-data.md", "datasets_out/README.md"),
)
ELIDED = {
    "trailforge …": "trailforge mcts-trajectories …",
    "mcts-trajectories …": "mcts-trajectories --questions train.jsonl",
    "…": "sets/all --preset msearcher --out trained/sft",
}
"""What `…` stands for behind some words, and behind others."""


def blocks(guide: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)\n```", (ROOT / guide).read_text(), re.DOTALL)


def commands() -> list[list[str]]:
    """Those of all guides."""
    return [words for guide in GUIDES for words in commands_of(guide)]


def commands_of(guide: str) -> list[list[str]]:
    """Words after `trailforge` of each command in a guide."""
    lines = [line for block in blocks(guide, "bash") for line in block.replace("\\\n", " ").splitlines()]
    for short, whole in ELIDED.items():
        lines = [line.replace(short, whole) for line in lines]
    found = [shlex.split(line, comments=True) for line in lines]
    return [words[1:] for words in found if words[:1] == ["trailforge"]]


def taken(words: list[str]) -> Any:
    """What click makes of the words; it raises for what it does not take. Nothing is run."""
    command: Any = cli.build_command()
    while hasattr(command, "commands"):
        name, *words = words
        command = command.commands[name]
    return command.make_context("trailforge", words)


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_is_taken(words: list[str]) -> None:
    assert taken(words).params


def test_what_is_launched_is_taken_too() -> None:
    launched = [taken(words).params["command"] for words in commands() if words[0] == "launch"]
    assert len(launched) >= 4 and all(taken(words).params for words in launched)


def test_there_are_some() -> None:
    assert len(commands()) >= 60


def test_the_file_of_a_cluster_is_one() -> None:
    """With the commands beside it, on Slurm and on Kubernetes; the other one is verl's."""
    text, of_verl = blocks("docs/cluster.md", "yaml")
    assert from_dict(VerlOptions, yaml.safe_load(of_verl)).nodes == 2
    config = from_dict(LaunchConfig, yaml.safe_load(text))
    for words in commands():
        if words[:2] in (["train", "sft"], ["train", "rl"]) and "verl" not in words:
            assert render(words, "slurm", config) and render(words, "k8s", config)
    server = VllmConfig(tensor_parallel_size=2)
    run = RunToLaunch(command=("mcts-trajectories",), out="runs/musique", preset="msearcher", server=server, served="m")
    for cluster in get_args(Cluster):
        assert render_run(run, cluster, config, "/shared/files", "/shared")
