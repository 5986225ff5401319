"""Find a row of a table: by its kind, by any word in it, from a list, one after the other.

The row that is shown stands in the page's address (`?row=UID`), so that it can be sent to a colleague.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from trailforge.inspector.visible_text import visible
from trailforge.pipelines.runs.finished import OpenRun
from trailforge.pipelines.runs.table_index import Found

TABLE, ROW = "table", "row"
"""In the page's address: what is shown."""
ARRIVED = "decide.arrived"
"""In the session: the row that the address asked for has been found; what the address says from then on is our own."""
_TO = "page.decide"
PAGE = 25
"""Rows in the list at a time."""
_LONGEST_CELL = 160


def pick(
    run: OpenRun, table: str, columns: Sequence[str], *, kind: str = "", only: str = "", height: int = 260
) -> int | None:
    """Let a person choose a row; its number, or None when there is none.

    `columns`: shown of each row, a part of one as `reward.total`. `kind`: a text column whose values are offered as a
    filter; `only`: the one value of it to choose from.
    """
    line = st.container(horizontal=True, vertical_alignment="bottom")
    numbers = _filter(run, table, kind, only, line)
    uid = run.key_of(table)
    return pick_among(
        table, numbers, lambda number: run.row(table, number), columns, line, find=partial(run.find, table), key=uid,
        height=height,
    )  # fmt: skip


def pick_among(
    table: str,
    numbers: Sequence[int],
    row_of: Callable[[int], dict[str, Any]],
    columns: Sequence[str],
    line: DeltaGenerator,
    *,
    find: Callable[[str], int | None],
    key: str = "uid",
    height: int = 260,
) -> int | None:
    """Let a person choose one of some rows; its number, or None when there is none.

    `line`: where the buttons are. `find`: number of the row that an address asks for. `key`: field that names a row.
    """
    if not numbers:
        st.info("No row matches.")
        return None
    place = _place(table, numbers, find)
    for name, shortcut, by in (("Previous", "k", -1), ("Next", "j", 1)):
        line.button(
            name, shortcut=shortcut, key=f"{table}.{name}", on_click=_step, args=(table, by),
            disabled=not 0 <= place + by < len(numbers),
        )  # fmt: skip
    line.markdown(f"Row {place + 1:,} of {len(numbers):,}", width="content")
    first = place // PAGE * PAGE
    rows = [row_of(number) for number in numbers[first : first + PAGE]]
    _show_list(table, rows, columns, first, place, height)
    uid = str(rows[place - first][key])
    show_link(table, uid, line)
    st.query_params[ROW] = uid
    return numbers[place]


def go_to(run: OpenRun, table: str, value: str) -> None:
    """Choose a row by its key from elsewhere on the page, in a callback. Filters that may hide it are taken away."""
    number = run.find(table, value)
    if number is None:
        return
    st.session_state[f"{table}.kind"] = None
    st.session_state[f"{table}.words"] = ""
    _step(table, number - st.session_state.get(f"{table}.place", 0))


def _show_list(
    table: str, rows: Sequence[dict[str, Any]], columns: Sequence[str], first: int, place: int, height: int
) -> None:
    """A page of the list, in which a click chooses a row."""
    steps = st.session_state.get(f"{table}.steps", 0)  # a list of a new name forgets what was chosen in the old one
    key = f"{table}.list.{first}.{steps}"
    st.dataframe(
        cells(rows, columns),
        key=key,
        on_select=partial(_choose, table, key, first),
        selection_mode="single-row",
        selection_default={"selection": {"rows": [place - first]}},
        height=min(height, 38 + 35 * len(rows)),
        hide_index=True,
    )


def _place(table: str, numbers: Sequence[int], find: Callable[[str], int | None]) -> int:
    """Where in the list the page is: at first at the row of its address, after a change of the filters at the top."""
    key = f"{table}.place"
    if key not in st.session_state:
        asked = st.query_params.get(ROW)
        number = find(asked) if asked else None
        st.session_state[key] = numbers.index(number) if number in numbers else 0
    st.session_state[key] = min(st.session_state[key], len(numbers) - 1)
    return st.session_state[key]


def _step(table: str, by: int) -> None:
    st.session_state[f"{table}.place"] = st.session_state.get(f"{table}.place", 0) + by
    st.session_state[f"{table}.steps"] = st.session_state.get(f"{table}.steps", 0) + 1


def _choose(table: str, key: str, first: int) -> None:
    chosen = st.session_state[key]["selection"]["rows"]
    if chosen:
        st.session_state[f"{table}.place"] = first + chosen[0]


def to_top(table: str) -> None:
    """Back to the first row, as after a change of the filters; a callback."""
    st.session_state[f"{table}.place"] = 0


def cells(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> list[dict[str, Any]]:
    """The list, line by line. But in columns of numbers, what a row has not is empty: Streamlit would write "None"."""
    lines = [{column: _cell(row, column) for column in columns} for row in rows]
    for column in columns:
        if not any(isinstance(line[column], int | float) for line in lines):
            lines = [line | {column: "" if line[column] is None else line[column]} for line in lines]
    return lines


def _cell(row: dict[str, Any], path: str) -> Any:
    """What the list shows of a row: text in one line, cut; numbers as they are."""
    value: Any = row
    for step in path.split("."):
        value = None if value is None else value.get(step)
    if isinstance(value, str):
        return visible(" ".join(value.split())[:_LONGEST_CELL])
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _filter(run: OpenRun, table: str, kind: str, only: str, line: DeltaGenerator) -> Sequence[int]:
    """Numbers of the rows that the filters above the list leave; these stand in the line, which wraps."""
    value = only or None
    if kind and not only:
        counts = run.table(table).counts([kind])[kind]
        value = line.selectbox(
            kind, [None, *counts], key=f"{table}.kind",
            format_func=lambda each: "all" if each is None else f"{each} ({counts[each]:,})",
            on_change=to_top, args=(table,),
        )  # fmt: skip
    words = line.text_input("Search in all texts", key=f"{table}.words", on_change=to_top, args=(table,))
    numbers: Sequence[int] = range(run.size(table)) if value is None else run.table(table).matching(kind, value)
    if not words.strip():
        return numbers
    found = search_table(run, table, words, line)
    allowed = set(numbers) if value is not None else None
    return [number for number in found.rows if allowed is None or number in allowed]


def search_table(run: OpenRun, table: str, words: str, place: Any = st) -> Found:
    """What was found so far; where the table is not searched to its end, a button in `place` says so and goes on."""
    found = run.search(table, words)
    if not found.is_complete:
        place.button(
            f"Search on: {found.searched:,} of {run.size(table):,} rows so far",
            key=f"{table}.search_on", on_click=run.search_on, args=(table, words),
            help="Rows with this text further on are not shown yet.",
        )  # fmt: skip
    return found


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
