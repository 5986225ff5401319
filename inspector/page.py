"""The curators' page: its frame, in which the views are shown. Streamlit runs it anew for each thing a person does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from trailforge.inspector import server
from trailforge.inspector.deciding import Curation
from trailforge.inspector.showing import show_of
from trailforge.inspector.views import decide, fixing, html, overview, picking, rows
from trailforge.inspector.visible_text import visible
from trailforge.pipelines.runs.finished import OpenRun
from trailforge.schemas import TrailforgeError

_ICON = Path(__file__).parent / "icon.svg"
"""Without one of our own Streamlit has the browser fetch one from outside."""
STYLE = """
.stMainBlockContainer { padding: 4.2rem 2.5rem 2rem; }
.runhead { display: flex; gap: 1rem; align-items: baseline; font-size: .85rem; }
.runhead b { font-size: 1.05rem; }
.runhead span { opacity: .7; overflow-wrap: anywhere; }
"""
_STYLE = "".join((html.STYLE, decide.STYLE, fixing.STYLE))


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One of the page's views."""

    name: str
    title: str
    icon: str
    show: Callable[[OpenRun], None]


def views(run: OpenRun, curation: Curation) -> Mapping[str, View]:
    """By name, which is also the path of its address; that of the first one is the root."""
    shown = show_of(run.dataset)
    found = [View(name="overview", title="Overview", icon=":material/monitoring:", show=overview.show)]
    if any(table.columns and table.name in run.tables for table in shown.tables):
        of_rows = partial(rows.show, show=shown)
        found.append(View(name=shown.path, title=shown.title, icon=shown.icon, show=of_rows))
    found.append(
        View(name="decide", title="Decide", icon=":material/gavel:", show=partial(decide.show, curation=curation))
    )
    return {view.name: view for view in found}


def show_page(run: OpenRun, curation: Curation) -> None:
    """The whole page for a run."""
    st.set_page_config(page_title="trailforge", page_icon=_ICON, layout="wide")
    if not server.is_open():
        return
    st.set_page_config(page_title=f"{run.dataset} · trailforge")
    st.html(f"<style>{STYLE}{_STYLE}</style>")
    shown = {
        view.name: st.Page(partial(_guarded, view.show, run), title=view.title, icon=view.icon, url_path=view.name)
        for view in views(run, curation).values()
    }
    picking.offer(shown["decide"], curation.tables)
    chosen = st.navigation(list(shown.values()), position="top")
    if chosen.url_path != "decide":
        st.session_state.pop(picking.ARRIVED, None)
    chosen.run()


def _guarded(show: Callable[[OpenRun], Any], run: OpenRun) -> None:
    """What a person can mend is said in one line."""
    try:
        show(run)
    except TrailforgeError as error:
        st.error("This cannot be shown:")
        st.code(visible(str(error)), language=None, wrap_lines=True)
