"""`trailforge launch`: write what a command needs on Slurm or Kubernetes, and hand trainings to a launcher."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trailforge.commands.options import read_settings
from trailforge.schemas import InvalidInput

if TYPE_CHECKING:
    from trailforge.launching import Cluster, LaunchConfig, RunToLaunch
    from trailforge.pipelines import DataSet

LauncherName = Literal["local", "accelerate", "slurm", "k8s"]
_OURS = frozenset({"launcher", "launch", "print_files"})
"""Options that are about launching and no part of what is launched."""

_EPILOG = """Examples:\n
    trailforge launch {cluster} --settings cluster.yaml mcts-trajectories --questions train.jsonl.gz \\\n
        --preset msearcher --out {out}\n
    trailforge launch {cluster} --settings cluster.yaml --submit mcts-trajectories … \n
    trailforge launch {cluster} --settings cluster.yaml --print train sft sets/all --preset msearcher --out {trained}\n
    {note}"""
_ON_SLURM = (
    "Files go to OUT-launch/, which all hosts must see, as they see OUT. The same command, submitted again, goes on. "
    "Keys come from the environment that you submit from; those of servers started here are made anew each time."
)
_ON_KUBERNETES = (
    "Paths are those in pods, where the volume is the working folder. Keys are in the Secret that the settings name: "
    "kubectl create secret generic NAME --from-env-file=keys.env"
)
_Settings = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        help="YAML with partition, time, image, generation: {servers, workers, ledger …}: docs/cluster.md.",
    ),
]
_Into = Annotated[Path | None, typer.Option("--into", help="Folder for the files.", show_default=False)]
_Submit = Annotated[bool, typer.Option("--submit", help="Also submit them. Default: only write.")]
_Print = Annotated[bool, typer.Option("--print", help="Print the files instead of writing them.")]
_Command = Annotated[
    list[str],
    typer.Argument(
        help="A command that makes data, or train, with its options.", metavar="COMMAND...", show_default=False
    ),
]
_AS_TYPED: dict[str, Any] = {"allow_interspersed_args": False}
"""What follows the command is the command's."""

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Write or submit what a run or a training needs on a cluster: model servers, workers, ledger, the command.",
    epilog="""Examples:\n
    trailforge launch slurm --settings cluster.yaml mcts-trajectories --questions train.jsonl.gz \\\n
        --preset msearcher --out runs/musique                            writes the files\n
    trailforge launch k8s --settings cluster.yaml --submit kg-questions --kg kgs/wikidata5m --out runs/kg\n
    On one machine no launch is needed: trailforge mcts-trajectories … --cluster local:4""",
)


@app.command(
    context_settings=_AS_TYPED,
    epilog=_EPILOG.format(cluster="slurm", out="runs/musique", trained="trained/sft", note=_ON_SLURM),
)
def slurm(
    context: typer.Context,
    command: _Command,
    settings: _Settings = None,
    into: _Into = None,
    submit: _Submit = False,
    print_files: _Print = False,
) -> None:
    """Write a Slurm job for a command, and submit it if asked; the job continues in the next allocation when its time
    ends.
    """
    _launch(context, "slurm", command, settings, into, submit, print_files)


@app.command(
    context_settings=_AS_TYPED,
    epilog=_EPILOG.format(cluster="k8s", out="/data/runs/musique", trained="/data/trained/sft", note=_ON_KUBERNETES),
)
def k8s(
    context: typer.Context,
    command: _Command,
    settings: _Settings = None,
    into: _Into = None,
    submit: _Submit = False,
    print_files: _Print = False,
) -> None:
    """Write Kubernetes objects for a command: a Job that continues in another pod when one is lost, and what it needs
    around it.
    """
    _launch(context, "k8s", command, settings, into, submit, print_files)


def _launch(
    context: typer.Context,
    cluster: Cluster,
    words: list[str],
    settings: Path | None,
    into: Path | None,
    submit: bool,
    print_files: bool,
) -> None:
    from trailforge.launching import LaunchConfig, launch_folder, pods_name, submit_run, submit_training, write_launch

    if print_files and submit:
        raise InvalidInput("--print only shows the files: leave one of them out", field="--submit")
    config = read_settings(LaunchConfig, settings)
    given = _read_command(context, words)
    out = given.get("out")
    if out is None:
        raise InvalidInput("needed, as the folder of what is made", field="--out")
    is_training, name = "launcher" in given, pods_name(config, str(out))
    folder = (into or (launch_folder(out) if cluster == "slurm" else Path(f"{name}-launch"))).absolute()
    files = _render(cluster, words, given, config, folder)
    if print_files:
        for file, text in files.items():
            print(f"# --- {folder / file}\n{text}")
        return
    write_launch(files, folder)
    for file in files:
        print(folder / file)
    if submit and is_training:
        submit_training(words, cluster, config, folder)
    elif submit:
        submit_run(cluster, str(out), config, folder)
    else:
        by_hand = "sbatch" if cluster == "slurm" else "kubectl apply -f"
        print(f"not submitted: --submit does it, or {by_hand} {folder / next(iter(files))}")
    if cluster == "k8s" and not is_training:
        print(f"logs: kubectl logs --namespace {config.namespace} --follow job/{name}")
        parts = f"statefulset,deployment --selector app.kubernetes.io/instance={name}"
        print(f"after its end, to free devices: kubectl delete --namespace {config.namespace} {parts}")


def _render(
    cluster: Cluster, words: list[str], given: dict[str, Any], config: LaunchConfig, folder: Path
) -> dict[str, str]:
    from trailforge.launching import render, render_run

    if "launcher" in given:
        return render(words, cluster, config, folder)
    run = _run_to_launch(words, given, is_here=cluster == "slurm")
    return render_run(run, cluster, config, str(folder), str(Path.cwd()))


def _read_command(context: typer.Context, words: list[str]) -> dict[str, Any]:
    """The command's options by name. Nothing is run; what the command does not take is said as it says it itself."""
    command: Any = context.find_root().command
    rest = list(words)
    while hasattr(command, "commands"):
        name = rest.pop(0) if rest else ""
        if name not in command.commands:
            raise InvalidInput(f"no command {name!r}; {_WANTED}", field="COMMAND")
        command = command.commands[name]
    if not {"preview", "launcher"} & {parameter.name for parameter in command.params}:
        raise InvalidInput(f"{words[0]} is not launched; {_WANTED}", field="COMMAND")
    given: dict[str, Any] = command.make_context(" ".join(words[: len(words) - len(rest)]), rest).params
    for name in ("dry_run", "preview", "launcher", "launch", "print_files"):
        if given.get(name):
            raise InvalidInput("cannot be used in what is launched; leave it out", field=f"--{name.replace('_', '-')}")
    if given.get("redo"):
        raise InvalidInput("each start of what is launched would ask, and pay, again: run it by hand", field="--redo")
    return given


_WANTED = "give one that makes data, or train sft, dpo or rl"


def _run_to_launch(words: list[str], given: dict[str, Any], *, is_here: bool) -> RunToLaunch:
    """What the preset says of models is read here, so that a fault in it shows now and not in the queue.

    `is_here`: whether its files are those of this machine.
    """
    from trailforge.flows import check_given, configuration_of
    from trailforge.launching import RunToLaunch
    from trailforge.pipelines import resolve
    from trailforge.pipelines.runs import preset_server, server_config
    from trailforge.presets import load_preset

    dataset, preset = _dataset_of(words[0]), given["preset"]
    if is_here:
        files, options = dataset.read({name: getattr(given[name], "value", given[name]) for name in dataset.given})
        check_given(dataset.name, preset, files, options)
    model = configuration_of(dataset, preset, given["model"], given["model_name"]).model
    content, source = load_preset(preset, dataset.name), f"preset {preset}"
    server = None
    if preset_server(content, source=source) is not None:
        server, _ = server_config(content, source=source, record=resolve(dataset.config))
    return RunToLaunch(
        command=tuple(words),
        out=str(given["out"]),
        preset=preset,
        model=model.url,
        is_named=given["model"] is not None,
        server=server,
        served=model.name,
        ledger=content.get("ledger", ""),
    )


def _dataset_of(command: str) -> DataSet:
    from trailforge.pipelines import dataset_names, load_dataset

    return next(each for each in map(load_dataset, dataset_names()) if each.command == command)


def launch_elsewhere(
    context: typer.Context, launcher: LauncherName | None, launch: Path | None, print_files: bool, out: Path
) -> bool:
    """Hand the command to a launcher (Slurm or Kubernetes) or print its files; returns True when nothing is left to run
    here.
    """
    if launcher is None:
        if launch is not None or print_files:
            raise InvalidInput("--launch and --print want a --launcher", field="launcher")
        return False
    from trailforge.launching import LaunchConfig, launch_folder, render, submit_training

    config = read_settings(LaunchConfig, launch)
    command = command_line(context)
    if print_files:
        folder = launch_folder(out).absolute()
        for name, text in render(command, launcher, config, folder).items():
            print(f"# --- {folder / name}\n{text}")
    else:
        submit_training(command, launcher, config, launch_folder(out))
    return True


def command_line(context: typer.Context) -> list[str]:
    """Return the words after `trailforge` that give this command with these options, without those of launching."""
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
    return [str(each) for each in (value if isinstance(value, list | tuple) else [value])]


def register(root: typer.Typer) -> None:
    """Add the commands of `trailforge launch`."""
    root.add_typer(app, name="launch")
