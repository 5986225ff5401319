"""The three tools of a research agent over pages: search them, open a part of one, and find words in one.

Every source of pages offers these three tools in the same form: a corpus in this process, and a search server. What the
agent asked for and what is not there raises `NoSuchPage`, whose words the agent reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class PageHit:
    """A place in a page that a search found."""

    page: str
    """The id by which the page is opened."""
    title: str
    part: int
    """The part of the page in which the text stands, from 1."""
    text: str
    """A passage of the page, or the words around what was found."""
    score: float = 0.0
    """A search's score, higher is better, rounded to 6 decimals; 0.0 for words found in a page."""
    known_as: str = ""
    """The other name of the page's subject by which the query or the text calls it; empty where neither does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageHits:
    """The result of a search of pages, as a server returns it."""

    hits: tuple[PageHit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WordHits:
    """The places in a page where words occur, as the agent is shown them."""

    hits: tuple[PageHit, ...] = ()
    """Places in the page's order; those that lie close together as one."""
    left: int = 0
    """Number of further places that are not shown."""
    left_parts: tuple[int, ...] = ()
    """The parts of the page in which those further places stand."""
    missing: tuple[str, ...] = ()
    """Words that the places do not have; empty where they have all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePart:
    """One part of a page, as an agent opens it."""

    id: str
    """The id of the page."""
    title: str
    part: int
    """Which part this is, from 1."""
    parts: int
    """How many parts the page has."""
    text: str


class PageTools(Protocol):
    """Search, open and find over a corpus of pages. The same call on the same pages always gives the same result."""

    async def search(self, query: str, top_k: int) -> tuple[PageHit, ...]:
        """Return the best passages, each with its page; fewer than `top_k` where there are not that many.

        At most one is of a part and two are of a page. Passages of pages whose name is in the query come first, the
        others best first.
        """
        ...

    async def open(self, page: str, part: int) -> PagePart:
        """Return one part of a page, counted from 1; 0 opens the first, or the one with the passage whose id is given.
        Raises `NoSuchPage` where there is no such page or part.
        """
        ...

    async def find(self, page: str, text: str) -> WordHits:
        """Return where words occur in a page; there are no hits where they do not. Raises `NoSuchPage` for an unknown
        page.
        """
        ...
