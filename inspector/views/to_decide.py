"""A link from a row in any of the views to the one on which people decide on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

TABLE, ROW = "table", "row"
"""In the page's address: what is shown."""
ARRIVED = "decide.arrived"
"""In the session: the row that the address asked for has been found; what the address says from then on is our own."""
_TO = "page.decide"


def offer(page: Any, tables: Sequence[str]) -> None:
    """To which page the links lead, and for rows of which tables."""
    st.session_state[_TO] = page, frozenset(tables)


def show_link(table: str, uid: str, place: Any = st, *, what: str = "row") -> None:
    """The link, where people decide on rows of this table."""
    page, tables = st.session_state.get(_TO, (None, frozenset()))
    if table in tables:
        place.page_link(
            page, label=f"Decide on this {what}", icon=":material/gavel:", query_params={TABLE: table, ROW: uid},
        )  # fmt: skip
