"""The rows of a run's tables: a list to choose from, and the chosen row by its parts."""

from __future__ import annotations

import streamlit as st

from trailforge.inspector.showing import describe, kinds_of
from trailforge.inspector.views.drawing import Canvas, draw
from trailforge.inspector.views.picking import TABLE, pick
from trailforge.pipelines.runs.finished import OpenRun
from trailforge.pipelines.show.parts import Show, ShownTable

_HIGH, _LOW = 640, 200
"""Pixels of a list that stands beside the row, and of one above it."""


def show(run: OpenRun, show: Show) -> None:
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
