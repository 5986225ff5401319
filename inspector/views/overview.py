"""Show what a run made, what it lost and why, what that cost, how much people decided, and how far they agree."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import streamlit as st

from trailforge.curation import LatestDecision, Merged, between_people, by_reason, with_filters
from trailforge.inspector import charts
from trailforge.inspector.showing import describe, kinds_of, product_of, show_of
from trailforge.inspector.views.drawing import Canvas, draw
from trailforge.inspector.views.frame import show_table
from trailforge.inspector.views.picking import list_rows, pick
from trailforge.inspector.visible_text import escape_text, visible
from trailforge.pipelines.runs import OpenRun
from trailforge.pipelines.search import Term

_KINDS = ("origin",)
"""Columns of kinds that any table may have."""
_CONFIG = {"displayModeBar": False}
_MOST_PAYLOADS = 50_000
"""Rejected rows that are read for the yield by kind; reading more would keep a person waiting."""


def show(run: OpenRun) -> None:
    """Show the figures of a run, with the rows behind what it rejected."""
    table = _main_table(run)
    _show_head(run, table)
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Funnel", help="Each stage counts its own things; a bar shows what became of them.")
        st.plotly_chart(charts.funnel(run.books), config=_CONFIG, key="funnel")
    with right:
        reason = _show_rejections(run)
    if reason:
        _show_rejected(run, reason)
    if table is None:
        st.info("No rows yet.")
        return
    kinds, numbers = read_figures(run)
    _show_kinds(run, table, kinds)
    _show_numbers(run, table, numbers)
    _show_origin(run)


def _main_table(run: OpenRun) -> str | None:
    shown = show_of(run.dataset)
    names = (product_of(run.dataset), *(table.name for table in shown.tables if table.columns))
    return next((name for name in names if name in run.tables), None)


def read_figures(run: OpenRun) -> tuple[Sequence[str], Mapping[str, str]]:
    """Read in one pass what is drawn of the rows of a run's main table. Return the columns of their kinds, and the
    paths of their numbers, each with its unit; nothing where it has no rows.
    """
    table, shown = _main_table(run), show_of(run.dataset)
    if table is None:
        return (), {}
    known, stored = shown.table(table), run.table(table).schema.names
    kinds = (*reversed(kinds_of(run.dataset, known) if known else ()), *_KINDS)
    kinds = [name for name in dict.fromkeys(kinds) if name in stored]
    numbers = {path: unit for path, unit in shown.numbers.items() if path in run.table(table).numbers()}
    run.table(table).read_ahead([*numbers], kinds)
    return kinds, numbers


def _show_head(run: OpenRun, table: str | None) -> None:
    state = "finished" if run.manifest else "not finished: what is shown is what its finished shards made"
    names = f"<b>{escape_text(run.run_id)}</b><span>{escape_text(str(run.folder))}</span>"
    st.html(f'<div class="runhead">{names}<span>{state}</span></div>')
    cells: dict[str, tuple[str, str | None]] = {}
    if table:
        cells[table.replace("_", " ")] = (f"{run.size(table):,}", "Rows that passed all filters.")
    if run.manifest:
        found = run.manifest
        per_row, cost = found.calls_per_accepted_row, found.cost_per_accepted_row
        tokens = found.prompt_tokens + found.completion_tokens
        cells |= {
            "model calls": (f"{found.calls:,}", f"Of {found.model}. Distinct calls behind the rows."),
            "calls per row": (f"{per_row:,.1f}" if per_row is not None else "–", "Per row that passed all filters."),
            "tokens": (_short(tokens), f"{found.prompt_tokens:,} of prompts, {found.completion_tokens:,} of replies."),
            "cut replies": (f"{found.cut_replies:,}", "Ended at the greatest length; --redo truncated asks anew."),
            "cost": (f"{found.cost:,.2f}", "At the preset's prices; 0 where it names none."),
            "cost per row": (f"{cost:,.4f}" if cost is not None else "–", "Per row that passed all filters."),
            "wall time": (_time(found.seconds), "Of the process that finished the run."),
        }
    for column, (name, (value, help_)) in zip(st.columns(max(len(cells), 1)), cells.items(), strict=False):
        column.metric(name, value, help=help_)


def _show_rejections(run: OpenRun) -> str | None:
    """Bars of reasons; the one that a person clicks."""
    st.subheader("Rejected, by reason", help="A click on a bar lists its rows.")
    by_reason: Counter[str] = Counter()
    for (_, reason), count in run.rejections.items():
        by_reason[reason] += count
    if not by_reason:
        st.info("Nothing was rejected.")
        return None
    return _click(charts.bars(by_reason), "rejections")


def _show_rejected(run: OpenRun, reason: str) -> None:
    with st.container(border=True):
        st.html(f"<b>Rejected: {escape_text(reason)}</b>")
        if "rejected" not in run.tables or reason not in run.table("rejected").counts(["reason"])["reason"]:
            st.info("These items were counted and have no row of their own: see the stage in the card.")
            return
        number = pick(run, "rejected", ("uid", "stage", "score", "detail"), kind="reason", only=reason)
        if number is not None:
            with st.container(height=460):
                uid = run.row("rejected", number)["uid"]
                draw(describe(run, "rejected", number), Canvas(run, "rejected", f"overview.{uid}"))


def _show_kinds(run: OpenRun, table: str, kinds: Sequence[str]) -> None:
    """Rows by what they are; for kinds that rejected rows tell too, how many of each were lost."""
    if not kinds:
        return
    st.subheader(
        "Yield by kind",
        help="What passed all filters, and what the filters rejected, where that is told. A click on a bar lists the "
        "rows that passed.",
    )
    counts = run.table(table).counts(kinds)
    for place, (name, kept) in zip(st.columns(len(kinds)), counts.items(), strict=True):
        with place:
            st.caption(name.replace("_", " "))
            parts: dict[str, tuple[str, Mapping[str, int]]] = {"kept": (charts.KEPT, kept)}
            if 0 < run.size("rejected") <= _MOST_PAYLOADS:
                parts["rejected"] = (charts.GONE, run.count_rejected(table, name))
            value = _click(charts.draw_stacked(parts), f"kind.{name}")
            if isinstance(value, str):
                list_rows(table, Term(value, name, "="))


def _show_numbers(run: OpenRun, table: str, units: Mapping[str, str]) -> None:
    st.subheader("Distributions", help="A click on a bar lists its rows.")
    places = st.columns(3)
    for number, (path, unit) in enumerate(units.items()):
        values = run.table(table).values(path)
        with places[number % 3]:
            if np.isnan(values).all():
                continue
            st.caption(f"{unit}: median {np.nanmedian(values):.4g}, {np.nanmin(values):.4g} to {np.nanmax(values):.4g}")
            clicked = _click(charts.histogram(values, unit), f"number.{path}")
            if clicked is not None:
                list_rows(table, *terms_between(path, *clicked))


def terms_between(path: str, low: float, end: float, has_end: float) -> tuple[Term, ...]:
    """Return the search that finds the rows of a histogram's bar, from the bar's `customdata` (see
    `charts.histogram`).
    """
    if low == end:
        return (Term(f"{low:.0f}", path, "="),)
    return Term(repr(low), path, ">="), Term(repr(end), path, "<=" if has_end else "<")


def _click(figure: Any, key: str) -> Any:
    """The chart, and the `customdata` of the bar that a person clicked."""
    event: Any = st.plotly_chart(figure, config=_CONFIG, key=key, on_select="rerun", selection_mode="points")
    points = event["selection"]["points"]
    return points[0]["customdata"] if points else None


def _show_origin(run: OpenRun) -> None:
    with st.expander("Settings, sources and tables"):
        show_table([{"table": name, "rows": run.size(name)} for name in run.tables])
        st.code("\n".join(run.sources), language=None)
        st.json(run.config, expanded=False)


def _short(number: int) -> str:
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return str(number)


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if seconds < 120 else f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def show_agreement(run: OpenRun, tables: Sequence[str], stances: Sequence[LatestDecision], decided: Merged) -> None:
    """Show how far people agree with each other and with the filters. `tables` are those on whose rows people
    decide.
    """
    if not stances:
        st.info("Nobody has decided on a row yet.")
        return
    counts = Counter((each.table, each.action) for each in decided.rulings)
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Progress")
        show_table(
            [
                {
                    "table": name, "rows": run.size(name), "accepted": counts[name, "accept"],
                    "fixed": counts[name, "fix"], "rejected": counts[name, "reject"],
                }
                for name in tables if run.size(name)
            ],
        )  # fmt: skip
        st.subheader(
            "Between people and filters", help="Rows of the tables passed all filters; those of rejected/ did not."
        )
        show_table(
            [
                {
                    "who": visible(each.who),
                    "filters kept": each.accepted, "kept too": _share(each.accepted_too, each.accepted),
                    "filters rejected": each.rejected, "rejected too": _share(each.rejected_too, each.rejected),
                }
                for each in with_filters(stances)
            ],
        )  # fmt: skip
    with right:
        st.subheader("Between people", help="Cohen's kappa: 1 is full agreement, 0 what chance gives.")
        pairs = [
            {
                "two people": visible(" and ".join(each.people)), "rows of both": each.rows,
                "agree": _share(each.same, each.rows), "kappa": each.kappa,
            }
            for each in between_people(stances)
        ]  # fmt: skip
        if pairs:
            show_table(pairs, column_config={"kappa": st.column_config.NumberColumn(format="%.2f")})
        else:
            st.info("No row has been decided by two people.")
        _show_reasons(stances)
        _show_conflicts(decided)
    st.caption("The curated data set is made of these decisions by:")
    command = ["trailforge", "curate", "apply", str(run.folder), "--out", f"{run.folder}-curated"]
    st.code(shlex.join(command), language="bash")


def _show_reasons(stances: Sequence[LatestDecision]) -> None:
    found = by_reason(stances)
    if not found:
        return
    st.subheader(
        "By reason",
        help="Of pairs of people on one row of whom at least one gives the reason, how many both give it.",
    )
    rows = [
        {
            "reason": visible(each.reason), "given": each.given, "pairs": each.pairs,
            "agree": _share(each.same, each.pairs), "kappa": each.kappa,
        }
        for each in found
    ]  # fmt: skip
    show_table(rows, column_config={"kappa": st.column_config.NumberColumn(format="%.2f")})


def _show_conflicts(decided: Merged) -> None:
    st.subheader("Where people differ")
    if not decided.conflicts:
        st.info("Nowhere.")
        return
    rows = [
        {"table": each.table, "row": visible(each.uid), "field": visible(each.field),
         "said": visible(", ".join(f"{who}: {what}" for who, what in each.sides))}
        for each in decided.conflicts
    ]  # fmt: skip
    show_table(rows)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"
