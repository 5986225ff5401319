"""Hands a rendered training in and waits for its end; what it was made from and what came of it is recorded."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trailforge.pipelines.engine.files import sha256_of, write_text
from trailforge.pipelines.runs.finished import MANIFEST
from trailforge.schemas import ClusterError, InvalidInput
from trailforge.training.launching.launch import LaunchConfig, Launcher, render
from trailforge.training.sets.files import open_set

RECORD = "record.json"


def launch_folder(out: Path) -> Path:
    """Where the files that start a training are: beside its folder, which is the trainer's own."""
    return out.with_name(f"{out.name}-launch")


def write_launch(files: Mapping[str, str], folder: Path) -> None:
    """Write rendered files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def submit(
    command: Sequence[str], launcher: Launcher, config: LaunchConfig, out: Path, *, workdir: Path | None = None
) -> None:
    """Render, write the files to `OUT-launch/`, start, and wait until the training has ended.

    `workdir`: where the command runs; the project's folder on every node. Raises `ClusterError` when it fails, and
    `InvalidInput` when the launcher's own program is not here.
    """
    folder = launch_folder(out)
    write_launch(render(command, launcher, config, folder.absolute()), folder)
    for line in _lines(launcher, config, folder.absolute()):
        try:
            done = subprocess.run(line, cwd=workdir, env=_environment(), check=False)
        except FileNotFoundError as error:
            raise InvalidInput(f"no program {line[0]!r} here; {launcher} needs it", field="launcher") from error
        if done.returncode:
            raise ClusterError(f"{shlex.join(line)} ended with code {done.returncode}; its output says why")


def record(out: Path, training_set: Path, command: Sequence[str], launcher: Launcher, config: LaunchConfig) -> Path:
    """Write `OUT-launch/record.json`: the data's manifest hashes, the command, the model and its files' hashes.

    Raises `ClusterError` when the training left no model.
    """
    model = out / "model"
    if not model.is_dir():
        raise ClusterError(f"{model} is not there: the training has ended without a model")
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


def _environment() -> dict[str, str]:
    """With the programs of this Python environment first."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


def _lines(launcher: Launcher, config: LaunchConfig, folder: Path) -> list[list[str]]:
    """What to run, one after the other."""
    match launcher:
        case "local" | "accelerate":
            return [["bash", str(folder / "train.sh")]]
        case "slurm":
            return [["sbatch", "--wait", str(folder / "train.sbatch")]]
        case _:
            jobset = f"jobset/{config.name}"
            hours, minutes, _ = (int(part) for part in config.time.split(":"))
            wait = ["--for=condition=Completed", f"--timeout={hours * 60 + minutes}m"]
            return [
                ["kubectl", "apply", "-f", str(folder / "jobset.yaml")],
                ["kubectl", "wait", "--namespace", config.namespace, *wait, jobset],
            ]
