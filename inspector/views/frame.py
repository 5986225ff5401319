"""Set up what all pages share: password, style, the menu of views, and a line for errors that the user can resolve."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from trailforge.inspector import server
from trailforge.inspector.views import html
from trailforge.inspector.visible_text import visible
from trailforge.schemas import TrailforgeError

_ICON = Path(__file__).parent.parent / "icon.svg"
"""Without one of our own Streamlit has the browser fetch one from outside."""
_PANES = (Path(__file__).parent / "panes.js").read_text(encoding="utf-8")
_STYLE = """
.stMainBlockContainer { padding: 4.2rem 2.5rem 1rem; }
.stElementContainer:has(> .stHtml > .panes) { display: none; }
.runhead { display: flex; gap: 1rem; align-items: baseline; font-size: .85rem; }
.runhead b { font-size: 1.05rem; }
.runhead span { opacity: .7; overflow-wrap: anywhere; }
"""


def leave_own_folder() -> None:
    """Remove the script's folder, which Streamlit adds, from the import path: modules in it could be mistaken for
    others of the same name.
    """
    sys.path[:] = [entry for entry in sys.path if entry != str(_ICON.parent)]


def open_page(title: str, style: str = "") -> bool:
    """Set the page up. Returns False when the person has not given the password, and then shows nothing, not even the
    title.
    """
    st.set_page_config(page_title="trailforge", page_icon=_ICON, layout="wide")
    if not server.is_open():
        return False
    st.set_page_config(page_title=f"{visible(title)} · trailforge")
    st.html(f"<style>{_STYLE}{html.STYLE}{style}</style>")
    st.html(f'<i class="panes"></i><script>({_PANES})()</script>', unsafe_allow_javascript=True)
    return True


def page_of(name: str, title: str, icon: str, show: Callable[[], Any]) -> Any:
    """Return a Streamlit page of a view. `name` is also the path of its address; the first view is the root."""
    return st.Page(partial(guard, show), title=title, icon=icon, url_path=name)


def guard(show: Callable[[], Any]) -> None:
    """Show a view; an error that the user can resolve is shown in one line."""
    try:
        show()
    except TrailforgeError as error:
        show_error(error)


def show_table(rows: Sequence[Mapping[str, Any]], **more: Any) -> Any:
    """Show rows of plain values as a table, missing values as empty cells, and return what a person selects in it.
    `more` are arguments of `st.dataframe`.
    """
    return st.dataframe(rows, hide_index=True, placeholder="", **more)


def show_error(error: TrailforgeError) -> None:
    """Show in one line why something cannot be displayed."""
    st.error("This cannot be shown:")
    st.code(visible(str(error)), language=None, wrap_lines=True)
