"""The curators' page: its frame, in which the views are shown. Streamlit runs it anew for each thing a person does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from trailforge.inspector.deciding import Curation
from trailforge.pipelines.runs.finished import OpenRun
from trailforge.inspector.views import (
    bundle_question,
    bundles,
    checks,
    conversation,
    decide,
    door,
    fields,
    fixing,
    kg,
    kg_episode,
    overview,
    side_by_side,
    sources,
    to_decide,
    trajectories,
)
from trailforge.inspector.visible_text import visible
from trailforge.schemas import TrailforgeError

_ICON = Path(__file__).parent / "icon.svg"
"""Without one of our own Streamlit has the browser fetch one from outside."""
STYLE = """
.stMainBlockContainer { padding: 4.2rem 2.5rem 2rem; }
.runhead { display: flex; gap: 1rem; align-items: baseline; font-size: .85rem; }
.runhead b { font-size: 1.05rem; }
.runhead span { opacity: .7; overflow-wrap: anywhere; }
"""
_PARTS = (
    *(conversation, fields, sources, trajectories, checks, side_by_side),
    *(bundle_question, bundles, kg_episode, decide, fixing),
)
_STYLE = "".join(part.STYLE for part in _PARTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One of the page's views, shown for runs that have one of its tables; for all when it names none."""

    name: str
    title: str
    icon: str
    show: Callable[[OpenRun], None]
    tables: frozenset[str] = frozenset()


def views(curation: Curation) -> Mapping[str, View]:
    """By name, which is also the path of its address; that of the first one is the root."""
    found = [
        View(name="overview", title="Overview", icon=":material/monitoring:", show=overview.show),
        View(
            name="bundles", title="Bundles", icon=":material/library_books:", show=bundles.show,
            tables=frozenset({"bundles", "bundle_questions"}),
        ),
        View(
            name="trajectories", title="Trajectories", icon=":material/account_tree:", show=trajectories.show,
            tables=frozenset({"mcts_trajectories", "trees", "episodes"}),
        ),
        View(
            name="kg", title="Knowledge graph", icon=":material/hub:", show=kg.show,
            tables=frozenset({"kg_trajectories", "kg_questions"}),
        ),
        View(name="decide", title="Decide", icon=":material/gavel:", show=partial(decide.show, curation=curation)),
    ]  # fmt: skip
    return {view.name: view for view in found}


def show_page(run: OpenRun, curation: Curation) -> None:
    """The whole page for a run."""
    st.set_page_config(page_title="trailforge", page_icon=_ICON, layout="wide")
    if not door.is_open():
        return
    st.set_page_config(page_title=f"{run.dataset} · trailforge")
    st.html(f"<style>{STYLE}{_STYLE}</style>")
    shown = {
        view.name: st.Page(partial(_guarded, view.show, run), title=view.title, icon=view.icon, url_path=view.name)
        for view in views(curation).values()
        if not view.tables or view.tables & set(run.tables)
    }
    to_decide.offer(shown["decide"], curation.tables)
    chosen = st.navigation(list(shown.values()), position="top")
    if chosen.url_path != "decide":
        st.session_state.pop(to_decide.ARRIVED, None)
    chosen.run()


def _guarded(show: Callable[[OpenRun], Any], run: OpenRun) -> None:
    """What a person can mend is said in one line."""
    try:
        show(run)
    except TrailforgeError as error:
        st.error("This cannot be shown:")
        st.code(visible(str(error)), language=None, wrap_lines=True)
