"""Search the tables of a run, running each search once and continuing it where it ended."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trailforge.pipelines.runs.finished import OpenRun
from trailforge.pipelines.runs.table_index import Found
from trailforge.pipelines.search.alike import nearest_rows
from trailforge.pipelines.search.query import like_of

_MOST_FOUND = 1000
"""Rows that a search comes to before it asks whether to go on."""


def search_rows(run: OpenRun, table: str, words: str) -> Found:
    """Return the first rows that a search finds; for a search with `like`, the nearest first. The search may have ended
    before the table did (`search_on`). Raises what `TableIndex.search` and `nearest_rows` raise.
    """
    return run.once(_key(table, words), lambda: _search(run, table, words, 0, _MOST_FOUND))


def search_on(run: OpenRun, table: str, words: str) -> None:
    """Continue a search from where it ended."""
    so_far = search_rows(run, table, words)
    found = _search(run, table, words, so_far.searched, _MOST_FOUND)
    rows = _in_order(run, table, words, (*so_far.rows, *found.rows))
    run.keep(_key(table, words), Found(rows=rows, searched=found.searched, is_complete=found.is_complete))


def all_rows(run: OpenRun, table: str, words: str) -> tuple[int, ...]:
    """Return all rows that a search finds, however long it takes."""
    return _search(run, table, words, 0, max(run.size(table), 1), math.inf).rows


def _search(run: OpenRun, table: str, words: str, first: int, count: int, seconds: float = 2.0) -> Found:
    near = _near(run, table, words)
    found = run.table(table).search(words, first=first, count=count, seconds=seconds, near=near)
    rows = _in_order(run, table, words, found.rows)
    return Found(rows=rows, searched=found.searched, is_complete=found.is_complete)


def _in_order(run: OpenRun, table: str, words: str, rows: Sequence[int]) -> tuple[int, ...]:
    place = {number: place for place, number in enumerate(_near(run, table, words))}
    return tuple(sorted(rows, key=place.__getitem__) if place else rows)


def _near(run: OpenRun, table: str, words: str) -> Sequence[int]:
    wanted = like_of(words)
    return nearest_rows(run, table, wanted) if wanted else ()


def _key(table: str, words: str) -> tuple[str, ...]:
    return "search", table, words
