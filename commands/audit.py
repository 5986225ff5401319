"""`trailforge audit`: find which questions can be answered from a corpus or index, and why others cannot."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trailforge.commands.options import (
    SERVED_MODEL,
    MaxCalls,
    MaxCost,
    MaxTokens,
    ModelServer,
    QuestionColumns,
    Retrieval,
    ServerModel,
    ServerParameters,
    ServerPrices,
    ServerSeed,
    ServerThoughts,
    ThoughtsPlace,
    open_asker,
)
from trailforge.schemas import InvalidInput, check_packages

if TYPE_CHECKING:
    from trailforge.audit import AuditRequest
    from trailforge.pipelines.sources import AuditManifest

AuditedFolder = Annotated[
    Path | None,
    typer.Option(
        "--audited",
        help="Folder of an audit of these questions (`trailforge audit`): leave out what cannot be answered.",
    ),
]
"""The option `--audited` of the commands that ask questions."""
_EPILOG = """Examples:\n
    trailforge audit musique_dev.jsonl indexes/wiki --out audits/musique\n
    trailforge audit worlds/first/questions.jsonl worlds/first/corpus.jsonl --out audits/first\n
    trailforge audit musique_dev.jsonl --paragraphs --model http://127.0.0.1:8000/v1 --out audits/own\n
    trailforge agent-trajectories --questions musique_dev.jsonl --audited audits/musique …\n
    leaves out what cannot be answered, with its reason, before a call is paid; so do the other data sets of\n
    questions, evaluate and train rl."""


def audit(
    questions: Annotated[
        Path, typer.Argument(help="Questions: MuSiQue, HotpotQA, 2Wiki … as published, or yours.", metavar="QUESTIONS")
    ],
    index: Annotated[
        Path | None,
        typer.Argument(help="What is searched: an index, or a file of passages.", metavar="[INDEX]"),
    ] = None,
    paragraphs: Annotated[bool, typer.Option("--paragraphs", help="Search each question's own paragraphs.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder of the audit. Required except with --dry-run.")] = None,
    retrieval: Retrieval = None,
    depth: Annotated[int, typer.Option(min=1, help="Passages that each search is looked through.")] = 20,
    question_format: Annotated[
        str, typer.Option("--format", help="Format of the question file, if its keys do not show it.")
    ] = "auto",
    columns: QuestionColumns = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N rows.")] = None,
    model: Annotated[
        str | None,
        typer.Option(help="URL of a server whose model answers each question from its documents, and without them."),
    ] = None,
    model_name: ServerModel = SERVED_MODEL,
    thoughts: ServerThoughts = ThoughtsPlace.SEPARATE,
    parameters: ServerParameters = "",
    prices: ServerPrices = "",
    seed: ServerSeed = 0,
    max_cost: MaxCost = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only estimate calls, tokens and cost.")] = False,
) -> None:
    """Find out which questions can be answered from what is searched: documents, searches, what is stated."""
    from trailforge.inference import Caps

    if paragraphs == (index is not None):
        raise typer.BadParameter("give an INDEX or --paragraphs, one of them", param_hint="INDEX")
    caps = Caps(max_cost=max_cost, max_calls=max_calls, max_tokens=max_tokens)
    server = ModelServer.of(model, model_name, thoughts, prices, seed=seed, caps=caps, parameters=parameters)
    request = _request(questions, index, retrieval, depth, question_format, columns, limit, server)
    if not dry_run and out is None:
        raise typer.BadParameter("needed, as the folder of the audit", param_hint="--out")
    check_packages(_packages(request, server), "audit")
    if out is None or dry_run:
        _show_estimate(request, server)
        return
    print(_run(request, out, server))
    print(f"In {out}")


def _request(
    questions: Path,
    index: Path | None,
    retrieval: str | None,
    depth: int,
    question_format: str,
    columns: str | None,
    limit: int | None,
    server: ModelServer | None,
) -> AuditRequest:
    from trailforge.audit import AuditRequest
    from trailforge.pipelines.sources.jsonl import parse_columns

    if retrieval is not None and index is not None and index.is_dir():
        raise InvalidInput("an index says by itself how it is searched; leave it out", field="--retrieval")
    return AuditRequest(
        questions=questions,
        searched=index,
        kind=retrieval or "bm25",
        depth=depth,
        question_format=question_format,
        column_map=parse_columns(columns),
        limit=limit,
        model=server.config.name if server else "",
        model_settings=_settings_of(server) if server else {},
    )


def _settings_of(server: ModelServer) -> dict[str, Any]:
    """What decides a model's answers; where it is served, how calls are written and what they cost does not."""
    config = server.config
    return {
        "seed": server.seed,
        "reasoning": config.reasoning,
        "omit": sorted(config.parameters.omit),
        "finish_reasons": config.parameters.finish_reasons,
    }


def _packages(request: AuditRequest, server: ModelServer | None) -> tuple[str, ...]:
    """Modules of extras that the audit imports."""
    from trailforge.retrieval import RetrievalConfig

    is_index = request.searched is not None and request.searched.is_dir()
    searched = RetrievalConfig(kind="" if is_index else request.kind).over(request.searched)
    return ("matplotlib", *searched.packages, *(("openai",) if server else ()))


def _run(request: AuditRequest, out: Path, server: ModelServer | None) -> str:
    from trailforge.audit import audit_questions, describe_request, refuse_other_audit, summarise
    from trailforge.pipelines.engine import exclusive, show_parts

    wanted = describe_request(request)
    refuse_other_audit(out, wanted)  # a stranger's folder gets no lock

    async def work() -> AuditManifest:
        async with open_asker(server, out / "ledger" / "calls.sqlite", run=out.name) as asker:
            return await audit_questions(request, out, wanted, asker, report)

    with exclusive(out), show_parts() as report:
        held = refuse_other_audit(out, wanted)
        return summarise(held or asyncio.run(work()))


def _show_estimate(request: AuditRequest, server: ModelServer | None) -> None:
    from trailforge.audit import EXPECTED_TOKENS, estimate_reading
    from trailforge.inference import Usage

    if server is None:
        print("no model is asked")
        return
    found = asyncio.run(estimate_reading(request))
    usage = Usage(calls=found.calls, prompt_tokens=found.prompt_tokens, completion_tokens=found.calls * EXPECTED_TOKENS)
    cost = f", cost {server.config.prices.cost(usage):,.2f}" if server.has_prices else ""
    print(
        f"{found.questions:,} questions, {found.looked_at:,} looked at: about {usage.calls:,} calls, "
        f"{usage.prompt_tokens:,} prompt tokens and {usage.completion_tokens:,} completion tokens without thoughts"
        f"{cost}; questions that cannot be answered are not asked"
    )


def register(root: typer.Typer) -> None:
    """Add the command `audit`."""
    root.command(epilog=_EPILOG)(audit)
