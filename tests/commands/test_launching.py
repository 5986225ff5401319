"""A command that is handed to a launcher is the command that was typed."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.support import finished_runs as made
from trailforge import cli
from trailforge.schemas import ClusterError, InvalidInput
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import ViewConfig

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
    assert jobset["metadata"]["name"].startswith("mine-rl-")
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


def test_verl_starts_on_its_own_cluster_with_the_python_that_was_said(tmp_path: Path) -> None:
    """Its script is written and started; what it ends with is said."""
    asked = [made.question(number) for number in range(3)]
    run = made.mcts_run(tmp_path / "run", asked, [row for each in asked for row in made.mcts_rows(each)])
    make_training_set([run], tmp_path / "set", ViewConfig(validation_share=0.0))
    (tmp_path / "options.yaml").write_text("{devices_per_node: 2, overrides: [data.seed=3]}\n")
    words = ["train", "rl", str(tmp_path / "set"), "--preset", "msearcher", "--retrieval", "http://127.0.0.1:9"]
    words += ["--out", str(tmp_path / "out"), "--engine", "verl", "--engine-options", str(tmp_path / "options.yaml")]
    script = Path(printed(*words, "--engine-python", "echo", "--print").strip())
    assert script == tmp_path / "out" / "verl" / "train.sh"
    assert {"-m", "verl.trainer.main_ppo", "trainer.n_gpus_per_node=2", "data.seed=3"} <= set(
        subprocess.run(["bash", script], capture_output=True, text=True, check=True).stdout.split()
    )
    with pytest.raises(ClusterError, match="ended with code 1"):
        printed(*words, "--engine-python", "false")
    with pytest.raises(InvalidInput, match="Ray cluster"):
        printed(*words, "--launcher", "slurm")


@pytest.mark.parametrize("kg", ["http://10.0.0.5:8990", "a store"])
def test_verl_searches_the_graph_that_was_said_in_a_folder_or_on_a_server(
    kg: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = made.kg_run(tmp_path / "run", [made.question(number) for number in range(3)])
    make_training_set([run], tmp_path / "set", ViewConfig(validation_share=0.0))
    words = ["train", "rl", "set", "--preset", "dynasearcher", "--retrieval", "http://10.0.0.5:8990", "--kg", kg]
    script = Path(printed(*words, "--out", "out", "--engine", "verl", "--print").splitlines()[0])
    (loop,) = yaml.safe_load((script.parent / "agent_loop.yaml").read_text())
    assert loop["search"]["kg"] == (kg if kg.startswith("http") else str(tmp_path / kg))
