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
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trailforge.commands import curate, documents, export, inspect, kg, push, train, training, windows
from trailforge.commands.options import (
    BeamOptions,
    MaxCalls,
    MaxCost,
    MaxTokens,
    Model,
    ModelName,
    RedoOption,
    Replace,
    RunFolder,
    Runner,
    Verdicts,
)
from trailforge.schemas.errors import TrailforgeError
from trailforge.schemas.text import visible

if TYPE_CHECKING:
    from trailforge.generators.mcts_trajectories.config import MctsRunConfig

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Training data for LLM search agents: from questions and documents to trajectories as Parquet.",
)
_FAULTS_FOUND = 11
_INTERRUPTED = 130


@app.command(
    "mcts-trajectories",
    epilog="""Examples:\n
    trailforge mcts-trajectories --preset demo --questions sample_data/musique_style_questions.jsonl --out out/demo\n
    trailforge mcts-trajectories --model http://127.0.0.1:8000/v1 --questions train.jsonl.gz --out out/musique\n
    trailforge mcts-trajectories --dry-run --questions train.jsonl.gz            what it would take\n
    trailforge mcts-trajectories … (the same line again) goes on where it stopped and pays for nothing twice.\n
    trailforge mcts-trajectories … --runner PortableRunner --beam-option job_endpoint=127.0.0.1:8099\n
    The password of a shared ledger comes from TRAILFORGE_LEDGER_PASSWORD.\n
    The key of a hosted model comes from TRAILFORGE_API_KEY (or OPENAI_API_KEY).""",
)
def mcts_trajectories_command(
    questions: Annotated[
        Path, typer.Option(help="Questions: MuSiQue, HotpotQA or 2WikiMultiHopQA as published, or our JSONL; .gz too.")
    ],
    out: Annotated[Path | None, typer.Option(help="Folder of the run. Needed but for --dry-run.")] = None,
    preset: Annotated[
        str, typer.Option(help="msearcher (production), demo (embedded model), or a YAML file.")
    ] = "msearcher",
    model: Model = None,
    model_name: ModelName = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N valid questions.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of sampling and wording.")] = 0,
    verdicts: Verdicts = None,
    max_cost: MaxCost = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only estimate calls, tokens and cost. Starts nothing, pays nothing.")
    ] = False,
    redo: RedoOption = None,
    replace: Replace = False,
    runner: Runner = "FnApiRunner",
    beam_option: BeamOptions = None,
) -> None:
    """Turn multi-hop questions into correct and self-reflective search trajectories (MSearcher)."""
    from trailforge.flows.configuration import configured
    from trailforge.inference import Caps

    caps = Caps(max_cost=max_cost, max_calls=max_calls, max_tokens=max_tokens)
    if dry_run:
        if redo or replace:
            raise typer.BadParameter("changes a run that is there; --dry-run has none", param_hint="--redo, --replace")
        _estimate(questions, configured(preset, model, model_name, seed, caps), limit, verdicts or [])
        return
    if out is None:
        raise typer.BadParameter("needed, as the folder of the run", param_hint="--out")
    from trailforge.flows.mcts_trajectories import mcts_trajectories
    from trailforge.inspector.terminal import show_end

    manifest = mcts_trajectories(
        questions=questions,
        out=out,
        preset=preset,
        model=model,
        model_name=model_name,
        limit=limit,
        seed=seed,
        verdicts=verdicts or [],
        caps=caps,
        replace_run=replace,
        redo_truncated=redo is not None,
        runner=runner,
        runner_options=tuple(beam_option or ()),
    )
    show_end(manifest, out)


def _estimate(questions: Path, config: MctsRunConfig, limit: int | None, verdicts: list[Path]) -> None:
    """Print what a run would take."""
    import asyncio

    from rich.console import Console

    from trailforge.curation.verdicts import refusals
    from trailforge.flows.dry_run import estimate_table
    from trailforge.generators.mcts_trajectories.estimate import estimate

    found = asyncio.run(estimate(questions, config, limit, refusals(verdicts)))
    Console().print(estimate_table(found, config))


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
    trailforge show datasets_out/bundles --bundles --count 20\n
    trailforge show datasets_out/bundles --table rejected --kind closed_book""",
)
def show(
    folder: RunFolder,
    id: Annotated[str | None, typer.Option(help="Of any row, or of its question or bundle.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Of trajectories correct, retrieval …; of bundle questions factual, causal …; of KG episodes policy, "
            "oracle; of graph questions chain, intersection …"
        ),
    ] = None,
    table: Annotated[str, typer.Option(help="Its rows; by default those that the run is for.")] = "",
    tree: Annotated[bool, typer.Option("--tree", help="As --table trees.")] = False,
    bundles: Annotated[bool, typer.Option("--bundles", help="As --table bundle_inputs.")] = False,
    count: Annotated[int, typer.Option(min=1, help="How many.")] = 1,
) -> None:
    """Show rows of a run in the terminal: of its product or of another table, rejected ones too."""
    from trailforge.inspector.terminal import show_rows

    short = "trees" if tree else "bundle_inputs" if bundles else ""
    show_rows(folder, table=table or short, id=id, kind=kind, count=count)


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

    from trailforge.flows.configuration import CONFIGS, datasets_for
    from trailforge.inference.vllm.server import VllmServer, serve
    from trailforge.pipelines.runs.config import server_config
    from trailforge.presets import load_preset

    dataset = datasets_for(preset)[0]
    content = load_preset(preset, dataset)
    config, name = server_config(content, source=f"preset {preset}", record=CONFIGS[dataset])
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
