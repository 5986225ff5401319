"""Show the curators' page of a run: its views, and the rows of its tables; for a folder of runs, the list of them
first.

`trailforge inspect` has Streamlit run this module as `page.py FOLDER WHO [GUIDE]`, anew for each thing a person does.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from trailforge.curation import find_guide, read_guide
from trailforge.inspector.deciding import Curation
from trailforge.inspector.roots import is_root
from trailforge.inspector.showing import describe, kinds_of, show_of
from trailforge.inspector.views import decide, fixing, overview, picking, runs
from trailforge.inspector.views.drawing import Canvas, draw
from trailforge.inspector.views.frame import leave_own_folder, open_page, page_of, show_error
from trailforge.inspector.views.picking import TABLE, pick
from trailforge.pipelines import check_row, decidable, is_curated, products_of
from trailforge.pipelines.runs import OpenRun, books_so_far, open_run, read_settings, stamp_of
from trailforge.pipelines.search import texts_of
from trailforge.pipelines.show import Show, ShownTable
from trailforge.schemas import InvalidInput, TrailforgeError


def show_page(run: OpenRun, curation: Curation, *, is_in_root: bool = False) -> None:
    """Show the whole page of a run. `is_in_root` says that there is a list of runs to go back to."""
    if not open_page(run.dataset, decide.STYLE + fixing.STYLE):
        return
    shown, decisions = show_of(run.dataset), partial(decide.show, run, curation)
    deciding = page_of("decide", "Decide", ":material/gavel:", decisions)
    pages = [page_of("overview", "Overview", ":material/monitoring:", partial(overview.show, run)), deciding]
    listed = [table.name for table in shown.tables if table.columns and table.name in run.tables]
    if listed:
        pages.insert(1, page_of(shown.path, shown.title, shown.icon, partial(show_rows, run, shown)))
        picking.offer_list(pages[1], listed)
    picking.offer(deciding, curation.tables)
    if is_in_root:
        pages.append(page_of("runs", "All runs", ":material/list:", partial(runs.leave_run, pages[0])))
    chosen = st.navigation(pages, position="top")
    if chosen.url_path != "decide":
        st.session_state.pop(picking.ARRIVED, None)
    chosen.run()


_HIGH, _LOW = 640, 330
"""Height in pixels of a list that stands beside the row, and of one above it."""


def show_rows(run: OpenRun, show: Show) -> None:
    """Let a person choose a table and a row of it, and show the row. `show` has the tables to choose from."""
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
    return pick(run, table.name, table.columns, kind=kinds[0] if kinds else "", height=height, shown=table)


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
        sought = texts_of(st.session_state.get(f"{table.name}.words", ""))
        draw(describe(run, table.name, number), Canvas(run, table.name, f"{table.name}.{uid}", sought))


@st.cache_resource(max_entries=2, show_spinner=False)
def open_cached(folder: Path, stamp: Any) -> tuple[OpenRun, tuple[str, ...]]:
    """Return the run of a folder and the tables on whose rows people decide, from the cache as long as `stamp`, which
    changes with the folder's content, is the same.
    """
    run, settings = open_run(folder), read_settings(folder)
    if settings is None:
        raise InvalidInput("holds no run; give the folder of a run, or one with several", file=folder)
    if run.manifest is None:
        run = replace(run, books=books_so_far(folder, settings))
    return run, () if is_curated(settings) else decidable(run.dataset)


def read_first_view(folder: Path) -> None:
    """Read what the first view of a run shows of its rows, before anybody sees it. Of a folder with several runs, and
    of one that cannot be read, which the view then says, nothing is read.
    """
    with suppress(TrailforgeError):
        if not is_root(folder):
            overview.read_figures(open_cached(folder, stamp_of(folder))[0])


def main(folder: Path, who: str, guide: str = "") -> None:
    """Run the page's script once. `guide` is the path of a curation.yaml; empty means the one found beside the run."""
    leave_own_folder()
    is_in_root = is_root(folder)
    if is_in_root:
        chosen = runs.chosen_run(folder)
        if chosen is None:
            runs.show_page(folder)
            return
        folder = chosen
    run, tables = open_cached(folder, stamp_of(folder))
    products = products_of(run.dataset)
    curation = Curation(
        tables=tables,
        fixable=lambda table: products[table].fixable if table in products else (),
        check=partial(check_row, run.dataset),
        who=who,
        guide=read_guide(find_guide(folder, Path(guide) if guide else None), tables),
    )
    show_page(run, curation, is_in_root=is_in_root)


if __name__ == "__main__":
    # The imported module knows what was read before the first visit, and is not made anew with each run of the script.
    from trailforge.inspector import page

    try:
        page.main(Path(sys.argv[1]), *sys.argv[2:])
    except TrailforgeError as fault:
        if open_page("trailforge"):  # whoever has not given the password is told nothing, not even what is wrong
            show_error(fault)
