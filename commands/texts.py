"""The commands that make data of texts, questions with paragraphs or documents, and what goes before them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trailforge.commands.options import DocumentKind
from trailforge.commands.runs import MadeOf, RunCommand

_TRAJECTORIES = RunCommand(
    dataset="mcts_trajectories",
    preset="msearcher",
    presets="msearcher (production), demo (embedded model)",
    epilog="""Examples:\n
    trailforge mcts-trajectories --preset demo --questions sample_data/musique_style_questions.jsonl --out out/demo\n
    trailforge mcts-trajectories --model http://127.0.0.1:8000/v1 --questions train.jsonl.gz --out out/musique\n
    trailforge mcts-trajectories --dry-run --questions train.jsonl.gz            what it would take\n
    trailforge mcts-trajectories … (the same line again) goes on where it stopped and pays for nothing twice.\n
    trailforge mcts-trajectories … --runner PortableRunner --beam-option job_endpoint=127.0.0.1:8099\n
    The password of a shared ledger comes from TRAILFORGE_LEDGER_PASSWORD.\n
    The key of a hosted model comes from TRAILFORGE_API_KEY (or OPENAI_API_KEY).""",
)


def _trajectories_of(
    questions: Annotated[
        Path,
        typer.Option(help="Questions: MuSiQue, HotpotQA, 2Wiki … as published, FlashRAG's or our JSONL; .gz too."),
    ],
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N valid questions.")] = None,
) -> MadeOf:
    """Turn multi-hop questions into correct and self-reflective search trajectories (MSearcher)."""
    return MadeOf(files=(questions,), limit=limit)


class Origin(StrEnum):
    """Live sources."""

    ARXIV = "arxiv"
    GNEWS = "gnews"
    SERPER = "serper"
    NEWS = "news"


_BUNDLES = RunCommand(
    dataset="document_bundles",
    preset="r-search",
    presets="r-search (production), demo (embedded model)",
    epilog="""Examples:\n
    trailforge document-bundles --preset demo --documents sample_data/documents.jsonl --out out/bundles\n
    trailforge document-bundles --documents news.jsonl.gz --documents arxiv.jsonl.gz --out out/spring\n
    trailforge document-bundles --documents wire.jsonl:kind=news,source=wire --documents posts.csv:kind=general …\n
    trailforge document-bundles --bundles-only --documents news.jsonl.gz --out out/spring   no model, no questions\n
    trailforge document-bundles --documents posts.csv --columns text=body,published=date --source blog …\n
    trailforge document-bundles --benchmark musique.jsonl …     no question of that benchmark comes out\n
    trailforge document-bundles … (the same line again) goes on where it stopped and pays for nothing twice.""",
)


def _bundles_of(
    documents: Annotated[
        list[str],
        typer.Option(
            metavar="FILE[:kind=KIND,source=NAME]",
            help="Documents: JSONL, JSON, CSV, Parquet, RSS or Atom; .gz too. What a file does not say of its "
            "documents stands after it, as news.jsonl:kind=news; source=each: each is a source by itself. Repeatable.",
        ),
    ],
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N valid documents.")] = None,
    columns: Annotated[
        str | None, typer.Option(help="Which column holds what, e.g. text=body,title=headline,published=date.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="Name of the source, over what the files say.")] = None,
    kind: Annotated[DocumentKind | None, typer.Option(help="What the documents are, over what the files say.")] = None,
    benchmark: Annotated[
        list[Path] | None, typer.Option(help="File of questions that must not come out. Repeatable.")
    ] = None,
    bundles_only: Annotated[bool, typer.Option("--bundles-only", help="Stop at the bundles; no model.")] = False,
) -> MadeOf:
    """Turn documents of several sources into bundles, and bundles into multi-hop questions with plans (R-Search)."""
    from trailforge.pipelines.sources.columns import parse_column_map, parse_document_files

    files, labels = parse_document_files(documents)
    options = {
        "column_map": parse_column_map(columns) if columns else None,
        "source": source,
        "kind": None if kind is None else kind.value,
        "labels": labels,
        "benchmarks": benchmark,
        "bundles_only": bundles_only,
    }
    return MadeOf(files=files, limit=limit, options=options)


FETCH_EPILOG = """Examples:\n
    trailforge fetch-documents arxiv "cat:cs.CL AND all:retrieval" --since 2026-08-01 --limit 500 --out arxiv.jsonl\n
    trailforge fetch-documents news "renewable energy" --since 2026-08-01 --out news.jsonl\n
    trailforge document-bundles --documents news.jsonl --documents arxiv.jsonl --out out/autumn\n
    Keys come from GNEWS_API_KEY and SERPER_API_KEY; arXiv needs none."""


def fetch_documents(
    origin: Annotated[Origin, typer.Argument(help="arxiv; gnews; serper; news: GNews, and Serper where it has few.")],
    query: Annotated[str, typer.Argument(help="What to ask for, in the words of that source.")],
    out: Annotated[Path, typer.Option(help="File of documents to write (JSONL), for document-bundles.")],
    since: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="First day of publication.")] = None,
    until: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Last day of publication.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many documents.")] = 100,
) -> None:
    """Fetch documents of a time window from arXiv or from news into a file, for runs to be made of."""
    from trailforge.pipelines.sources.fetchers import fetch_to_file

    first, last = (day.date() if day is not None else None for day in (since, until))
    count = fetch_to_file(origin.value, query, out, since=first, until=last, limit=limit)
    print(f"{count:,} documents in {out}")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    _TRAJECTORIES.add_to(app, _trajectories_of)
    _BUNDLES.add_to(app, _bundles_of)
    app.command("fetch-documents", epilog=FETCH_EPILOG)(fetch_documents)
