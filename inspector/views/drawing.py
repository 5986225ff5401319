"""Draw the parts of a row on the page: what needs no widget as HTML, the rest with Streamlit's widgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from trailforge.inspector.charts import dot, point_map
from trailforge.inspector.tree_chart import tree_chart
from trailforge.inspector.views.frame import show_table
from trailforge.inspector.views.html import html_of, is_static, mark_found
from trailforge.inspector.views.picking import go_to, search_table, show_link
from trailforge.inspector.visible_text import visible
from trailforge.pipelines.runs import OpenRun
from trailforge.pipelines.show import (
    Columns,
    DataTable,
    DecideLink,
    Diagram,
    Fold,
    Map,
    Part,
    Parts,
    SearchOn,
    Selector,
    Tabs,
    TreeDiagram,
)

_ROW, _HEAD = 35, 38
"""Height in pixels of a table's row and of its head."""
_COLOUR = "map.colour"
_QUIET = {"displayModeBar": False}


@dataclass(frozen=True, slots=True)
class Canvas:
    """A place on the page where parts are drawn, and the row they belong to."""

    run: OpenRun
    table: str
    key: str
    """Name of this place on the page, from which widgets below it get their names."""
    sought: Sequence[str] = ()
    """Texts that a person searches for, which are marked where they stand."""

    def below(self, name: object) -> Canvas:
        """Return a place within this one. `name` tells it from other places there, in the names of widgets."""
        return replace(self, key=f"{self.key}.{name}")


def draw(parts: Parts, canvas: Canvas) -> None:
    """Draw all parts, one below another."""
    static: list[Part] = []
    for number, part in enumerate(parts):
        if is_static(part):
            static.append(part)
            continue
        if static:
            st.html(mark_found(html_of(*static), canvas.sought))
            static = []
        _DRAWERS[type(part)](part, canvas.below(number))
    if static:
        st.html(mark_found(html_of(*static), canvas.sought))


def _draw_table(part: DataTable, canvas: Canvas) -> None:
    if not part.rows:
        return
    shown = [{name: _plain(value) for name, value in row.items()} for row in part.rows]
    column = st.column_config.Column
    show_table(
        shown, key=canvas.key, height=_HEAD + _ROW * min(part.height, len(shown)),
        column_config={name: column(help=meaning) for name, meaning in part.help.items()},
    )  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if not isinstance(value, float):
        return value
    return round(value, 3) if abs(value) >= 1 else float(f"{value:.3g}")


def _draw_graph(part: Diagram, canvas: Canvas) -> None:
    with st.container(key=canvas.key):
        st.graphviz_chart(dot(part), width="content")


def _draw_tree(part: TreeDiagram, canvas: Canvas) -> None:
    """The tree to click on, and what is behind the clicked node."""
    event: Any = st.plotly_chart(
        tree_chart(part), key=canvas.key, on_select="rerun", selection_mode="points",
        config={"scrollZoom": True, "displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d"]},
    )  # fmt: skip
    st.caption(
        "Click a node for its plan and rollouts. Size: visits n; colour: value V, the mean reward of its rollouts and "
        "of those below it. Drag to move, scroll to zoom, double-click for the whole tree."
    )
    clicked = [_customdata(point) for point in event["selection"]["points"]]
    node = next((id for id in clicked if isinstance(id, int) and 0 <= id < len(part.nodes)), part.first)
    draw(part.behind(node), canvas.below(f"node{node}"))


def _customdata(point: Mapping[str, Any]) -> Any:
    data = point.get("customdata")
    return data[0] if isinstance(data, list) and data else data


def _draw_map(part: Map, canvas: Canvas) -> None:
    by_group = st.session_state.get(_COLOUR) == part.table
    key = f"{part.table}.map"

    def choose() -> None:
        points: list[dict[str, Any]] = st.session_state[key]["selection"]["points"]
        group = _customdata(points[0]) if points else None
        if group:
            go_to(canvas.run, part.table, str(group))

    st.plotly_chart(
        point_map(part.points, part.chosen, by_group=by_group, height=370), key=key, selection_mode="points",
        on_select=choose, config=_QUIET | {"scrollZoom": True}, alt="Map",
    )  # fmt: skip
    colour, caption = st.columns([2, 3], vertical_alignment="center")
    colour.segmented_control(
        "Colour by", ["source", part.table], default="source", required=True, key=_COLOUR, label_visibility="collapsed",
        help="Red rings: what belongs to the chosen row. A click on a point chooses its row.",
    )  # fmt: skip
    caption.caption(part.caption, help=part.help)


def _draw_tabs(part: Tabs, canvas: Canvas) -> None:
    """Only the open tab is made: a drawing or a long conversation costs nothing until it is wanted."""
    kept = f"{canvas.table}.tab"
    titles = [tab.title for tab in part.tabs]
    default = st.session_state.get(kept)

    def keep() -> None:
        st.session_state[kept] = st.session_state[canvas.key]

    places = st.tabs(titles, key=canvas.key, default=default if default in titles else None, on_change=keep)
    for tab, place in zip(part.tabs, places, strict=True):
        if place.open:
            with place:
                draw(tab.parts(), canvas.below(tab.title))


def _draw_choice(part: Selector, canvas: Canvas) -> None:
    chosen = _pick_line(part, canvas) if part.options[0].cells else _pick_button(part, canvas)
    option = part.options[chosen]
    draw(option.parts(), canvas.below(f"option{chosen}"))


def _pick_line(part: Selector, canvas: Canvas) -> int:
    event = show_table(
        [{name: _plain(value) for name, value in option.cells.items()} for option in part.options],
        key=canvas.key, on_select="rerun", selection_mode="single-row",
        selection_default={"selection": {"rows": [part.first]}}, height=min(250, _HEAD + _ROW * len(part.options)),
    )  # fmt: skip
    rows = event["selection"]["rows"]
    return rows[0] if rows else part.first


def _pick_button(part: Selector, canvas: Canvas) -> int:
    number = st.segmented_control(
        part.label, range(len(part.options)), default=part.first, required=True, key=canvas.key, help=part.help or None,
        format_func=lambda number: part.options[number].title,
    )  # fmt: skip
    return number or 0


def _draw_columns(part: Columns, canvas: Canvas) -> None:
    places = st.columns(list(part.widths) or len(part.columns), gap="medium")
    for number, (place, parts) in enumerate(zip(places, part.columns, strict=True)):
        with place:
            draw(parts, canvas.below(number))


def _draw_fold(part: Fold, canvas: Canvas) -> None:
    with st.expander(visible(part.title), expanded=part.is_open):
        draw(part.parts, canvas)


_DRAWERS: Mapping[type[Part], Callable[[Any, Canvas], object]] = {
    DataTable: _draw_table,
    Diagram: _draw_graph,
    TreeDiagram: _draw_tree,
    Map: _draw_map,
    Tabs: _draw_tabs,
    Selector: _draw_choice,
    Columns: _draw_columns,
    Fold: _draw_fold,
    DecideLink: lambda part, canvas: show_link(part.table, part.uid, what=part.what),
    SearchOn: lambda part, canvas: search_table(canvas.run, part.table, part.words),
}
