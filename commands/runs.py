"""The commands that make data: each says what it takes, and the options that every run has are added to it here."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trailforge.commands.options import (
    BeamOptions,
    MaxCalls,
    MaxCost,
    MaxTokens,
    Model,
    ModelName,
    Redo,
    RedoOption,
    Replace,
    Runner,
    Verdicts,
)

if TYPE_CHECKING:
    from trailforge.flows.execute import RunRequest
    from trailforge.pipelines.dataset import DataSet
    from trailforge.schemas import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeOf:
    """What a command is to make data of: see `flows.execute.RunRequest`."""

    files: tuple[Path, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand:
    """A command that makes a data set."""

    dataset: str
    preset: str
    """The one that holds when nobody names another."""
    presets: str
    """Those there are, for `--help`."""
    epilog: str

    def add_to(self, app: typer.Typer, made_of: Callable[..., MadeOf]) -> None:
        """Add the command. `made_of` has its own options, its help, and gives what data is made of."""
        own = inspect.signature(made_of, eval_str=True).parameters
        shared = dict(inspect.signature(_request, eval_str=True).parameters)
        del shared["dataset"], shared["made_of"]
        presets = Annotated[str, typer.Option(help=f"{self.presets}, or a YAML file.")]
        shared["preset"] = shared["preset"].replace(annotation=presets, default=self.preset)
        prefect = inspect.Parameter("prefect", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_Prefect)

        def command(prefect: bool, **given: Any) -> None:
            made = made_of(**{name: given.pop(name) for name in own})
            request = _request(self.dataset, made, **given)
            if given["dry_run"]:
                from trailforge.flows.preview import show_estimate

                show_estimate(request)
                return
            if given["preview"]:
                from trailforge.flows.preview import preview
                from trailforge.inspector.terminal import show_first

                preview(request, _executor(prefect), show_first)
                return
            manifest = _executor(prefect)(request)
            from trailforge.inspector.terminal import show_end

            show_end(manifest, request.out)

        parameters = [each.replace(kind=prefect.kind) for each in (*own.values(), *shared.values(), prefect)]
        command.__doc__, command.__annotations__ = made_of.__doc__, {each.name: each.annotation for each in parameters}
        command.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
        app.command(self.dataset.replace("_", "-"), epilog=self.epilog)(command)


def register(app: typer.Typer) -> None:
    """Add the command of every data set that declares one and has none here.

    One that cannot be loaded takes no other command away: `load_dataset` says what is wrong to who asks for its runs.
    """
    from trailforge.pipelines.datasets import dataset_names, load_dataset

    known = {each.name for each in app.registered_commands}
    for name in dataset_names():
        if name.replace("_", "-") in known:
            continue
        with contextlib.suppress(ImportError, AttributeError):
            if (dataset := load_dataset(name)).about:
                _declared(dataset).add_to(app, _made_of_options(dataset))


def _declared(dataset: DataSet) -> RunCommand:
    examples = "\n\n".join(f"    trailforge {dataset.command} {each}" for each in dataset.examples)
    return RunCommand(
        dataset=dataset.name,
        preset=dataset.preset,
        presets=f"{dataset.preset} (production)",
        epilog=f"Examples:\n\n{examples}" if examples else "",
    )


def _made_of_options(dataset: DataSet) -> Callable[..., MadeOf]:
    """As a command's own function would be written: its input, its options, how many."""
    source = dataset.option.removeprefix("--")

    def made_of(**given: Any) -> MadeOf:
        return MadeOf(files=(given.pop(source),), limit=given.pop("limit"), options=given)

    def parameter(name: str, annotation: Any, **default: Any) -> inspect.Parameter:
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, **default)

    counted = typer.Option(min=1, help="Only the first N valid ones.")
    parameters = [
        parameter(source, Annotated[Path, typer.Option(help=f"File of {source}; .gz too.")]),
        *(
            parameter(name, Annotated[option.takes | None, typer.Option(help=option.help)], default=None)
            for name, option in dataset.own_options.items()
        ),
        parameter("limit", Annotated[int | None, counted], default=None),
    ]
    made_of.__doc__ = dataset.about
    made_of.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    return made_of


_Prefect = Annotated[
    bool, typer.Option("--prefect", help="Run as a flow, as it is when PREFECT_API_URL or a profile names a server.")
]


def _request(
    dataset: str,
    made_of: MadeOf,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. Needed but for --dry-run.")] = None,
    preset: str = "",
    model: Model = None,
    model_name: ModelName = None,
    seed: Annotated[int, typer.Option(help="Seed of sampling and wording.")] = 0,
    verdicts: Verdicts = None,
    max_cost: MaxCost = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only estimate calls, tokens and cost. Starts nothing, pays nothing.")
    ] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="Make and show about three rows; --out, if given, keeps their replies.")
    ] = False,
    redo: RedoOption = None,
    replace: Replace = False,
    runner: Runner = "FnApiRunner",
    beam_option: BeamOptions = None,
) -> Any:
    """A `RunRequest`: not said by its type, as Typer evaluates it and that module is loaded by those who run alone."""
    from trailforge.flows.given import check_given, check_out

    if (dry_run or preview) and (redo or replace):
        given = "--dry-run" if dry_run else "--preview"
        raise typer.BadParameter(f"changes a run that is there; {given} has none", param_hint="--redo, --replace")
    if out is None and not (dry_run or preview):
        raise typer.BadParameter("needed, as the folder of the run", param_hint="--out")
    if out is not None:
        check_out(out)
    check_given(dataset, preset, made_of.files, made_of.options)
    from trailforge.flows.execute import RunRequest
    from trailforge.inference import Caps

    return RunRequest(
        dataset=dataset,
        out=out or Path(),
        preset=preset,
        files=made_of.files,
        options=made_of.options,
        model=model,
        model_name=model_name,
        limit=made_of.limit,
        seed=seed,
        caps=Caps(max_cost=max_cost, max_calls=max_calls, max_tokens=max_tokens),
        verdicts=tuple(verdicts or ()),
        replace_run=replace,
        redo_truncated=redo is Redo.TRUNCATED,
        runner=runner,
        runner_options=tuple(beam_option or ()),
    )


def _executor(prefect: bool) -> Callable[[RunRequest], Manifest]:
    """How runs are made: under Prefect where a server is set or `prefect` is asked for, else right here."""
    from trailforge.flows import names_prefect_server

    if prefect or names_prefect_server():
        from trailforge.flows.prefect_driver import execute_as_flow

        return execute_as_flow
    from trailforge.flows.execute import execute

    return execute
