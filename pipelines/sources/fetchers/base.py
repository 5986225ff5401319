"""What every fetcher does, and what they share: checks of a request, and news articles as documents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import date
from typing import Protocol

from trailforge.pipelines.sources.columns import one_line, tidy
from trailforge.retrieval.web.http import canonical_url, site_of
from trailforge.schemas import InvalidInput, SourceDocument


class DocumentFetcher(Protocol):
    """A live source of documents."""

    def fetch(
        self, query: str, *, since: date | None = None, until: date | None = None, limit: int = 100
    ) -> AsyncIterator[SourceDocument]:
        """Up to `limit` documents that the source finds for the query, published from `since` to `until` (included).

        No document comes twice, and none without text. Raises `InvalidInput` for a request that makes no sense or a key
        that is not set, `ServerUnavailable` when the source does not answer, and `ProviderError` when it refuses.
        """
        ...


def check_request(query: str, since: date | None, until: date | None, limit: int) -> str:
    """The query without blanks around it. Raises `InvalidInput` for what no source can answer."""
    if not query.strip():
        raise InvalidInput("empty", field="query")
    if limit < 1:
        raise InvalidInput(f"expected at least 1, found {limit}", field="limit")
    if since is not None and until is not None and since > until:
        raise InvalidInput(f"the window begins on {since} and ends before, on {until}", field="since")
    return query.strip()


def article(*, url: str, title: str, text: str, published: str | None, language: str | None) -> SourceDocument | None:
    """A news article; its source is the site that it stands on. None for one without an address or a text."""
    # JSON may hold halves of surrogate pairs, which UTF-8 cannot.
    url, title, text = (each.encode("utf-8", "replace").decode("utf-8") for each in (url, title, text))
    source, body = site_of(url), tidy(text)
    if not source or not body:
        return None
    return SourceDocument(
        id=f"{source}:{canonical_url(url)}",
        source=source,
        kind="news",
        title=one_line(title),
        text=body,
        url=url.strip(),
        published=published,
        language=language,
    )


def unseen(documents: Iterable[SourceDocument | None], seen: set[str]) -> list[SourceDocument]:
    """The documents whose ids are not in `seen`, which they join."""
    new: list[SourceDocument] = []
    for document in documents:
        if document is not None and document.id not in seen:
            seen.add(document.id)
            new.append(document)
    return new


def is_within(document: SourceDocument, since: date | None, until: date | None) -> bool:
    """Whether its day is in the window; a document of no known day is, as the source was asked for the window."""
    if document.published is None:
        return True
    day = date.fromisoformat(document.published)
    return (since is None or day >= since) and (until is None or day <= until)
