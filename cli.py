"""`trailforge`: what a person starts. Each command parses, calls one function, and shows what came of it."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from trailforge.commands import curate, documents, export, inspect, kg, mcts, push, train, training, windows
from trailforge.commands.options import RunFolder
from trailforge.schemas.errors import InvalidInput, TrailforgeError
from trailforge.schemas.text import visible

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Training data for LLM search agents: from questions and documents to trajectories as Parquet.",
)
_FAULTS_FOUND = 11
_INTERRUPTED = 130


mcts.register(app)
curate.register(app)
documents.register(app)
kg.register(app)
train.register(app)
training.register(app)
export.register(app)
inspect.register(app)
windows.register(app)
push.register(app)


@app.command(
    epilog="""Examples:\n
    trailforge verify datasets_out/demo""",
)
def verify(folder: RunFolder) -> None:
    """Check a finished run: schemas, books, hashes, and every filter and reward recomputed from the rows."""
    from trailforge.pipelines.runs.verify import verify_run

    report = verify_run(folder)
    for problem in report.problems:
        print(f"differs: {problem}")
    state = "all as the manifest says" if report.is_clean else "NOT as they should be"
    print(f"{report.files} files, {report.rows} rows: {state}")
    if not report.is_clean:
        raise typer.Exit(8)


@app.command(
    epilog="""Examples:\n
    trailforge show datasets_out/demo\n
    trailforge show datasets_out/demo --kind decomposition --count 3\n
    trailforge show datasets_out/demo --id UID\n
    trailforge show datasets_out/demo --id 2hop__sample_01 --tree\n
    trailforge show datasets_out/bundles --kind factual\n
    trailforge show datasets_out/bundles --bundles --count 20""",
)
def show(
    folder: RunFolder,
    id: Annotated[str | None, typer.Option(help="Id of a row, or of the question or bundle it belongs to.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Of trajectories correct, retrieval …; of bundle questions factual, causal …; of KG episodes policy, "
            "oracle; of graph questions chain, intersection …"
        ),
    ] = None,
    tree: Annotated[bool, typer.Option("--tree", help="Search trees instead of trajectories.")] = False,
    bundles: Annotated[bool, typer.Option("--bundles", help="Bundles instead of their questions.")] = False,
    count: Annotated[int, typer.Option(min=1, help="How many.")] = 1,
) -> None:
    """Show rows of a run in the terminal: trajectories or search trees, bundles or their questions."""
    from rich.console import Console

    from trailforge.inspector import run_views, terminal

    console = Console()
    dataset = run_views.dataset_of(folder)
    for flag, is_given, has in (("--tree", tree, "mcts_trajectories"), ("--bundles", bundles, "document_bundles")):
        if is_given and dataset != has:
            raise InvalidInput(f"is a run of {dataset}, which has none of these", file=folder, field=flag)
    if kind is not None and (tree or bundles):
        raise InvalidInput("of rows, not of trees or bundles; leave it out", field="--kind")
    if dataset == "document_bundles":
        if bundles:
            views = map(terminal.bundle, run_views.find_bundles(folder, id, count))
        else:
            views = map(terminal.bundle_question, run_views.find_questions(folder, id, kind, count))
    elif dataset == "kg_trajectories":
        views = map(terminal.kg_trajectory, run_views.find_episodes(folder, id, kind, count))
    elif dataset == "kg_questions":
        views = map(terminal.kg_question, run_views.find_kg_questions(folder, id, kind, count))
    elif dataset != "mcts_trajectories":
        raise InvalidInput(f"a run of {dataset!r}, which this trailforge cannot show", file=folder)
    elif tree:
        views = map(terminal.search_tree, run_views.find_trees(folder, id, count))
    else:
        views = map(terminal.trajectory, run_views.find_trajectories(folder, id, kind, count))
    for view in views:
        console.print(view)


@app.command(
    epilog="""Examples:\n
    trailforge status datasets_out/musique\n
    trailforge status datasets_out/musique --watch\n
    trailforge status datasets_out/musique --json\n
    trailforge status datasets_out/nightly                      every window in it""",
)
def status(
    folder: RunFolder,
    watch: Annotated[
        bool, typer.Option("--watch", help="Refresh until nothing works on the run, or in the root.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for machines.")] = False,
) -> None:
    """Say how a run, or each window of a nightly root, stands: what is done, what it took, and what to do next."""
    from trailforge.flows.nights.status import follow_windows, windows_of
    from trailforge.pipelines.runs.status import follow, read_status, told

    if windows := windows_of(folder):
        rounds = follow_windows(folder) if watch else iter([windows])
        _tell(rounds, as_json, lambda window: window.told)
        return
    each = follow(folder) if watch else iter([read_status(folder)])
    _tell(([now] for now in each), as_json, told)


def _tell(rounds: Iterable[Sequence[Any]], as_json: bool, lines_of: Callable[[Any], Sequence[str]]) -> None:
    """Print what stands in each round: as JSON a line for each, else as text in the place of the round before."""
    from trailforge.inspector.terminal import refreshed

    if as_json:
        for now in rounds:
            for each in now:
                print(json.dumps(dataclasses.asdict(each)), flush=True)
    else:
        refreshed("\n".join(line for each in now for line in lines_of(each)) for now in rounds)


@app.command(
    "index",
    epilog="""Examples:\n
    trailforge index passages.jsonl.gz --out indexes/wiki\n
    trailforge index passages.jsonl.gz --out indexes/e5 --encoder intfloat/multilingual-e5-base \\\n
        --passage-prefix "passage: " --query-prefix "query: "          for preset dynasearcher\n
    then in a preset:  retrieval: {scope: corpus, corpus_index: indexes/wiki}""",
)
def index_command(
    corpus: Annotated[Path, typer.Argument(help="Passages with title and text (JSONL, .gz too, or Parquet).")],
    out: Annotated[Path, typer.Option(help="Folder of the index.")],
    encoder: Annotated[
        str, typer.Option(help="'minilm' (packaged), or any sentence-transformers name or path.")
    ] = "minilm",
    passage_prefix: Annotated[
        str, typer.Option(help="What the encoder wants before a passage, e.g. 'passage: ' for e5. Kept in the index.")
    ] = "",
    query_prefix: Annotated[
        str, typer.Option(help="What it wants before a query, e.g. 'query: '. Kept for all who search the index.")
    ] = "",
) -> None:
    """Embed a corpus once, for searches over all of it instead of each question's own paragraphs."""
    from trailforge.retrieval import build_index

    count = build_index(corpus, out, encoder, passage_prefix=passage_prefix, query_prefix=query_prefix)
    print(f"{count:,} passages in {out}")


@app.command(
    "serve-model",
    epilog="""Examples:\n
    trailforge serve-model --preset msearcher\n
    trailforge serve-model --preset my.yaml --port 8001 --log vllm.log\n
    trailforge serve-model --preset msearcher --print-command   (to start it elsewhere, or another way)""",
)
def serve_model_command(
    preset: Annotated[str, typer.Option(help="Preset with a section 'server', or a YAML file.")] = "msearcher",
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port. Default: the preset's.")] = None,
    log: Annotated[Path | None, typer.Option(help="File for what vLLM prints. Default: a new temporary one.")] = None,
    print_command: Annotated[bool, typer.Option("--print-command", help="Print the command and do no more.")] = False,
) -> None:
    """Run the preset's model in vLLM, in the foreground, until Ctrl-C."""
    from dataclasses import replace

    from trailforge.flows.configuration import datasets_for
    from trailforge.inference.vllm.server import VllmServer, serve
    from trailforge.pipelines.dataset import resolve
    from trailforge.pipelines.datasets import load_dataset
    from trailforge.pipelines.runs.config import server_config
    from trailforge.presets import load_preset

    dataset = datasets_for(preset)[0]
    content = load_preset(preset, dataset)
    config, name = server_config(content, source=f"preset {preset}", record=resolve(load_dataset(dataset).config))
    config = replace(config, port=port or config.port)
    if print_command:
        print(VllmServer(config, name).command_line)
    else:
        serve(config, name, log, partial(print, flush=True))


@app.command(
    epilog="""Examples:\n
    trailforge doctor\n
    trailforge doctor --preset demo --out datasets_out/demo\n
    trailforge doctor --preset dynasearcher --kg kgs/wikidata5m --documents indexes/e5\n
    trailforge doctor --model http://127.0.0.1:8000/v1 --call""",
)
def doctor(
    preset: Annotated[str, typer.Option(help="The preset of the run: a name, or a YAML file.")] = "msearcher",
    model: Annotated[str | None, typer.Option(help="URL of the model server. Default: the preset's.")] = None,
    model_name: Annotated[str | None, typer.Option(help="Model as the server calls it. Default: the preset's.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the run; it need not be there.")] = Path("datasets_out"),
    kg: Annotated[Path | None, typer.Option(help="Knowledge graph of the run. Default: the preset's.")] = None,
    documents: Annotated[Path | None, typer.Option(help="Index, or file, that kg-trajectories is to search.")] = None,
    call: Annotated[
        bool, typer.Option("--call", help="Send the model one tiny request; it costs a few tokens.")
    ] = False,
) -> None:
    """Check whether a run would go, for each data set of the preset: packages, keys, model, encoder, index, graph …"""
    from trailforge.flows.doctor import examine

    faults = 0
    for found in examine(preset, model, model_name, out, call=call, kg=kg, documents=documents):
        faults += found.level == "fault"
        print(f"{found.level:<8} {found.check:<15} {found.detail}", flush=True)
        if found.mend:
            print(f"{'':<8} {'':<15} mend: {found.mend}", flush=True)
    if faults:
        raise typer.Exit(_FAULTS_FOUND)


def main(arguments: list[str] | None = None) -> None:
    """Entry point: errors become one line and an exit code."""
    _quiet()
    try:
        app(args=arguments, prog_name="trailforge")
    except TrailforgeError as error:
        _end(f"error: {error}", error.exit_code)
    except KeyboardInterrupt:
        _end("stopped; the same command goes on from here", _INTERRUPTED)
    except RuntimeError as error:  # Prefect's, of no kind of its own, when its server does not answer
        if (silent := _silent_prefect(error)) is None:
            raise
        _end(f"error: {silent}", silent.exit_code)


def _silent_prefect(error: RuntimeError) -> TrailforgeError | None:
    """What to do about a Prefect server that flows need and cannot reach; None when that is not what is wrong."""
    if "flows" not in sys.modules:
        return None
    from trailforge.flows.doctor import prefect_server
    from trailforge.schemas.errors import ServerUnavailable

    found = prefect_server()
    if found.mend:
        return ServerUnavailable(f"Prefect: {found.detail}; {found.mend}")
    if "ephemeral Prefect API server" not in str(error):
        return None
    mend = "start one (`prefect server start`) and name it in PREFECT_API_URL, or try from another folder"
    return ServerUnavailable(f"Prefect: its private server did not start (a file here may hide a module); {mend}")


def _quiet() -> None:
    """No logs of libraries, which tell every exception with its traceback. PREFECT_LOGGING_LEVEL brings them back."""
    if "PREFECT_LOGGING_LEVEL" not in os.environ:
        os.environ["PREFECT_LOGGING_LEVEL"] = "CRITICAL"
        logging.disable(logging.ERROR)


def _end(line: str, exit_code: int) -> None:
    """Print and leave at once: worker threads that still wait for a server must not hold the process."""
    print(visible(line), file=sys.stderr)  # a server, a feed or a file may have had its say in it
    if "flows" in sys.modules:
        from trailforge.flows import stop_server

        stop_server()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


if __name__ == "__main__":
    main()
