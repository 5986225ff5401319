"""Let a person find a row of a table: by its kind, by a word in it, or from a list.

The row that is shown stands in the page's address (`?row=UID`), so that it can be sent to a colleague.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from trailforge.inspector.showing import cells, kinds_of, more_of, ordered, title_of
from trailforge.inspector.views.frame import show_table
from trailforge.pipelines.runs import OpenRun
from trailforge.pipelines.runs.table_index import Found
from trailforge.pipelines.search import HELP, LIKE, Term, add_term, can_compare, search_on, search_rows, write_search
from trailforge.pipelines.show import ShownTable
from trailforge.schemas import TrailforgeError

TABLE, ROW, SEARCH = "table", "row", "search"
"""Names in the page's address of the table, the row and the search that are shown."""
ARRIVED = "decide.arrived"
"""Name in the session that says the row of the address has been found; the address is ours from then on."""
_TO, _LIST = "page.decide", "page.list"
PAGE = 25
"""Number of rows that the list shows at a time."""
_ALL = ""
"""Chosen where nothing is chosen: with None instead, the field has a cross that clears nothing."""
_NO_MEANINGS: Mapping[str, str] = MappingProxyType({})


def pick(
    run: OpenRun,
    table: str,
    columns: Sequence[str],
    *,
    kind: str = "",
    only: str = "",
    height: int = 260,
    shown: ShownTable | None = None,
) -> int | None:
    """Let a person choose a row, and return its number, or None when there is none.

    `columns` are shown for each row (`reward.total` for a part of one). `kind` is a text column whose values are
    offered as a filter; `only` restricts it to one value. `shown` provides columns that the table does not store, and
    orders.
    """
    line = st.container(horizontal=True, vertical_alignment="bottom")
    more = more_of(run, shown) if shown else {}
    numbers = _filter(run, table, more, kind, only, line)
    if shown is not None:
        numbers = _order(run, shown, numbers, line)
    kinds = list(kinds_of(run.dataset, shown)) if shown else []

    def row_of(number: int) -> dict[str, Any]:
        row = run.row(table, number) | {name: more[name][number] for name in more}
        known = [row.get(name) for name in kinds]
        return row | {kinds[0]: next(filter(None, known), None)} if known and known[0] is None else row

    return pick_among(
        table, numbers, row_of, columns,
        line, find=partial(run.find, table), key=run.key_of(table), height=height,
        meanings=shown.meanings(run) if shown and shown.meanings else {},
        search=f"{table}.words" if can_compare(run, table) else "",
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
    meanings: Mapping[str, str] = _NO_MEANINGS,
    search: str = "",
) -> int | None:
    """Let a person choose one of some rows, and return its number, or None when there is none.

    `line` is where the buttons are drawn. `find` returns the number of the row that an address asks for. `key` is the
    field that identifies a row. `meanings` explains columns. `search` is the session's name for the search text, where
    similar rows can be searched for.
    """
    if not numbers:
        st.info("No row matches.")
        return None
    place = _place(table, numbers, find)
    # What belongs together stays so where the line wraps, and text stands at the height of the buttons beside it.
    steps, acts = (line.container(horizontal=True, vertical_alignment="center", width="content") for _ in range(2))
    for name, shortcut, by in (("Previous", "k", -1), ("Next", "j", 1)):
        steps.button(
            name, shortcut=shortcut, key=f"{table}.{name}", on_click=_step, args=(table, by),
            disabled=not 0 <= place + by < len(numbers),
        )  # fmt: skip
    steps.markdown(f"Row {place + 1:,} of {len(numbers):,}", width="content")
    first = place // PAGE * PAGE
    rows = [row_of(number) for number in numbers[first : first + PAGE]]
    _show_list(table, cells(rows, columns), meanings, first, place, height)
    uid = str(rows[place - first][key])
    if search:
        offer_like(search, uid, partial(to_top, table), acts)
    show_link(table, uid, acts)
    st.query_params[ROW] = uid
    return numbers[place]


def go_to(run: OpenRun, table: str, value: str) -> None:
    """Select a row by its key from elsewhere on the page, in a callback. Filters that may hide the row are removed."""
    if run.find(table, value) is None:
        return
    st.session_state[f"{table}.kind"] = _ALL
    st.session_state[f"{table}.words"] = ""
    st.session_state.pop(f"{table}.place", None)  # where the row is depends on the order of the list
    st.query_params[ROW] = value
    st.session_state[f"{table}.steps"] = st.session_state.get(f"{table}.steps", 0) + 1


def _show_list(
    table: str, lines: Sequence[dict[str, Any]], meanings: Mapping[str, str], first: int, place: int, height: int
) -> None:
    """A page of the list, in which a click chooses a row."""
    column = st.column_config.Column
    steps = st.session_state.get(f"{table}.steps", 0)  # a list of a new name forgets what was chosen in the old one
    key = f"{table}.list.{first}.{steps}"
    show_table(
        list(lines),
        key=key,
        on_select=partial(_choose, table, key, first),
        selection_mode="single-row",
        selection_default={"selection": {"rows": [place - first]}},
        height=min(height, 38 + 35 * len(lines)),
        column_config={name: column(title_of(name), help=meanings.get(name)) for name in lines[0]},
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
    """Go back to the first row, as a callback after the filters change."""
    st.session_state[f"{table}.place"] = 0
    st.session_state[f"{table}.steps"] = st.session_state.get(f"{table}.steps", 0) + 1


def _order(run: OpenRun, shown: ShownTable, numbers: Sequence[int], line: DeltaGenerator) -> Sequence[int]:
    """The rows in the order that is chosen; those without a value come last."""
    table, more = shown.name, more_of(run, shown)
    texts = {name for name, values in more.items() if any(isinstance(value, str) for value in values)}
    known = [*more, *run.table(table).numbers()]
    ends = [
        (column, is_descending)
        for column in shown.columns
        if column in known
        for is_descending in ((False,) if column in texts else (False, True))
    ]
    if not ends:
        return numbers

    def told(end: tuple[str, bool] | str) -> str:
        if isinstance(end, str):
            return "as in the run"
        how = "A to Z" if end[0] in texts else "highest first" if end[1] else "lowest first"
        return f"{title_of(end[0])}, {how}"

    chosen = line.selectbox(
        "Order",
        [_ALL, *ends],
        key=f"{table}.order",
        format_func=told,
        on_change=to_top,
        args=(table,),
        width=230,
    )
    if isinstance(chosen, str):
        return numbers
    column, is_descending = chosen
    order = ordered(run, shown, column, is_descending=is_descending)
    if len(order) == len(numbers) == run.size(table):
        return order
    allowed = set(numbers)
    first = [number for number in order if number in allowed]
    return [*first, *sorted(allowed.difference(first))]


def _filter(
    run: OpenRun, table: str, more: Mapping[str, Sequence[Any]], kind: str, only: str, line: DeltaGenerator
) -> Sequence[int]:
    """Numbers of the rows that the filters above the list leave; these stand in the line, which wraps."""
    value = only or None
    if kind and not only:
        counts = Counter(more[kind]) if kind in more else run.table(table).counts([kind])[kind]
        value = line.selectbox(
            kind.replace("_", " "), [_ALL, *(name for name, _ in counts.most_common() if name)], key=f"{table}.kind",
            format_func=lambda each: "all" if each == _ALL else f"{each} ({counts[each]:,})",
            on_change=to_top, args=(table,),
        ) or None  # fmt: skip
    words = ask_search(table, f"{table}.words", partial(to_top, table), line)
    numbers: Sequence[int] = range(run.size(table))
    if value is not None and kind in more:
        numbers = [number for number in numbers if more[kind][number] == value]
    elif value is not None:
        numbers = run.table(table).matching(kind, value)
    if not words.strip():
        return numbers
    found = search_table(run, table, words, line)
    allowed = set(numbers) if value is not None else None
    return [number for number in found.rows if allowed is None or number in allowed]


def ask_search(table: str, key: str, on_change: Callable[[], None], place: Any = st) -> str:
    """Ask in `place` what to search a table for, and return it; the page's address, which can be sent to a colleague,
    holds it, too. `key` is the session's name for the text; `on_change` is called when a person changes it.
    """
    named = f"{table}.{SEARCH}"
    if key not in st.session_state and named in st.query_params:
        st.session_state[key] = st.query_params[named]
    words = place.text_input("Search", key=key, on_change=on_change, help=HELP, placeholder="words, field:value")
    if words.strip():
        st.query_params[named] = words
    else:
        st.query_params.pop(named, None)
    return words


def offer_like(key: str, uid: str, then: Callable[[], None], place: Any = st) -> None:
    """Offer a button that searches for rows similar to the one with this uid. `key` is the session's name for the
    search text; `then` is called once the search is written there.
    """

    def look() -> None:
        st.session_state[key] = write_search([Term(uid, LIKE, ":")])
        then()

    place.button(
        "More like this", icon=":material/join_inner:", key=f"{key}.like", on_click=look,
        help="The rows that are nearest to this one, by the encoder that made the run; without one, by shared words.",
    )  # fmt: skip


def search_table(run: OpenRun, table: str, words: str, place: Any = st) -> Found:
    """Search a table, and return what was found so far, with a button in `place` to continue where the search has not
    reached the end. A search that cannot be read finds nothing, and a line says why.
    """
    try:
        with st.spinner("Searching …", show_time=True):
            found = search_rows(run, table, words)
    except TrailforgeError as error:
        place.error(getattr(error, "problem", str(error)))
        return Found(rows=(), searched=run.size(table), is_complete=True)
    if not found.is_complete:
        place.button(
            f"Search on: {found.searched:,} of {run.size(table):,} rows so far",
            key=f"{table}.search_on", on_click=search_on, args=(run, table, words),
            help="Rows with this text further on are not shown yet.",
        )  # fmt: skip
    return found


def offer(page: Any, tables: Sequence[str]) -> None:
    """Set the page to which links for deciding lead, and the tables whose rows have such links."""
    st.session_state[_TO] = page, frozenset(tables)


def offer_list(page: Any, tables: Sequence[str]) -> None:
    """Set the page on which rows are listed, and the tables that it lists."""
    st.session_state[_LIST] = page, frozenset(tables)


def list_rows(table: str, *terms: Term) -> None:
    """Go to the list of a table's rows with a search for these conditions; does nothing where no page lists them."""
    page, tables = st.session_state.get(_LIST, (None, frozenset()))
    if table not in tables:
        return
    key = f"{table}.words"
    st.session_state[key] = add_term(st.session_state.get(key, ""), *terms)
    to_top(table)
    st.switch_page(page, query_params={TABLE: table, f"{table}.{SEARCH}": st.session_state[key]})


def show_link(table: str, uid: str, place: Any = st, *, what: str = "row") -> None:
    """Show a link to the page for deciding on this row, where people decide on rows of this table."""
    page, tables = st.session_state.get(_TO, (None, frozenset()))
    if table in tables:
        place.page_link(
            page, label=f"Decide on this {what}", icon=":material/gavel:", query_params={TABLE: table, ROW: uid},
        )  # fmt: skip
