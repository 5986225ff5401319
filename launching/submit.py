"""Write rendered files, and hand them to the program of a launcher."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from trailforge.launching import generation, training
from trailforge.launching.config import Cluster, LaunchConfig, Launcher, pods_name
from trailforge.schemas import ClusterError, InvalidInput


def launch_folder(out: Path) -> Path:
    """Return the folder for the files of a launch, which is beside the output folder and used for it alone."""
    return out.with_name(f"{out.name}-launch")


def write_launch(files: Mapping[str, str], folder: Path) -> None:
    """Write rendered files, texts by name, to a folder, which is made if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def submit_training(
    command: Sequence[str], launcher: Launcher, config: LaunchConfig, folder: Path, *, workdir: Path | None = None
) -> None:
    """Render the files of a training into a folder, start it, and wait for its end.

    The command runs in `workdir`, by default the project's folder on every host. Raises `ClusterError` when it fails,
    and `InvalidInput` when the launcher's own program is not installed.
    """
    folder = folder.absolute()
    write_launch(training.render(command, launcher, config, folder), folder)
    match launcher:
        case "local" | "accelerate":
            lines = [["bash", str(folder / training.SCRIPT)]]
        case "slurm":
            lines = [["sbatch", "--wait", str(folder / training.SBATCH)]]
        case _:
            waited = ["--for=condition=Completed", f"--timeout={config.minutes}m"]
            jobset = ["--namespace", config.namespace, f"jobset/{training.jobset_name(command, config)}"]
            lines = [_apply(folder / training.JOBSET), ["kubectl", "wait", *waited, *jobset]]
    _start(lines, workdir)


def submit_run(cluster: Cluster, out: str, config: LaunchConfig, folder: Path) -> None:
    """Submit a generation run to a cluster by its rendered files in a folder. `out` is the run's own folder, by which
    the job is named. Raises what `submit_training` raises.
    """
    match cluster:
        case "slurm":
            _start([["sbatch", str(folder / generation.SBATCH)]])
        case _:
            # A Job of an earlier start is not changed by another one: its template is fixed.
            named = ["--namespace", config.namespace, "--ignore-not-found", "job", pods_name(config, out)]
            _start([["kubectl", "delete", *named], _apply(folder / generation.MANIFESTS)])


def _apply(file: Path) -> list[str]:
    return ["kubectl", "apply", "-f", str(file)]


def _start(lines: Sequence[Sequence[str]], workdir: Path | None = None) -> None:
    """Run programs one after the other, those of this Python environment first on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    for line in lines:
        try:
            done = subprocess.run(line, cwd=workdir, env={**os.environ, "PATH": path}, check=False)
        except FileNotFoundError as error:
            raise InvalidInput(
                f"no program {line[0]!r} here, which submits the job; run this where it is installed", field="launcher"
            ) from error
        if done.returncode:
            raise ClusterError(f"{shlex.join(line)} ended with code {done.returncode}; its output says why")
