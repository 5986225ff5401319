"""Find pages by name: whole documents, or all passages of a corpus with one title joined together."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import Protocol

import numpy as np

from trailforge.retrieval.backends.declaration import MadePassage
from trailforge.retrieval.page_tools import PageHit
from trailforge.retrieval.pages.cutting import Paging, place_of
from trailforge.retrieval.pages.text import PART_WORDS, OpenedPage, folded
from trailforge.retrieval.words import COMMON_WORDS
from trailforge.schemas import Document, NoSuchPage, Passage

_MOST_PASSAGES = 1000
"""Of one title."""
_MOST_NAMED = 5
"""Pages of one title that a message names."""
_BETWEEN = "\n\n"
_LONGEST_NAME = 200
_MOST_OF_PAGE = 2
"""Passages of one page that a search shows; of one part it shows one."""
_DEPTH = 10
"""Passages that are looked at for one that is shown; four times as many where they are of too few pages."""
_FEWEST_LOOKED_AT, _MOST_LOOKED_AT = 50, 1000
_OPENING = 400
"""Characters at the beginning of a page in which its subject's other names stand."""
_KNOWN_AS = re.compile(r"\b(?:also|better|formerly) (?:known|called) as ([^,.;()\n]{1,200})")
_MOST_COMPARED = 1000
"""Titles that are compared with a name that none has."""


class Pages(Protocol):
    """Finds pages by the id of a page or of a passage in it, or by title."""

    def find(self, name: str, words: int | None = None) -> OpenedPage:
        """Return the page with this name, in parts of at most `words` words, by default as many as the corpus says.

        The first call reads all ids and titles, which takes seconds for a million: call it in a thread. Raises
        `NoSuchPage`.
        """
        ...

    def place(self, passage: str) -> tuple[str, int] | None:
        """Return the page and the part that contain a passage of the corpus, by ids; None where no page does."""
        ...

    def beginning(self, passage: str) -> str:
        """Return the first few hundred characters of the page that contains a passage; empty where no page does."""
        ...


class JoinedPages:
    """The `Pages` of a corpus of passages, in which a page is all passages with one title."""

    def __init__(self, passages: Sequence[Document]) -> None:
        self._passages, self._names = passages, _Names(passages)

    def find(self, name: str, words: int | None = None) -> OpenedPage:
        """Return the page with this name, as `Pages.find` does. A passage opens the part in which it begins."""
        found = self._names.row_of(name)
        title = folded(name if found is None else self._passages[found].title)
        rows = self._names.rows_titled(title)[:_MOST_PASSAGES]
        if found is not None and (not title or found not in rows):
            rows = [found]
        if not rows or (found is None and not title):
            raise self._names.no_page(name)
        texts = {row: self._passages[row].text for row in rows}
        opened = rows[0] if found is None else found
        start = sum(len(text) + len(_BETWEEN) for row, text in texts.items() if row < opened)
        page = self._passages[opened]
        return OpenedPage(page.id, page.title, _BETWEEN.join(texts.values()), words or PART_WORDS, start)

    def place(self, passage: str) -> tuple[str, int] | None:
        """Return the page and part of a passage, as `Pages.place` does. The page's id is that of the passage."""
        if self._names.row_of(passage) is None:
            return None
        page = self.find(passage)
        return page.id, page.part_at(page.start)

    def beginning(self, passage: str) -> str:
        """Return the beginning of a passage's page, as `Pages.beginning` does."""
        row = self._names.row_of(passage)
        if row is None:
            return ""
        title = folded(self._passages[row].title)
        first = next(iter(self._names.rows_titled(title)), row) if title else row
        return self._passages[first].text[:_OPENING]


class WholePages:
    """The `Pages` of a corpus of whole documents."""

    def __init__(self, documents: Sequence[Document], paging: Paging) -> None:
        self._documents, self._paging, self._names = documents, paging, _Names(documents)

    def find(self, name: str, words: int | None = None) -> OpenedPage:
        """Return the page with this name, as `Pages.find` does. A passage opens its part. Raises `NoSuchPage` also for
        a title that several pages have.
        """
        row, part = self._names.row_of(name), 1
        if row is None and (place := place_of(name)) is not None:
            row, part = self._names.row_of(place[0]), place[1]
        if row is None:
            row = self._row_titled(name)
        page = self._documents[row]
        whole = OpenedPage(page.id, page.title, page.text, self._paging.words)
        if part == 1 and words in (None, whole.words):
            return whole  # which is cut once
        if part > whole.parts:
            raise NoSuchPage(f"there is no part {part}: the page {whole.name!r} has {whole.parts} parts")
        return OpenedPage(page.id, page.title, page.text, words or self._paging.words, whole.starts[part - 1])

    def place(self, passage: str) -> tuple[str, int] | None:
        """Return the page and part of a passage, as `Pages.place` does. A page's own id is placed at its beginning."""
        place = self._place(passage)
        return None if place is None else (self._documents[place[0]].id, place[1])

    def beginning(self, passage: str) -> str:
        """Return the beginning of a passage's page, as `Pages.beginning` does."""
        place = self._place(passage)
        return "" if place is None else self._documents[place[0]].text[:_OPENING]

    def _place(self, passage: str) -> tuple[int, int] | None:
        """Row of the page, and part."""
        if (row := self._names.row_of(passage)) is not None:
            return row, 1
        place = place_of(passage)
        row = None if place is None else self._names.row_of(place[0])
        return None if place is None or row is None else (row, place[1])

    def _row_titled(self, name: str) -> int:
        title = folded(name)
        rows = self._names.rows_titled(title) if title else []
        if not rows:
            raise self._names.no_page(name)
        if len(rows) > 1:
            ids = ", ".join(repr(self._documents[row].id[:_LONGEST_NAME]) for row in rows[:_MOST_NAMED])
            more = " …" if len(rows) > _MOST_NAMED else ""
            raise NoSuchPage(f"{len(rows)} pages are called {name[:_LONGEST_NAME]!r}: open one by its id, {ids}{more}")
        return rows[0]


def hits_of(found: Iterable[Passage], pages: Pages | None) -> list[PageHit]:
    """Return passages with their pages. A passage made from several documents, such as a summary, is placed at the
    first of them. With `pages` None each passage is a page by itself, as those of the web are.
    """
    hits: list[PageHit] = []
    for passage in found:
        page, part = (pages.place(passage.id) if pages else None) or (passage.id, 1)
        if pages and isinstance(passage, MadePassage):
            found_in = filter(None, (pages.place(source) for source, _ in passage.sources))
            page, part = next(found_in, (page, part))[0], 1
        hits.append(PageHit(page=page, title=passage.title, part=part, text=passage.text, score=passage.score))
    return hits


async def search_pages(
    retrieve: Callable[[str, int], Awaitable[Sequence[Passage]]], pages: Pages | None, query: str, k: int
) -> list[PageHit]:
    """Return the best `k` passages with their pages: at most one of a part and two of a page, so that deeper ranks are
    shown.

    The best passage of a page comes first where the query contains the page's title or another known name. `retrieve`
    does what `Retriever.retrieve` does. With `pages` None, as for the web, results are returned as they are ranked.
    """
    if pages is None or k < 1:
        return hits_of(await retrieve(query, k), None)
    depth = max(k, min(_MOST_LOOKED_AT, max(_FEWEST_LOOKED_AT, _DEPTH * k)))
    while True:
        found = await retrieve(query, depth)
        shown = await asyncio.to_thread(_spread, found, pages, query, k)
        if len(shown) >= k or len(found) < depth or depth >= _MOST_LOOKED_AT:
            return shown
        depth = min(_MOST_LOOKED_AT, 4 * depth)


def _spread(found: Sequence[Passage], pages: Pages, query: str, k: int) -> list[PageHit]:
    """The first `k` hits of as many pages as there are, those of pages that the query names before the others."""
    of_page, parts, hits = Counter[str](), set[tuple[str, int]](), list[PageHit]()
    of_source: dict[str, tuple[str, ...]] = {}
    names: list[tuple[str, ...]] = []
    for passage in found:
        source = passage.id.rpartition("#")[0] or passage.id  # passages of one document have one beginning
        if source not in of_source:
            of_source[source] = _other_names(pages.beginning(passage.id))
        names.append((passage.title, *of_source[source]))
    is_named = cache(lambda name: _has_name(query, name))  # the same page comes again and again
    asked = [max((len(name) for name in each if is_named(name)), default=0) for each in names]
    first = [place for place in sorted(range(len(found)), key=lambda place: -asked[place]) if asked[place]]
    for number, place in enumerate((*first, *range(len(found)))):
        if len(hits) >= k:
            break
        (hit,) = hits_of([found[place]], pages)
        most = 1 if number < len(first) else _MOST_OF_PAGE
        if of_page[hit.page] < most and (hit.page, hit.part) not in parts:
            of_page[hit.page] += 1
            parts.add((hit.page, hit.part))
            others = (name for name in names[place][1:] if is_named(name) or _has_name(hit.text, name))
            hits.append(replace(hit, known_as=next(others, "")))
    return hits


def _other_names(beginning: str) -> tuple[str, ...]:
    """Other names of a page's subject, as the page's beginning says them: `also known as Fobi or Roseos`."""
    said = _KNOWN_AS.search(beginning)
    return tuple(name.strip() for name in said[1].split(" or ") if name.strip()) if said else ()


def _has_name(text: str, name: str) -> bool:
    """Does a text have a name word by word? A name of one word needs its capital there, unless it is all of the text:
    `birth` in a query does not ask for a page of this title.
    """
    wanted = folded(name)
    if not wanted or (" " not in wanted and wanted in COMMON_WORDS):
        return bool(wanted) and wanted == folded(text)
    plain = folded(text)
    if wanted not in plain or re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", plain) is None:
        return False
    is_written_so = re.search(rf"(?<!\w){re.escape(name.strip())}(?!\w)", text) is not None and not name.islower()
    return " " in wanted or wanted == folded(text) or is_written_so


class _Names:
    """Rows of documents by id and by title."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents
        self._lock = threading.Lock()

    def row_of(self, key: str) -> int | None:
        """The row of the document with this id."""
        with self._lock:
            ids, _, _ = self._by_name
        return next((row for row in ids.rows(key) if self._documents[row].id == key), None)

    def rows_titled(self, title: str) -> list[int]:
        """The rows of documents with this folded title, rising."""
        with self._lock:
            _, titles, _ = self._by_name
        return [row for row in titles.rows(title) if folded(self._documents[row].title) == title]

    def no_page(self, name: str) -> NoSuchPage:
        """Say that no page has this id or title, and which titles begin alike."""
        wanted = folded(name[:_LONGEST_NAME])
        with self._lock:
            rows = self._by_name[2].rows(_first_word(wanted))[:_MOST_COMPARED] if wanted else []
        titles = {title: folded(title) for title in (self._documents[row].title for row in rows)}
        alike = [title for title in titles if _first_word(titles[title]) == _first_word(wanted)]
        alike.sort(key=lambda title: (-_alike(titles[title], wanted), len(title), title))
        said = ", ".join(repr(title[:_LONGEST_NAME]) for title in alike[:_MOST_NAMED])
        mend = f"titles that begin alike: {said}" if said else "search for it: its page may have another title"
        return NoSuchPage(f"no page has the id or the title {name[:_LONGEST_NAME]!r}; {mend}")

    @cached_property
    def _by_name(self) -> tuple[_Rows, _Rows, _Rows]:
        """By id, by title, and by the first word of the title."""
        hashes = np.empty((3, len(self._documents)), np.int64)
        for row, document in enumerate(self._documents):
            title = folded(document.title)
            hashes[:, row] = hash(document.id), hash(title), hash(_first_word(title))
        return _Rows(hashes[0]), _Rows(hashes[1]), _Rows(hashes[2])


def _alike(one: str, other: str) -> int:
    """Characters at the beginning that two texts have in common."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _first_word(title: str) -> str:
    return title.partition(" ")[0]


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
