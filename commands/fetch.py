"""`trailforge fetch-documents`: documents from arXiv or news, as input for runs."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Origin(StrEnum):
    """Live sources."""

    ARXIV = "arxiv"
    GNEWS = "gnews"
    SERPER = "serper"
    NEWS = "news"


FETCH_EPILOG = """Examples:\n
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
    from trailforge.pipelines.sources.fetchers import fetch_to_file

    first, last = (day.date() if day is not None else None for day in (since, until))
    count = fetch_to_file(origin.value, query, out, since=first, until=last, limit=limit)
    print(f"{count:,} documents in {out}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fetch-documents", epilog=FETCH_EPILOG)(fetch_documents)
