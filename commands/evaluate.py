"""`trailforge evaluate`: run agents over back ends on questions, as a grid that can be resumed."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trailforge.commands.audit import AuditedFolder
from trailforge.commands.options import (
    FilterModel,
    KgFilterOption,
    MaxCalls,
    MaxCost,
    MaxTokens,
    PassagePrefix,
    QueryPrefix,
    QuestionColumns,
    ServerPrices,
    check_cost_cap,
    documents_of,
    read_prices,
)
from trailforge.schemas import InvalidInput, RejectedRow, check_packages, visible

if TYPE_CHECKING:
    from trailforge.evaluation import (
        BackendSource,
        Corpora,
        Evaluation,
        EvaluationConfig,
        EvaluationGrid,
        GridModel,
        IndexWriter,
        QuestionSet,
    )
    from trailforge.inference import Caps

PACKAGED = "smollm2"  # `training.weights.PACKAGED`, which a look at `--help` does not load


@dataclasses.dataclass(frozen=True, slots=True)
class _Request:
    """What is to be evaluated, checked."""

    evaluation: Evaluation
    """Without its back ends, whose content is known once they are built."""
    config: EvaluationConfig
    corpora: Corpora
    caps: Caps
    aside: tuple[RejectedRow, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """Which model, where."""

    name: str
    url: str = ""
    """Of a server, or the name of one that is started here (`inference.packaged.open_server`)."""
    checkpoint: str = ""
    """Folder of a model that is loaded here."""


_Questions = Annotated[
    Path,
    typer.Argument(
        help="Questions: MuSiQue, HotpotQA, 2Wiki … as published, FlashRAG's or our JSONL; .gz too. Or a training set: "
        "its held-out ones.",
        metavar="QUESTIONS",
    ),
]
_Out = Annotated[Path, typer.Option(help="Folder of the evaluation.")]
_Agents = Annotated[
    list[str],
    typer.Option(
        "--agent", help="single_shot, search_o1, graph_search, browse, or a protocol. Repeatable.", metavar="NAME"
    ),
]
_Backends = Annotated[
    list[str],
    typer.Option(
        "--backend",
        help="A back end, built over the questions' paragraphs; NAME=FOLDER of an index; NAME=URL of a server; web. "
        "Repeatable.",
        metavar="NAME[=PLACE]",
    ),
]
_Model = Annotated[
    str | None,
    typer.Option(
        help="URL of an OpenAI-compatible server, 'embedded', a folder with a checkpoint, or 'smollm2'. Default: the "
        "preset's."
    ),
]
_ModelName = Annotated[str | None, typer.Option(help="Model as the server calls it. Default: the preset's.")]
_Seeds = Annotated[str, typer.Option(help="Sampling seeds, comma-separated.")]
_Limit = Annotated[int | None, typer.Option(min=1, help="Only the first N valid questions.")]
_Format = Annotated[str, typer.Option("--format", help="Format of the question file, if its keys do not show it.")]
_TopK = Annotated[int | None, typer.Option(min=1, help="Passages per search. Default: the preset's.")]
_ContextTokens = Annotated[int | None, typer.Option(min=1, help="As many passages per search as fit into N tokens.")]
_Tokenizer = Annotated[
    str | None,
    typer.Option(help="Folder or name. Default: the model's for --context-tokens, else tokens are estimated."),
]
_Documents = Annotated[
    Path | None,
    typer.Option(help="Corpus to build back ends over instead of the paragraphs: passages, a question file, or a run."),
]
_Kg = Annotated[
    str | None,
    typer.Option(help="For agents that search a graph: folder that `kg build` made, or URL of a `serve-search --kg`."),
]
_Encoder = Annotated[
    str | None, typer.Option(help="Encoder of back ends that are built: minilm, a name or path, or URL#MODEL.")
]
_Judge = Annotated[str | None, typer.Option(help="Model that judges whether answers are right.", metavar="URL#MODEL")]
_BuildModel = Annotated[
    str | None,
    typer.Option(
        help="Model asked by back ends that ask one, built and searched. Default: the preset's, else the evaluated.",
        metavar="URL#MODEL",
    ),
]
_Preset = Annotated[
    str, typer.Option(help="ragsearch, browse (a research agent), demo (embedded model), or a YAML file.")
]
_Prompt = Annotated[
    Literal["ours", "published"], typer.Option(help="Prompts of agents: ours, or those of their papers.")
]
_Redo = Annotated[Literal["refused"] | None, typer.Option(help="Ask again for prompts that the server refused.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Only list what would be run.")]


def evaluate(
    questions: _Questions,
    out: _Out,
    agents: _Agents,
    backends: _Backends,
    model: _Model = None,
    model_name: _ModelName = None,
    seeds: _Seeds = "0",
    limit: _Limit = None,
    audited: AuditedFolder = None,
    question_format: _Format = "auto",
    columns: QuestionColumns = None,
    top_k: _TopK = None,
    context_tokens: _ContextTokens = None,
    tokenizer: _Tokenizer = None,
    documents: _Documents = None,
    kg: _Kg = None,
    kg_filter: KgFilterOption = None,
    filter_model: FilterModel = None,
    encoder: _Encoder = None,
    query_prefix: QueryPrefix = None,
    passage_prefix: PassagePrefix = None,
    judge: _Judge = None,
    build_model: _BuildModel = None,
    preset: _Preset = "ragsearch",
    prompt: _Prompt = "ours",
    prices: ServerPrices = "",
    max_cost: MaxCost = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    redo: _Redo = None,
    dry_run: _DryRun = False,
) -> None:
    """Run every agent over every back end with every seed on the same questions, and write a report."""
    from trailforge.evaluation import (
        check_places,
        choose_agents,
        choose_writer,
        describe_evaluation,
        packages_of,
        read_evaluation_config,
        read_sources,
    )

    config = read_evaluation_config(preset)
    searched = config.retrieval.with_encoder(encoder, query_prefix, passage_prefix).filtered_by(kg_filter, filter_model)
    config = _configure(dataclasses.replace(config, retrieval=searched), top_k, judge, prices)
    caps = _read_caps(config, max_cost, max_calls, max_tokens)
    chosen, numbers = choose_agents(agents, config.agents, prompt, has_graph=kg is not None), _read_seeds(seeds)
    check_places(documents, kg)
    served, sources = _served(config, model, model_name), read_sources(backends, config.backends)
    config = config.counted_by(tokenizer, context_tokens, served.checkpoint or served.name)
    if not dry_run:
        check_packages(packages_of(sources, config.retrieval, kg), "evaluate")
    asked, aside = _read_questions(questions, question_format, columns, limit, audited)
    writer = choose_writer(build_model, config.builder, config.model, (served.url, served.name), out, caps)
    corpora = _corpora(config, sources, asked, out, documents, kg, writer, counts=not dry_run)
    evaluation = describe_evaluation(asked, config, corpora, chosen, served.name, numbers)
    request = _Request(evaluation, config, corpora, caps, tuple(aside))
    return _show_plan(request) if dry_run else _run(request, served, out, redo_refused=redo is not None)


def _show_plan(request: _Request) -> None:
    from trailforge.flows import show_evaluation

    show_evaluation(request.evaluation, request.corpora, request.config.model, request.caps)


def _corpora(
    config: EvaluationConfig,
    sources: list[BackendSource],
    asked: QuestionSet,
    out: Path,
    documents: Path | None,
    kg: str | None,
    writer: IndexWriter | None,
    *,
    counts: bool,
) -> Corpora:
    """What is searched, checked. Without `counts` no tokenizer is loaded."""
    from trailforge.evaluation import Corpora
    from trailforge.evaluation.agents import open_tokenizer

    corpora = Corpora(
        folder=out,
        sources=sources,
        questions=asked.questions,
        documents=documents,
        read=documents_of,
        search=config.retrieval,
        kg=kg,
        top_k=config.top_k,
        context_tokens=config.context_tokens,
        count=open_tokenizer(config.tokenizer if counts else ""),
        writer=writer,
    )
    corpora.check()
    return corpora


def _run(request: _Request, served: _Served, out: Path, *, redo_refused: bool) -> None:
    """Claim the folder, build what is searched, run what is missing, report."""
    from trailforge.evaluation import check_same, claim_folder, forget_refused, plan_grid
    from trailforge.inspector import report_evaluation
    from trailforge.pipelines.engine import exclusive, show_parts
    from trailforge.pipelines.sources import write_set_aside

    async def work(grid: EvaluationGrid) -> None:
        async with _open_model(request, served, out) as model, request.corpora.asking() as corpora:
            await dataclasses.replace(grid, open=corpora.open).run(model)

    check_same(out, request.evaluation)  # a stranger's folder gets no lock
    with exclusive(out):
        claim_folder(out, request.evaluation)
        write_set_aside(out, request.aside)
        with show_parts() as report:
            choices = request.corpora.prepare(report)
        wanted = dataclasses.replace(request.evaluation, backends=choices)
        grid = plan_grid(wanted, claim_folder(out, wanted), request.corpora, request.config)
        if redo_refused:
            typer.echo(f"asking again for the refused prompts of {forget_refused(out):,} episodes", err=True)
        if grid.missing:
            asyncio.run(work(grid))
        report_evaluation(out)


@contextlib.asynccontextmanager
async def _open_model(request: _Request, served: _Served, out: Path) -> AsyncIterator[GridModel]:
    """Who is asked, with the ledger of the folder; fails at once where a server is not there."""
    from trailforge.evaluation import GridModel
    from trailforge.inference import ClientConfig, ModelClient
    from trailforge.inference.judge import Judge, read_rubric
    from trailforge.inference.ledgers import ledger_url, open_ledger
    from trailforge.inference.packaged import open_server
    from trailforge.pipelines import LEDGER

    async def client_of(settings: ClientConfig) -> ModelClient:
        client = ModelClient(settings, open_ledger(ledger_url(""), out / LEDGER, run=out.name))
        closing.push_async_callback(client.aclose)
        await client.check()
        return client

    config = request.config
    async with contextlib.AsyncExitStack() as closing:
        judge, caps = None, dataclasses.replace(request.caps, max_cost=None)  # whose prices are not known
        if config.judge is not None:
            judge = Judge(
                client=await client_of(dataclasses.replace(config.judge.client, caps=caps)),
                model=config.judge.model,
                rubric=read_rubric(config.judge),
                max_tokens=config.judge.max_tokens,
            )
        if served.checkpoint:
            from trailforge.training import open_checkpoint

            client = open_checkpoint(served.checkpoint, open_ledger(ledger_url(""), out / LEDGER, run=out.name))
            closing.push_async_callback(client.aclose)
        else:
            url = closing.enter_context(open_server(served.url))
            asked, writer = dataclasses.replace(config.model, url=url, name=served.name), request.corpora.writer
            client = await client_of(asked.client(request.caps, writer.capped_at if writer else None))
        yield GridModel(
            name=served.name,
            client=client,
            style=config.style,
            judge=judge,
            figures=lambda: client.figures,
            served=client if isinstance(client, ModelClient) else None,
            count=request.corpora.count,
        )


# What was asked for


def _configure(config: EvaluationConfig, top_k: int | None, judge: str | None, prices: str) -> EvaluationConfig:
    """A preset with what was said in its place."""
    from trailforge.inference.judge import JudgeConfig
    from trailforge.inference.provider import check_server_url

    config = dataclasses.replace(config, top_k=config.top_k if top_k is None else top_k)
    if judge is not None:
        check_server_url(judge, "--judge")
        url, _, name = judge.partition("#")
        if "://" not in url or not name:
            raise typer.BadParameter(f"{judge!r}: expected URL#MODEL", param_hint="--judge")
        usual = config.judge or JudgeConfig(url=url, model=name)
        config = dataclasses.replace(config, judge=dataclasses.replace(usual, url=url, model=name))
    if prices:
        config = dataclasses.replace(config, model=dataclasses.replace(config.model, **read_prices(prices)))
    return config


def _served(config: EvaluationConfig, model: str | None, model_name: str | None) -> _Served:
    from trailforge.inference.provider import check_server_url

    url = model or config.model.url
    check_server_url(url, "--model")
    if "://" in url:
        return _Served(name=model_name or config.model.name, url=url)
    from trailforge.inference.packaged import SERVERS, SMOLLM2
    from trailforge.schemas import installed_plugins

    if url in (servers := installed_plugins(SERVERS)):
        return _Served(name=SMOLLM2.name, url=url)
    if not (url == PACKAGED or Path(url).is_dir()):
        known = ", ".join([*servers, PACKAGED])
        raise InvalidInput(f"{url!r} is no URL, no folder with a checkpoint, and none of {known}", field="--model")
    from trailforge.evaluation import hash_place
    from trailforge.training import base_model

    folder = base_model(url)
    return _Served(name=f"{url.rstrip('/')}@{hash_place(Path(folder))[:8]}", checkpoint=folder)


def _read_questions(
    source: Path, question_format: str, columns: str | None, limit: int | None, audited: Path | None
) -> tuple[QuestionSet, list[RejectedRow]]:
    """Of a file, or of a training set, which is as its manifest says; and those that an audit sets aside."""
    from trailforge.evaluation import QuestionSet, hash_place, read_asked, set_aside
    from trailforge.pipelines.sources.jsonl import parse_columns

    if not source.is_dir():
        asked = read_asked(source, question_format, limit, parse_columns(columns))
        if asked.problem:
            typer.echo(visible(asked.problem), err=True)
        return set_aside(asked, audited)
    from trailforge.training.sets import held_out_questions

    held_out = held_out_questions(source)[:limit]
    return set_aside(QuestionSet(name=source.name, sha256=hash_place(source), questions=held_out), audited)


def _read_seeds(text: str) -> list[int]:
    try:
        return list(dict.fromkeys(int(each) for each in text.split(",")))
    except ValueError:
        raise typer.BadParameter(f"{text!r}: expected whole numbers, as 0,1,2", param_hint="--seeds") from None


def _read_caps(config: EvaluationConfig, max_cost: float | None, max_calls: int | None, max_tokens: int | None) -> Caps:
    from trailforge.inference import Caps, Prices

    check_cost_cap(max_cost, config.model.prices != Prices())
    return Caps(max_cost=max_cost, max_calls=max_calls, max_tokens=max_tokens)


_EPILOG = """Examples:\n
    trailforge evaluate musique_dev.jsonl --limit 500 --agent search_o1 --agent react --backend dense \\\n
        --backend bm25 --model http://127.0.0.1:8000/v1 --seeds 0,1,2 --out evaluations/musique\n
    trailforge evaluate nq.jsonl --agent search_r1 --prompt published --backend wiki=indexes/wiki \\\n
        --backend live=http://10.0.0.7:8080 --model trained/rl/model --out evaluations/nq\n
    trailforge evaluate sample_data/musique_style_questions.jsonl --preset demo --agent react --backend bm25 \\\n
        --out out/tried                                            the embedded model\n
    The same line again goes on where it stopped and pays for nothing twice; other agents, back ends, models and seeds\n
    may be added to a folder."""


def register(root: typer.Typer) -> None:
    """Add the command `evaluate`."""
    root.command(epilog=_EPILOG)(evaluate)
