"""Print rows and figures of runs, evaluations and trainings in a terminal."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table as RichTable

from trailforge.evaluation.results import REPORT, write_report
from trailforge.inspector.evaluation_parts import describe_episode, describe_results, describe_steps
from trailforge.inspector.evaluations import OpenEpisodes, find_episodes, open_evaluation, open_training
from trailforge.inspector.showing import count_kinds, describe, find_rows, hints_of, kinds_of, product_of, show_of
from trailforge.inspector.terminal_drawing import table_of, text_of, view, views
from trailforge.pipelines.cards import describe_empty
from trailforge.pipelines.runs import OpenRun, explain_nothing, open_run, read_settings
from trailforge.schemas import Manifest


def show_rows(
    folder: Path, *, table: str = "", id: str | None = None, kind: str | None = None, search: str = "",
    lowest: str = "", count: int = 1,
) -> list[Any]:  # fmt: skip
    """Print rows of a run, and return them; several rows are printed in brief where the table has a brief form. Raises
    what `find_rows` raises.
    """
    run, console = open_run(folder), Console()
    found = find_rows(run, table=table, id=id, kind=kind, search=search, lowest=lowest, count=count)
    shown = show_of(run.dataset).table(found.table)
    is_brief = id is None and shown is not None and shown.brief is not None
    for number in found.numbers:
        console.print(brief_row(run, found.table, number) if is_brief else row(run, found.table, number))
    if found.elsewhere:
        console.print(text_of((f"Also in: {', '.join(found.elsewhere)} (--table)", "dim")))
    return [run.record(found.table, number) for number in found.numbers]


def show_evaluation(folder: Path, *, id: str | None = None, kind: str | None = None, count: int = 1) -> None:
    """Print the table of an evaluation, or its episodes with an id or of a kind. Raises `InvalidInput` when none
    matches."""
    opened, console = open_evaluation(folder), Console()
    if id is None and kind is None:
        console.print(Group(*views(describe_results(opened.table, is_brief=True))))
        if (folder / REPORT).is_file():
            console.print(text_of((f"All of it: {folder / REPORT}", "dim")), soft_wrap=True)
        return
    _show_episodes(opened, console, id=id, kind=kind, count=count)


def report_evaluation(folder: Path) -> None:
    """Write the report of an evaluation, print its table, and name the files that were written."""
    written = write_report(folder)
    show_evaluation(folder)
    print(*written, sep="\n")


def show_training(folder: Path, *, id: str | None = None, kind: str | None = None, count: int = 1) -> None:
    """Print the steps of a training, or its episodes with an id or of a kind. Raises `InvalidInput` when none
    matches."""
    opened, console = open_training(folder), Console()
    if id is None and kind is None:
        console.print(Group(*views(describe_steps(opened.episodes, is_brief=True))))
        return
    _show_episodes(opened, console, id=id, kind=kind, count=count)


def _show_episodes(opened: OpenEpisodes, console: Console, *, id: str | None, kind: str | None, count: int) -> None:
    for number in find_episodes(opened, id=id, kind=kind, count=count):
        console.print(view(describe_episode(opened.whole(number)), opened.episodes[number].uid, "episode"))


def show_first(manifest: Manifest, folder: Path) -> None:
    """Print the counts of a preview by stage and its first three rows, or the first three rejected ones where it has
    none.
    """
    run, console = open_run(folder), Console()
    console.print(figures(manifest, count_kinds(run)))
    table = product_of(run.dataset) if run.size(product_of(run.dataset)) else "rejected"
    for number in range(min(3, run.size(table))):
        console.print(row(run, table, number))
    settings = read_settings(folder)
    if settings is not None and (nothing := explain_nothing(manifest, settings, folder)):
        console.print(text_of((nothing, "bold red")), soft_wrap=True)


def show_end(manifest: Manifest, folder: Path) -> None:
    """Print what a user sees at the end of a run: its figures, one of its rows, and where to look further."""
    run, console = open_run(folder), Console()
    shown, product, at = show_of(run.dataset), product_of(run.dataset), shlex.quote(str(folder))
    console.print(figures(manifest, count_kinds(run)))
    if run.size(product):
        console.print(row(run, product, _example(run, product)))
    further = "".join(f"  trailforge show {at} {options}\n" for options in hints_of(run))
    beside = "".join(f"{use}: {folder}/{name}\n" for name, use in shown.beside.items() if (folder / name).exists())
    rows = f"{folder}/{product}/*.parquet"
    if not run.size(product):
        empty = describe_empty(manifest.stages)
        console.print(*([text_of((empty, "bold red"))] if empty else []))
        rows = "none" if empty else f"none asked for after {manifest.stages[-1].name}"
    end = f"\nRows: {rows}   Card: {folder}/README.md\n{beside}Look further:\n  trailforge inspect {at}\n{further}"
    console.print(text_of(f"{end}  trailforge verify {at}"), soft_wrap=True)


def _example(run: OpenRun, product: str) -> int:
    """A row that has a value in the first of two columns of kinds: a reflective trajectory, not a correct one."""
    table = show_of(run.dataset).table(product)
    kinds = list(kinds_of(run.dataset, table)) if table else []
    counts = run.table(product).counts(kinds[:1])[kinds[0]] if len(kinds) > 1 else Counter[str]()
    return run.find(product, next(iter(counts)), kinds[0]) or 0 if counts else 0


def row(run: OpenRun, table: str, number: int) -> RenderableType:
    """Return a drawing of a row of a run for the terminal."""
    return view(describe(run, table, number), run.row(table, number)[run.key_of(table)], table)


def brief_row(run: OpenRun, table: str, number: int) -> RenderableType:
    """Return a drawing of a row of a run in a few lines, as one of several."""
    return Group(*views(describe(run, table, number, is_brief=True)))


def figures(manifest: Manifest, kinds: Counter[str]) -> RenderableType:
    """Return a drawing of a run's funnel, its rows by kind, and their cost."""
    return Group(_funnel(manifest), _kinds(kinds), _cost(manifest))


def _funnel(manifest: Manifest) -> RichTable:
    names = ("stage", "in", "accepted", "rejected", "failed")
    table = table_of(names, right=("in", "accepted"), title=manifest.run_id)
    for line in manifest.stages:
        rejected = ", ".join(f"{c.reason} {c.count}" for c in line.rejected)
        failed = ", ".join(f"{c.reason} {c.count}" for c in line.failed)
        table.add_row(*map(text_of, (line.name, str(line.inputs), str(line.accepted), rejected, failed)))
    return table


def _kinds(kinds: Counter[str]) -> RichTable:
    table = table_of(kinds, right=kinds)
    table.add_row(*map(str, kinds.values()))
    return table


def _cost(manifest: Manifest) -> RichTable:
    names = ("calls", "cut", "prompt tokens", "completion tokens", "cost", "seconds", "calls per row", "cost per row")
    table = table_of(names, right=names)
    calls, cost = manifest.calls_per_accepted_row, manifest.cost_per_accepted_row
    table.add_row(
        f"{manifest.calls:,}",
        f"{manifest.cut_replies:,}",
        f"{manifest.prompt_tokens:,}",
        f"{manifest.completion_tokens:,}",
        f"{manifest.cost:.4f}",
        f"{manifest.seconds:.0f}",
        "-" if calls is None else f"{calls:.1f}",
        "-" if cost is None else f"{cost:.4f}",
    )
    return table
