"""`trailforge`: the command line. Each command parses, calls one function, and shows the result."""

from __future__ import annotations

import logging
import os
import sys
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.models import CommandInfo, TyperInfo

from trailforge.commands import (
    audit,
    curate,
    demand,
    evaluate,
    export,
    index,
    kg,
    launch,
    look,
    operate,
    runs,
    serve,
    tables,
    training,
)
from trailforge.schemas import TrailforgeError, missing_package, visible

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Training data for LLM search agents: from questions and documents to trajectories as Parquet.",
)
_INTERRUPTED = 130
_MAKE = "Make data"
_PANELS = {
    _MAKE: (),
    "Look and decide": ("show", "inspect", "sql", "verify", "status", "curate", "rewards"),
    "Train and evaluate": ("training-set", "export", "train", "evaluate", "compare", "audit", "demand"),
    "Operate": (
        "doctor",
        "launch",
        "serve-model",
        "serve-search",
        "nightly",
        "retain",
        "backup",
        "restore",
        "check-bands",
        "compact",
        "push",
    ),
}
"""Headings of `--help` in order, each with its commands; commands that stand under none of them make data."""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(version("trailforge"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    del version


for _each in (runs, curate, index, kg, look, training, export, evaluate, audit, demand, operate, launch, serve, tables):
    _each.register(app)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="""Examples:\n
    trailforge preview mcts-trajectories --preset demo --questions sample_data/musique_style_questions.jsonl\n
    trailforge preview kg-questions --kg kgs/wikidata5m --model http://127.0.0.1:8000/v1 --out out/kg-questions\n
    --out keeps the replies, so a later run with the same options does not pay for them again.""",
)
def preview(
    context: typer.Context, command: Annotated[str, typer.Argument(help="A command that makes data, with its options.")]
) -> None:
    """Make and show about three rows of any data set: its first inputs go through every stage."""
    makers = build_command().commands
    if not any(option.name == "preview" for option in getattr(makers.get(command), "params", ())):
        known = [name for name, each in makers.items() if any(option.name == "preview" for option in each.params)]
        raise typer.BadParameter(f"no command {command!r} makes data; there are {', '.join(known)}")
    makers[command].main([*context.args, "--preview"], prog_name=f"trailforge {command}", standalone_mode=False)


def _arrange(root: typer.Typer) -> None:
    """Put each command under its heading; `--help` shows headings in the order of their first commands."""
    panel_of = {name: panel for panel, names in _PANELS.items() for name in names}

    def rank(command: CommandInfo | TyperInfo) -> int:
        return list(_PANELS).index(command.rich_help_panel or _MAKE)

    for command in [*root.registered_commands, *root.registered_groups]:
        command.rich_help_panel = panel_of.get(command.name or getattr(command, "callback", _options).__name__, _MAKE)
    root.registered_commands.sort(key=rank)
    root.registered_groups.sort(key=rank)


_arrange(app)


@cache
def build_command() -> Any:
    """Return `app` as the command that it describes, built once a process: that takes a tenth of a second."""
    return typer.main.get_command(app)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line: an error becomes one line on standard error and an exit code."""
    _quiet()
    # For every process that a command starts: none may import what happens to lie in the folder it is started in.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    try:
        build_command()(args=arguments, prog_name="trailforge")
    except TrailforgeError as error:
        _end(str(error), error.exit_code)
    except ImportError as error:
        if (missing := missing_package(error)) is None:
            raise
        _end(str(missing), missing.exit_code)
    except KeyboardInterrupt:
        _end("stopped; the same command goes on from here", _INTERRUPTED, is_error=False)
    except RuntimeError as error:  # Prefect's, of no kind of its own, when its server does not answer
        if (silent := _silent_prefect(error)) is None:
            raise
        _end(str(silent), silent.exit_code)


def _silent_prefect(error: RuntimeError) -> TrailforgeError | None:
    """What to do about a Prefect server that flows need and cannot reach; None when that is not what is wrong."""
    if "trailforge.flows" not in sys.modules:
        return None
    from trailforge.flows import prefect_server
    from trailforge.schemas import ServerUnavailable

    found = prefect_server()
    if found.mend:
        return ServerUnavailable(f"Prefect: {found.detail}; {found.mend}")
    if "ephemeral Prefect API server" not in str(error):
        return None
    mend = "start one (`prefect server start`) and name it in PREFECT_API_URL, or try from another folder"
    return ServerUnavailable(f"Prefect: its private server did not start (a file here may hide a module); {mend}")


def _quiet() -> None:
    """No logs of libraries, which tell every exception with its traceback; notices (`errors.NOTICE`) are above that.

    PREFECT_LOGGING_LEVEL brings all back.
    """
    if "PREFECT_LOGGING_LEVEL" not in os.environ:
        os.environ["PREFECT_LOGGING_LEVEL"] = "CRITICAL"
        logging.disable(logging.ERROR)


def _end(said: str, exit_code: int, *, is_error: bool = True) -> None:
    """Print and leave at once: worker threads that still wait for a server must not hold the process."""
    from trailforge.pipelines.engine import is_json, json_line

    text = f"error: {said}" if is_error else said
    if is_json():
        text = json_line("end", said, logging.ERROR if is_error else logging.WARNING, exit_code=exit_code)
    print(visible(text), file=sys.stderr)  # a server, a feed or a file may have had its say in it
    if "trailforge.flows" in sys.modules:
        from trailforge.flows import stop_server

        stop_server()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


if __name__ == "__main__":
    main()
