"""A search in all texts of a table, which goes on as long as a person wants it to."""

from __future__ import annotations

from typing import Any

import streamlit as st

from trailforge.pipelines.runs.finished import OpenRun
from trailforge.pipelines.runs.table_index import Found


def searched(run: OpenRun, table: str, words: str, place: Any = st) -> Found:
    """What was found so far; where the table is not searched to its end, a button in `place` says so and goes on."""
    found = run.search(table, words)
    if not found.is_complete:
        place.button(
            f"Search on: {found.searched:,} of {run.size(table):,} rows so far",
            key=f"{table}.search_on", on_click=run.search_on, args=(table, words),
            help="Rows with this text further on are not shown yet.",
        )  # fmt: skip
    return found
