"""Pages by name: documents that are pages, or all passages of a corpus under one title joined to one."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from trailforge.retrieval.backends.declaration import MadePassage
from trailforge.retrieval.page_tools import PageHit
from trailforge.retrieval.pages.cutting import Paging, place_of
from trailforge.retrieval.pages.text import PART_WORDS, OpenedPage, folded
from trailforge.schemas import Document, NoSuchPage, Passage

_MOST_PASSAGES = 1000
"""Of one title."""
_MOST_NAMED = 5
"""Pages of one title that a message names."""
_BETWEEN = "\n\n"
_LONGEST_NAME = 200


class Pages(Protocol):
    """Finds pages by the id of a passage or of the page, or by title."""

    def find(self, name: str, words: int | None = None) -> OpenedPage:
        """The page of this name, in parts of at most so many words; None: as many as the corpus says.

        The first call reads all ids and titles: seconds for a million, so call it in a thread. Raises `NoSuchPage`.
        """
        ...

    def place(self, passage: str) -> tuple[str, int] | None:
        """The page and the part in which a passage of the corpus stands, by ids; None where it stands in no page."""
        ...


class JoinedPages:
    """The `Pages` of a corpus of passages: a page is all passages of one title."""

    def __init__(self, passages: Sequence[Document]) -> None:
        self._passages, self._names = passages, _Names(passages)

    def find(self, name: str, words: int | None = None) -> OpenedPage:
        """See `Pages`. A passage opens the part in which it begins."""
        found = self._names.row_of(name)
        title = folded(name if found is None else self._passages[found].title)
        rows = self._names.rows_titled(title)[:_MOST_PASSAGES]
        if found is not None and (not title or found not in rows):
            rows = [found]
        if not rows or (found is None and not title):
            raise _no_page(name)
        texts = {row: self._passages[row].text for row in rows}
        opened = rows[0] if found is None else found
        start = sum(len(text) + len(_BETWEEN) for row, text in texts.items() if row < opened)
        page = self._passages[opened]
        return OpenedPage(page.id, page.title, _BETWEEN.join(texts.values()), words or PART_WORDS, start)

    def place(self, passage: str) -> tuple[str, int] | None:
        """See `Pages`. The page goes by the passage's id."""
        if self._names.row_of(passage) is None:
            return None
        page = self.find(passage)
        return page.id, page.part_at(page.start)


class WholePages:
    """The `Pages` of a corpus of whole documents."""

    def __init__(self, documents: Sequence[Document], paging: Paging) -> None:
        self._documents, self._paging, self._names = documents, paging, _Names(documents)

    def find(self, name: str, words: int | None = None) -> OpenedPage:
        """See `Pages`. A passage opens its part. Raises `NoSuchPage` for a title of several pages, too."""
        row, part = self._names.row_of(name), 1
        if row is None and (place := place_of(name)) is not None:
            row, part = self._names.row_of(place[0]), place[1]
        if row is None:
            row = self._row_titled(name)
        page = self._documents[row]
        whole = OpenedPage(page.id, page.title, page.text, self._paging.words)
        if part > whole.parts:
            raise _no_page(name)
        return OpenedPage(page.id, page.title, page.text, words or self._paging.words, whole.starts[part - 1])

    def place(self, passage: str) -> tuple[str, int] | None:
        """See `Pages`. A page is where it begins."""
        place = (passage, 1) if self._names.row_of(passage) is not None else place_of(passage)
        return place if place and self._names.row_of(place[0]) is not None else None

    def _row_titled(self, name: str) -> int:
        title = folded(name)
        rows = self._names.rows_titled(title) if title else []
        if not rows:
            raise _no_page(name)
        if len(rows) > 1:
            ids = ", ".join(repr(self._documents[row].id[:_LONGEST_NAME]) for row in rows[:_MOST_NAMED])
            more = " …" if len(rows) > _MOST_NAMED else ""
            raise NoSuchPage(f"{len(rows)} pages are called {name[:_LONGEST_NAME]!r}: open one by its id, {ids}{more}")
        return rows[0]


def hits_of(found: Iterable[Passage], pages: Pages | None) -> list[PageHit]:
    """Passages with their pages. What was made from several documents, as a summary, stands at the first of them.

    `pages`: None: each is a page by itself, as those of the web are.
    """
    hits: list[PageHit] = []
    for passage in found:
        page, part = (pages.place(passage.id) if pages else None) or (passage.id, 1)
        if pages and isinstance(passage, MadePassage):
            found_in = filter(None, (pages.place(source) for source, _ in passage.sources))
            page, part = next(found_in, (page, part))[0], 1
        hits.append(PageHit(page=page, title=passage.title, part=part, text=passage.text, score=passage.score))
    return hits


def _no_page(name: str) -> NoSuchPage:
    return NoSuchPage(f"there is no page {name[:_LONGEST_NAME]!r}, neither by id nor by title")


class _Names:
    """Rows of documents by id and by title."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents
        self._lock = threading.Lock()

    def row_of(self, key: str) -> int | None:
        """The row of the document with this id."""
        with self._lock:
            ids, _ = self._by_name
        return next((row for row in ids.rows(key) if self._documents[row].id == key), None)

    def rows_titled(self, title: str) -> list[int]:
        """The rows of documents with this folded title, rising."""
        with self._lock:
            _, titles = self._by_name
        return [row for row in titles.rows(title) if folded(self._documents[row].title) == title]

    @cached_property
    def _by_name(self) -> tuple[_Rows, _Rows]:
        """By id and by title."""
        hashes = np.empty((2, len(self._documents)), np.int64)
        for row, document in enumerate(self._documents):
            hashes[:, row] = hash(document.id), hash(folded(document.title))
        return _Rows(hashes[0]), _Rows(hashes[1])


class _Rows:
    """Rows by the hash of a text: 12 bytes a row, whatever the texts' length."""

    def __init__(self, hashes: np.ndarray) -> None:
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._rows = hashes[order], order.astype(np.int32)

    def rows(self, text: str) -> list[int]:
        """Those that may be of this text, rising."""
        wanted = np.int64(hash(text))
        first, last = (int(np.searchsorted(self._hashes, wanted, side)) for side in ("left", "right"))
        return self._rows[first:last].tolist()
