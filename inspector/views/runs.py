"""Show the runs below a folder: what they made and cost, over time, how two of them differ, and the last errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from trailforge.flows.nights import read_windows
from trailforge.inspector import charts
from trailforge.inspector.roots import RowDifference, RunLine, RunPair, compare_runs, list_runs
from trailforge.inspector.showing import describe
from trailforge.inspector.views.drawing import Canvas, draw
from trailforge.inspector.views.frame import open_page, page_of, show_table
from trailforge.inspector.visible_text import escape_text, visible
from trailforge.pipelines.runs import OpenRun, open_run, stamp_of
from trailforge.schemas import InvalidInput

RUN = "run"
"""Name in the page's address of the run that is opened, a path within the root."""
_CHOSEN = "root.run"
_CONFIG = {"displayModeBar": False}
_MOST_LISTED = 500
_MOST_ERRORS = 20
_NAME_WIDTH = 250
"""Pixels in which the longest reason can be read."""


def chosen_run(root: Path) -> Path | None:
    """Return the folder of the run that a person opened, which is part of the address; None when the list of runs is
    shown.
    """
    name = st.query_params.get(RUN) or st.session_state.get(_CHOSEN)
    if not name or name not in {line.name for line in _lines(root)}:
        return None
    st.session_state[_CHOSEN] = name
    st.query_params[RUN] = name
    return root / name


def leave_run(first: Any) -> None:
    """Go back to the list of runs. `first` is the first view of either page."""
    st.session_state.pop(_CHOSEN, None)
    st.query_params.clear()
    st.switch_page(first)


def show_page(root: Path) -> None:
    """Show the start page of a folder of runs."""
    if not open_page(root.name):
        return
    pages = [
        page_of("overview", "Runs", ":material/list:", partial(_show_runs, root)),
        page_of("compare", "Two runs side by side", ":material/compare:", partial(_show_pair, root)),
    ]
    st.navigation(pages, position="top").run()


@st.cache_data(ttl=10, max_entries=4, show_spinner="Looking for runs …")
def _lines(root: Path) -> list[RunLine]:
    return list_runs(root)


def _show_runs(root: Path) -> None:
    lines = _lines(root)
    made, cost = sum(line.rows for line in lines), sum(line.cost for line in lines)
    head = f"<b>{escape_text(str(root))}</b><span>{len(lines):,} runs, {made:,} rows, cost {cost:,.2f}</span>"
    st.html(f'<div class="runhead">{head}</div>')
    _show_windows(root)
    st.subheader("Runs", help="A click on a row opens the run.")
    _open_chosen(lines)
    _show_trends(lines)
    _show_errors(lines)


def _show_windows(root: Path) -> None:
    """The table of `trailforge status ROOT`."""
    windows = read_windows(root)
    if not windows:
        return
    st.subheader("Windows", help="What each night made; as `trailforge status` tells it.")
    rows = [
        {
            "day": window.day,
            "state": window.state,
            "documents": window.window.documents.accepted if window.window else None,
            **{made.folder: None if made.skipped else made.rows for made in window.made},
            "calls": sum(made.calls for made in window.made),
            "cost": round(sum(made.cost for made in window.made), 2),
            "outside bands": len(window.window.breaches) if window.window else None,
            "next": visible(window.last_error or window.next),
        }
        for window in reversed(windows)
    ]
    show_table(rows, height=min(320, 38 + 35 * len(rows)))


def _open_chosen(lines: Sequence[RunLine]) -> None:
    shown = lines[:_MOST_LISTED]
    event = show_table(
        [_cells(line) for line in shown], key="root.list", on_select="rerun",
        selection_mode="single-row", height=min(460, 38 + 35 * len(shown)),
        column_config={
            "yield": st.column_config.NumberColumn(format="%.3f", help="Rows for each input."),
            "cost per row": st.column_config.NumberColumn(format="%.4f"),
        },
    )  # fmt: skip
    if len(lines) > len(shown):
        st.caption(f"The latest {len(shown):,} of {len(lines):,} runs.")
    for row in event["selection"]["rows"]:
        st.session_state[_CHOSEN] = shown[row].name
        st.rerun()


def _cells(line: RunLine) -> dict[str, Any]:
    return {
        "run": visible(line.name), "data set": visible(line.dataset), "state": line.state, "last step": line.when,
        "inputs": line.inputs, "rows": line.rows, "yield": line.rows_per_input, "calls": line.calls,
        "tokens": line.tokens, "cost": round(line.cost, 2), "cost per row": line.cost_per_row,
    }  # fmt: skip


def _show_trends(lines: Sequence[RunLine]) -> None:
    """Yield and cost over time, by data set, of finished runs."""
    figures: tuple[tuple[str, str, Callable[[RunLine], float | None]], ...] = (
        ("Yield over time", "rows for each input", lambda line: line.rows_per_input),
        ("Cost over time", "cost of a row", lambda line: line.cost_per_row),
    )
    for place, (title, unit, figure) in zip(st.columns(2, gap="large"), figures, strict=True):
        points: dict[str, list[tuple[str, float, str]]] = defaultdict(list)
        for line in reversed(lines):
            if line.state == "finished" and (value := figure(line)) is not None:
                points[line.dataset].append((line.when, value, visible(line.name)))
        with place:
            st.subheader(title)
            if points:
                st.plotly_chart(charts.trend(points, unit), config=_CONFIG, key=f"root.{unit}")
            else:
                st.info("No finished run has this figure.")


def _show_errors(lines: Sequence[RunLine]) -> None:
    found = sorted((line for line in lines if line.last_error), key=lambda line: line.last_error, reverse=True)
    st.subheader("Last errors", help="Of runs that have not finished since.")
    if not found:
        st.info("None.")
    for line in found[:_MOST_ERRORS]:
        st.html(f'<div class="note wrong"><b>{escape_text(line.name)}</b> {escape_text(line.last_error, 600)}</div>')


@st.cache_resource(max_entries=4, show_spinner="Opening the runs …")
def _open(folder: Path, stamp: Any) -> OpenRun:
    return open_run(folder)


@st.cache_resource(max_entries=2, show_spinner="Comparing …")
def _compare(root: Path, names: tuple[str, str], stamps: Any) -> RunPair:
    first, second = (_open(root / name, stamp) for name, stamp in zip(names, stamps, strict=True))
    return compare_runs(first, second)


def _show_pair(root: Path) -> None:
    lines = _lines(root)
    names = [line.name for line in lines]
    if len(names) == 1:
        st.info("There is one run; two are wanted.")
        return
    columns = st.columns(2)
    alike = next((line.name for line in lines[1:] if line.dataset == lines[0].dataset), names[1])
    asked = [st.query_params.get(side, name) for side, name in zip("ab", (names[0], alike), strict=True)]
    chosen = [
        column.selectbox(
            side.upper(), names, index=names.index(wanted) if wanted in names else number, key=f"root.{side}",
            format_func=visible,
        )
        for number, (side, column, wanted) in enumerate(zip("ab", columns, asked, strict=True))
    ]  # fmt: skip
    st.query_params.update(dict(zip("ab", chosen, strict=True)))
    try:
        stamps = tuple(stamp_of(root / name) for name in chosen)
        runs = [_open(root / name, stamp) for name, stamp in zip(chosen, stamps, strict=True)]
        pair = _compare(root, (chosen[0], chosen[1]), stamps)
    except InvalidInput as error:
        st.error(visible(str(error)))
        return
    left, right = st.columns([2, 3], gap="large")
    with left:
        st.subheader("Figures")
        show_table(
            [
                {"figure": visible(name), "A": _told(one), "B": _told(other), "B - A": _difference(one, other)}
                for name, (one, other) in pair.figures.items()
            ],
            height=38 + 35 * min(len(pair.figures), 14),
            column_config={"figure": st.column_config.Column(width=_NAME_WIDTH)},
        )  # fmt: skip
    with right:
        difference = _pick_difference(pair)
    if difference is not None:
        _show_difference(runs, pair.table, difference)


def _told(value: float | None) -> str:
    return "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def _difference(one: float | None, other: float | None) -> str:
    if one is None or other is None:
        return ""
    if one == other:
        return "0"
    return f"{other - one:+,}" if isinstance(one, int) and isinstance(other, int) else f"{other - one:+,.4g}"


def _pick_difference(pair: RunPair) -> RowDifference | None:
    st.subheader("Rows that differ", help="Rows are the same where their uids are, which follow from their content.")
    if not pair.table:
        st.info("The runs make different things: their rows do not compare.")
        return None
    same = "1 row of {} stands" if pair.same == 1 else f"{pair.same:,} rows of {{}} stand"
    st.caption(f"{same.format(pair.table)} in both.")
    if not pair.differing:
        st.info("No row stands in one of them alone.")
        return None
    st.caption(f"What else they made, by source ({len(pair.differing):,}):")
    shown = pair.differing[:_MOST_LISTED]
    event = show_table(
        [
            {"source": visible(each.source), "what": each.what, "rows of A": len(each.first),
             "rows of B": len(each.second)}
            for each in shown
        ],
        key="root.differing", on_select="rerun", selection_mode="single-row",
        selection_default={"selection": {"rows": [0]}}, height=min(530, 38 + 35 * len(shown)),
    )  # fmt: skip
    rows = event["selection"]["rows"]
    return shown[rows[0] if rows else 0]


def _show_difference(runs: Sequence[OpenRun], table: str, difference: RowDifference) -> None:
    """The first rows that differ, beside each other."""
    sides = zip(st.columns(2, gap="medium"), "AB", runs, (difference.first, difference.second), strict=True)
    for place, side, run, numbers in sides:
        with place:
            first = "; the first of them" if len(numbers) > 1 else ""
            rows = "1 row" if len(numbers) == 1 else f"{len(numbers):,} rows"
            st.caption(f"{side}: {rows} of this source that the other lacks{first}")
            if numbers:
                draw(describe(run, table, numbers[0]), Canvas(run, table, f"root.{side}.{difference.source}"))
