"""The curators' page: its frame, in which the views are shown, and the rows of a run's tables.

`trailforge inspect` has Streamlit run it as `page.py FOLDER WHO`, anew for each thing a person does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from trailforge.inspector import server
from trailforge.inspector.deciding import Curation
from trailforge.inspector.showing import describe, kinds_of, show_of
from trailforge.inspector.views import decide, fixing, html, overview, picking
from trailforge.inspector.views.drawing import Canvas, draw
from trailforge.inspector.views.picking import TABLE, pick
from trailforge.inspector.visible_text import visible
from trailforge.pipelines.curated import check_row, decidable, products_of
from trailforge.pipelines.datasets import is_curated
from trailforge.pipelines.runs.finished import OpenRun, open_run, stamp_of
from trailforge.pipelines.runs.intake import read_settings
from trailforge.pipelines.runs.status import books_so_far
from trailforge.pipelines.show.parts import Show, ShownTable
from trailforge.schemas import InvalidInput, TrailforgeError

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
        of_rows = partial(show_rows, show=shown)
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


_HIGH, _LOW = 640, 200
"""Pixels of a list that stands beside the row, and of one above it."""


def show_rows(run: OpenRun, show: Show) -> None:
    """Choose a table and a row of it, and read it."""
    tables = {table.name: table for table in show.tables if table.columns and table.name in run.tables}
    asked, first = st.query_params.get(TABLE), next(iter(tables))
    chosen = first
    if len(tables) > 1:
        chosen = st.segmented_control(
            "Show", list(tables), default=asked if asked in tables else first, required=True, key="rows.table",
            format_func=lambda name: f"{tables[name].title} ({run.size(name):,})", label_visibility="collapsed",
        )  # fmt: skip
    table = tables[chosen or first]
    st.query_params[TABLE] = table.name
    if table.is_list_beside:
        left, right = st.columns([1, 3])
        with left:
            number = _pick(run, table, _HIGH)
        with right:
            _show_row(run, table, number)
    else:
        number = _pick_above(run, table)
        _show_row(run, table, number)


def _pick(run: OpenRun, table: ShownTable, height: int) -> int | None:
    kinds = kinds_of(run.dataset, table)
    return pick(run, table.name, table.columns, kind=kinds[0] if kinds else "", height=height)


def _pick_above(run: OpenRun, table: ShownTable) -> int | None:
    """The list over the whole width, or with what is drawn beside it."""
    if table.beside is None:
        return _pick(run, table, _LOW)
    left, right = st.columns([2, 3], gap="medium")
    with right:
        number = _pick(run, table, _LOW)
    with left:
        record = None if number is None else run.record(table.name, number)
        draw(table.beside(run, record), Canvas(run, table.name, f"{table.name}.beside"))
    return number


def _show_row(run: OpenRun, table: ShownTable, number: int | None) -> None:
    if number is not None:
        uid = run.row(table.name, number)[run.key_of(table.name)]
        draw(describe(run, table.name, number), Canvas(run, table.name, f"{table.name}.{uid}"))


@st.cache_resource(max_entries=2, show_spinner="Opening the run …")
def open_cached(folder: Path, stamp: Any) -> tuple[OpenRun, tuple[str, ...]]:
    """The run of a folder as it is now, and the tables on whose rows people decide."""
    run, settings = open_run(folder), read_settings(folder)
    if settings is None:
        raise InvalidInput("holds no run", file=folder)
    if run.manifest is None:
        run = replace(run, books=books_so_far(folder, settings))
    return run, () if is_curated(settings) else decidable(run.dataset)


def main(folder: Path, who: str) -> None:
    """The page, once."""
    # Streamlit puts the folder of its script on the path, where modules of ours could pass for others of their names.
    sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).parent)]
    run, tables = open_cached(folder, stamp_of(folder))
    products = products_of(run.dataset)
    curation = Curation(
        tables=tables,
        fixable=lambda table: products[table].fixable if table in products else (),
        check=partial(check_row, run.dataset),
        who=who,
    )
    show_page(run, curation)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
