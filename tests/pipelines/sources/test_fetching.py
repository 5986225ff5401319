"""Documents of live sources into a file that a run can be made of; the sources themselves: tests/pipelines/sources."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

import pytest

from trailforge.pipelines.sources import fetchers
from trailforge.pipelines.sources.documents import read_documents
from trailforge.pipelines.sources.fetchers import fetch_to_file
from trailforge.schemas import InvalidInput, OutputError, ServerUnavailable, SourceDocument

DOCUMENTS = [
    SourceDocument(id=f"site.org:{n}", source="site.org", kind="news", title=f"Title {n}", text="Ü text", published=day)
    for n, day in enumerate(["2026-08-01", None])
]


class FakeFetcher:
    """Stands for a live source: gives documents, then perhaps fails."""

    def __init__(self, documents: list[SourceDocument], *, fails: bool = False) -> None:
        self.documents, self.fails, self.asked = documents, fails, ()

    async def fetch(
        self, query: str, *, since: date | None = None, until: date | None = None, limit: int = 100
    ) -> AsyncIterator[SourceDocument]:
        self.asked = (query, since, until, limit)
        for document in self.documents:
            yield document
        if self.fails:
            raise ServerUnavailable("arXiv does not answer")


def test_what_is_fetched_is_read_again_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetcher = FakeFetcher(DOCUMENTS)
    monkeypatch.setattr(fetchers, "FETCHERS", {"news": lambda: fetcher})
    out, since = tmp_path / "news.jsonl", date(2026, 8, 1)
    assert fetch_to_file("news", "energy", out, since=since, limit=7) == 2
    assert fetcher.asked == ("energy", since, None, 7)
    assert list(read_documents([out])) == DOCUMENTS


def test_a_source_that_fails_half_way_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetchers, "FETCHERS", {"arxiv": lambda: FakeFetcher(DOCUMENTS, fails=True)})
    with pytest.raises(ServerUnavailable):
        fetch_to_file("arxiv", "x", tmp_path / "a.jsonl")
    assert not list(tmp_path.iterdir())


def test_nothing_found_is_said_and_a_file_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetchers, "FETCHERS", {"news": lambda: FakeFetcher([])})
    with pytest.raises(InvalidInput, match="news finds nothing for 'x'"):
        fetch_to_file("news", "x", tmp_path / "a.jsonl")
    taken = tmp_path / "b.jsonl"
    taken.write_text("mine")
    with pytest.raises(OutputError, match="exists"):
        fetch_to_file("news", "x", taken)
    assert taken.read_text() == "mine"
