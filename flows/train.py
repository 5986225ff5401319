"""The Prefect flow of a training: verify the runs, make the training set, start the trainer, and record the result.

A second start continues the first: an existing training set of the same runs and settings is kept, and the trainer
resumes from its last whole checkpoint.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact

from trailforge.launching import LaunchConfig, Launcher, launch_folder, submit_training
from trailforge.pipelines.engine import sha256_of, write_text
from trailforge.pipelines.runs import MANIFEST, verify_run
from trailforge.schemas import ClusterError, CountMismatch, InvalidInput, from_dict, to_dict
from trailforge.training.sets import ViewConfig, make_training_set, open_runs, open_set

RECORD = "record.json"


@flow(name="train")
def train(
    runs: list[Path],
    training_set: Path,
    out: Path,
    stage: Literal["sft", "rl"] = "sft",
    preset: str = "msearcher-local",
    base_model: str | None = None,
    more: list[str] | None = None,
    launcher: Launcher = "local",
    launch: dict[str, Any] | None = None,
    view: dict[str, Any] | None = None,
    seed: int = 0,
) -> Path:
    """Train an agent on finished runs and return the path of the training's record.

    `training_set` is the folder of the set, made of the runs when it does not exist. `base_model` None takes the
    preset's. `more` are further options of `trailforge train STAGE`. `launch` and `view` have values for fields of
    `LaunchConfig` and `ViewConfig`; None leaves all at their defaults. `seed` is that of the set and of the training.
    """
    config = from_dict(LaunchConfig, launch or {})
    check_runs(runs)
    make_set(runs, training_set, from_dict(ViewConfig, {**(view or {}), "seed": seed}))
    command = ["train", stage, str(training_set.absolute()), "--preset", preset, "--out", str(out.absolute())]
    command += ["--base-model", base_model] if base_model else []
    command += ["--seed", str(seed), *(more or [])]
    if (out / "settings.json").exists():
        command.append("--resume")
    start_training(command, launcher, config, out)
    path = record(out, training_set, command, launcher, config)
    create_markdown_artifact(
        markdown=f"```json\n{path.read_text(encoding='utf-8')}\n```", key="training", description=str(out)
    )
    return path


@task(name="check-runs")
def check_runs(runs: list[Path]) -> None:
    """Verify every run. Raises `CountMismatch` with the first problem."""
    for folder in runs:
        problems = verify_run(folder).problems
        if problems:
            command = shlex.join(["trailforge", "verify", str(folder)])
            raise CountMismatch(f"{folder}: {problems[0]} ({len(problems)} problems; {command})")


@task(name="make-training-set")
def make_set(runs: list[Path], folder: Path, config: ViewConfig) -> None:
    """Make the training set in a folder, or keep the one that is there. Raises `InvalidInput` when that one is of other
    runs or settings.
    """
    if not (folder / "manifest.json").exists():
        make_training_set(runs, folder, config)
        return
    kept = open_set(folder).manifest
    if {each.manifest_sha256 for each in kept.inputs} != {run.manifest_sha256 for run in open_runs(runs)}:
        raise InvalidInput("a training set of other runs, or of runs made anew; give another folder", file=folder)
    before, now = to_dict(from_dict(ViewConfig, json.loads(kept.config))), to_dict(config)
    if differing := ", ".join(name for name in now if before[name] != now[name]):
        raise InvalidInput(f"a training set of other settings ({differing}); give another folder", file=folder)


@task(name="submit-training")
def start_training(command: list[str], launcher: Launcher, config: LaunchConfig, out: Path) -> None:
    """Start a training through the launcher and wait for its end."""
    submit_training(command, launcher, config, launch_folder(out), workdir=None if launcher == "local" else Path.cwd())


def record(out: Path, training_set: Path, command: Sequence[str], launcher: Launcher, config: LaunchConfig) -> Path:
    """Write `OUT-launch/record.json`: the data's manifest hashes, the command, the model and its files' hashes.

    Raises `ClusterError` when the training left no model.
    """
    model = out / "model"
    if not model.is_dir():
        raise ClusterError(f"{model} is not there: the training ended without a model; its log says why")
    opened = open_set(training_set)
    content: dict[str, Any] = {
        "training_set": str(training_set),
        "training_set_sha256": sha256_of(training_set / MANIFEST),
        "runs": [dataclasses.asdict(each) for each in opened.manifest.inputs],
        "command": ["trailforge", *command],
        "launcher": launcher,
        "launch": dataclasses.asdict(config),
        "model": str(model),
        "model_sha256": {path.name: sha256_of(path) for path in sorted(model.iterdir()) if path.is_file()},
    }
    path = launch_folder(out) / RECORD
    write_text(path, json.dumps(content, indent=1))
    return path
