"""Parts of a row under tabs. The part that was open stays open when a person goes to the next row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import streamlit as st


class Tab(NamedTuple):
    """A part of a row."""

    title: str
    show: Callable[[], None]


def show_tabs(tabs: Sequence[Tab], uid: str, table: str) -> None:
    """Only the open part is made: a drawing or a long conversation costs nothing until it is wanted."""
    key, kept = f"{uid}.{table}.tabs", f"{table}.tab"
    titles = [tab.title for tab in tabs]
    default = st.session_state.get(kept)

    def keep() -> None:
        st.session_state[kept] = st.session_state[key]

    shown = st.tabs(titles, key=key, default=default if default in titles else None, on_change=keep)
    for tab, place in zip(tabs, shown, strict=True):
        if place.open:
            with place:
                tab.show()
