"""The commands that make data: one per data set, with the options that it declares and those that every run has; and
the one that fetches documents for them."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trailforge.commands.audit import AuditedFolder
from trailforge.commands.options import (
    BeamOptions,
    Cluster,
    DemandFile,
    Insecure,
    LogFormat,
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
from trailforge.schemas import Question

if TYPE_CHECKING:
    from trailforge.flows.execute import RunRequest
    from trailforge.pipelines import DataSet, RunOption
    from trailforge.schemas import Manifest


_EPILOG = """Examples:

{examples}

    trailforge {command} … (the same line again) resumes a stopped run and pays for nothing twice.

    The key of a hosted model comes from TRAILFORGE_API_KEY (or OPENAI_API_KEY), the password of a shared ledger from
    TRAILFORGE_LEDGER_PASSWORD."""


def register(app: typer.Typer) -> None:
    """Add the command of every data set that declares one, and the one that fetches documents. A data set that cannot
    be loaded removes no other's command; `load_dataset` raises its error when it is used.
    """
    from trailforge.pipelines import dataset_names, load_dataset

    for name in dataset_names():
        with contextlib.suppress(ImportError, AttributeError):
            if (dataset := load_dataset(name)).about:
                _add_command(app, dataset)
    app.command("fetch-documents", epilog=_FETCH_EPILOG)(fetch_documents)


def _add_command(app: typer.Typer, dataset: DataSet) -> None:
    """Its parameters are what the data set takes, and what every run takes."""

    def command(prefect: bool, dry_run: bool, preview: bool, log_format: str, **given: Any) -> None:
        from trailforge.pipelines.engine import choose_format

        choose_format(log_format)
        own = {name: _plain(given.pop(name)) for name in dataset.given}
        request = _request(dataset, own, look="--dry-run" if dry_run else "--preview" if preview else "", **given)
        if dry_run:
            from trailforge.flows import show_estimate

            show_estimate(request)
            return
        if preview:
            from trailforge.flows import show_preview
            from trailforge.inspector import show_first

            show_preview(request, _executor(prefect), show_first)
            return
        manifest = _executor(prefect)(request)
        from trailforge.inspector import show_end
        from trailforge.pipelines.runs import check_kept, read_settings

        show_end(manifest, request.out)
        if (settings := read_settings(request.out)) is not None:
            check_kept(manifest, settings, request.out)

    parameters = [*_own_parameters(dataset), *_shared_parameters(dataset)]
    command.__doc__, command.__annotations__ = dataset.about, {each.name: each.annotation for each in parameters}
    command.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    examples = "\n\n".join(f"    trailforge {each}" for each in dataset.examples)
    epilog = _EPILOG.format(examples=examples, command=dataset.command)
    app.command(dataset.command, epilog=epilog)(command)


def _own_parameters(dataset: DataSet) -> Iterator[inspect.Parameter]:
    for name, option in dataset.given.items():
        is_needed = option is dataset.files
        default = inspect.Parameter.empty if is_needed else False if option.takes is bool else None
        yield _parameter(name, _annotate(name, option, is_needed), default)
    if dataset.files is not None:
        counted = typer.Option(min=1, help=f"Only the first N valid {dataset.option.removeprefix('--')}.")
        yield _parameter("limit", Annotated[int | None, counted], None)


def _shared_parameters(dataset: DataSet) -> Iterator[inspect.Parameter]:
    presets = [f"{dataset.preset} (production)", *([f"{dataset.demo} (embedded model)"] if dataset.demo else [])]
    preset = Annotated[str, typer.Option(help=f"{', '.join(presets)}, or a YAML file.")]
    for each in inspect.signature(_shared, eval_str=True).parameters.values():
        if each.name == "audited" and dataset.inputs.record is not Question:
            continue
        if each.name == "demand" and not dataset.takes_demand:
            continue
        is_preset = each.name == "preset"
        yield _parameter(
            each.name, preset if is_preset else each.annotation, dataset.preset if is_preset else each.default
        )


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _annotate(name: str, option: RunOption, is_needed: bool) -> Any:
    """As the parameter of a command that somebody writes by hand."""
    flags = [option.flag or f"--{name.replace('_', '-')}"]
    declared = typer.Option(*flags, help=option.help, min=option.least, metavar=option.metavar)
    takes: Any = StrEnum(name.title(), {each: each for each in option.words}) if option.words else option.takes
    if option.many:
        takes = list[takes]
    return Annotated[takes if is_needed or takes is bool else takes | None, declared]


def _plain(value: Any) -> Any:
    """Of an option with a few words the text."""
    return value.value if isinstance(value, StrEnum) else value


_Prefect = Annotated[
    bool,
    typer.Option(
        "--prefect",
        help="Run as a Prefect flow, which is the default when PREFECT_API_URL or a profile names a server.",
    ),
]


def _shared(
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run. Required except with --dry-run and --preview.")
    ] = None,
    preset: str = "",
    model: Model = None,
    model_name: ModelName = None,
    seed: Annotated[int, typer.Option(help="Seed of sampling and wording.")] = 0,
    verdicts: Verdicts = None,
    audited: AuditedFolder = None,
    demand: DemandFile = None,
    max_cost: MaxCost = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only estimate calls, tokens and cost.")] = False,
    preview: Annotated[
        bool,
        typer.Option(
            "--preview", help="Make and show about three rows right here; with --out, their replies are kept."
        ),
    ] = False,
    redo: RedoOption = None,
    replace: Replace = False,
    runner: Runner = "FnApiRunner",
    beam_option: BeamOptions = None,
    cluster: Cluster = None,
    insecure: Insecure = False,
    log_format: LogFormat = "text",
    prefect: _Prefect = False,
) -> None:
    """What every run takes."""


def _request(dataset: DataSet, own: Mapping[str, Any], *, look: str, out: Path | None, **given: Any) -> RunRequest:
    """What a run is asked for. What is wrong with it is said before anything heavy is loaded.

    `look`: the option by which no run is made.
    """
    from trailforge.flows import check_given, check_out

    if look and (given["redo"] or given["replace"]):
        raise typer.BadParameter(
            f"changes an existing run, and {look} makes none; leave one of them out", param_hint="--redo, --replace"
        )
    if out is None and not look:
        raise typer.BadParameter("needed, as the folder of the run", param_hint="--out")
    if out is not None:
        check_out(out)
    files, options = dataset.read(own)
    check_given(dataset.name, given["preset"], files, options)
    from trailforge.flows.execute import RunRequest
    from trailforge.inference import Caps

    return RunRequest(
        dataset=dataset.name,
        out=out or Path(),
        preset=given["preset"],
        files=files,
        options=options,
        model=given["model"],
        model_name=given["model_name"],
        limit=given.get("limit"),
        seed=given["seed"],
        caps=Caps(max_cost=given["max_cost"], max_calls=given["max_calls"], max_tokens=given["max_tokens"]),
        verdicts=tuple(given["verdicts"] or ()),
        audited=given.get("audited"),
        demand=given.get("demand"),
        replace_run=given["replace"],
        redo_truncated=given["redo"] is Redo.TRUNCATED,
        redo_refused=given["redo"] is Redo.REFUSED,
        runner=given["runner"],
        runner_options=tuple(given["beam_option"] or ()),
        cluster=given["cluster"] or "",
        insecure=given["insecure"],
    )


def _executor(prefect: bool) -> Callable[[RunRequest], Manifest]:
    """How runs are made: under Prefect where a server is set or `prefect` is asked for, else right here."""
    from trailforge.flows import names_prefect_server

    if prefect or names_prefect_server():
        from trailforge.flows import execute_as_flow

        return execute_as_flow
    from trailforge.flows.execute import execute

    return execute


class Origin(StrEnum):
    """The live sources from which documents are fetched."""

    ARXIV = "arxiv"
    GNEWS = "gnews"
    SERPER = "serper"
    NEWS = "news"


_FETCH_EPILOG = """Examples:\n
    trailforge fetch-documents arxiv "cat:cs.CL AND all:retrieval" --since 2026-08-01 --limit 500 --out arxiv.jsonl\n
    trailforge fetch-documents news "renewable energy" --since 2026-08-01 --out news.jsonl\n
    trailforge document-bundles --documents news.jsonl --documents arxiv.jsonl --out out/autumn\n
    Keys come from GNEWS_API_KEY and SERPER_API_KEY; arXiv needs none."""


def fetch_documents(
    origin: Annotated[Origin, typer.Argument(help="arxiv; gnews; serper; news: GNews, and Serper where it has few.")],
    query: Annotated[str, typer.Argument(help="Query in that source's syntax.")],
    out: Annotated[Path, typer.Option(help="File of documents to write (JSONL), for document-bundles.")],
    since: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="First day of publication.")] = None,
    until: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Last day of publication.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of documents.")] = 100,
) -> None:
    """Fetch documents of a time window from arXiv or news into a file, as input for document-bundles."""
    from trailforge.pipelines.sources import fetch_to_file

    first, last = (day.date() if day is not None else None for day in (since, until))
    count = fetch_to_file(origin.value, query, out, since=first, until=last, limit=limit)
    print(f"{count:,} documents in {out}")
