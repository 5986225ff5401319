"""The flow of a training: verify the runs, make the training set, render and submit, record what came of it.

Running it again goes on: a training set that is there is kept when it is of the same runs and settings, and the trainer
goes on from its last whole checkpoint.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, Literal

from prefect import flow, task
from prefect.artifacts import create_markdown_artifact

from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import CountMismatch, InvalidInput, from_dict, to_dict
from trailforge.training.launching.launch import LaunchConfig, Launcher
from trailforge.training.launching.submit import record, submit
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import ViewConfig
from trailforge.training.sets.files import open_set
from trailforge.training.sets.runs import open_runs


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
    """Train an agent on finished runs; the record of it.

    `training_set`: folder of the set, made when it is not there. `more`: further options of `trailforge train STAGE`.
    `launch`, `view`: fields of `LaunchConfig` and `ViewConfig`.
    """
    config = from_dict(LaunchConfig, launch or {})
    check_runs(runs)
    make_set(runs, training_set, from_dict(ViewConfig, {**(view or {}), "seed": seed}))
    command = ["train", stage, str(training_set.absolute()), "--preset", preset, "--out", str(out.absolute())]
    command += ["--base-model", base_model] if base_model else []
    command += ["--seed", str(seed), *(more or [])]
    if (out / "settings.json").exists():
        command.append("--resume")
    submit_training(command, launcher, config, out)
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
    """Make the set, or keep the one that is there. Raises `InvalidInput` when that one is of other runs or settings."""
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
def submit_training(command: list[str], launcher: Launcher, config: LaunchConfig, out: Path) -> None:
    """Start it and wait for its end."""
    submit(command, launcher, config, out, workdir=None if launcher == "local" else Path.cwd())
