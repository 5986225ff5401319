"""`--launcher`: a command that is started on one machine or many instead of being run here and now."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from trailforge.schemas import InvalidInput

_OURS = frozenset({"launcher", "launch", "print_files"})
"""Options that are about launching and no part of what is launched."""


class LauncherName(StrEnum):
    """Who starts the processes."""

    LOCAL = "local"
    ACCELERATE = "accelerate"
    SLURM = "slurm"
    K8S = "k8s"


Launcher = Annotated[
    LauncherName | None,
    typer.Option(help="Start it so: accelerate (this node's devices), slurm, k8s (JobSet). Default: this process."),
]
Launch = Annotated[
    Path | None,
    typer.Option("--launch", help="YAML with nodes, devices_per_node, sharding, partition, image …: docs/cluster.md."),
]
Print = Annotated[bool, typer.Option("--print", help="With --launcher: print the files and start nothing.")]


def launched(
    context: typer.Context, launcher: LauncherName | None, launch: Path | None, print_files: bool, out: Path
) -> bool:
    """Whether the command was handed to a launcher (or printed), so that there is nothing to do here."""
    if launcher is None:
        if launch is not None or print_files:
            raise InvalidInput("--launch and --print want a --launcher", field="launcher")
        return False
    from trailforge.training.launching.launch import render
    from trailforge.training.launching.submit import launch_folder, submit

    config = _config(launch)
    command = command_line(context)
    if print_files:
        folder = launch_folder(out).absolute()
        for name, text in render(command, launcher.value, config, folder).items():
            print(f"# --- {folder / name}\n{text}")
    else:
        submit(command, launcher.value, config, out)
    return True


def command_line(context: typer.Context) -> list[str]:
    """The words after `trailforge` that give this command with these options, those of launching left out."""
    names: list[str] = []
    above: Any = context
    while above.parent is not None:
        names.insert(0, above.info_name or "")
        above = above.parent
    words: list[str] = []
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.name in _OURS or value is None or value == parameter.default or value == ():
            continue
        if parameter.param_type_name == "argument":
            names += _texts(value)
        elif isinstance(value, bool):
            words += [(parameter.opts if value else parameter.secondary_opts)[0]]
        else:
            words += [word for text in _texts(value) for word in (parameter.opts[0], text)]
    return [*names, *words]


def _texts(value: Any) -> list[str]:
    several = value if isinstance(value, list | tuple) else [value]
    return [each.value if isinstance(each, StrEnum) else str(each) for each in several]


def _config(path: Path | None) -> Any:
    import yaml

    from trailforge.schemas import from_dict
    from trailforge.training.launching.launch import LaunchConfig

    if path is None:
        return LaunchConfig()
    if not path.is_file():
        raise InvalidInput("no such file", file=path)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        if not isinstance(content, dict):
            raise InvalidInput("expected a mapping of settings")
        return from_dict(LaunchConfig, content)
    except yaml.YAMLError as error:
        raise InvalidInput(f"not valid YAML: {str(error).splitlines()[0]}", file=path) from error
    except InvalidInput as error:
        raise InvalidInput(error.problem, file=path, field=error.field) from error
