"""Rows and figures of a run in a terminal.

Passages and answers are anyone's text: nothing of them is read as markup, no control character reaches the terminal.
"""

from __future__ import annotations

import contextlib
import shlex
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table as RichTable
from rich.text import Text
from rich.tree import Tree as RichTree

from trailforge.evaluation.report import REPORT
from trailforge.inspector.evaluation_parts import describe_episode, describe_results, describe_steps
from trailforge.inspector.evaluations import OpenEpisodes, find_episodes, open_evaluation, open_training
from trailforge.inspector.showing import count_kinds, describe, find_rows, hints_of, kinds_of, product_of, show_of
from trailforge.inspector.visible_text import visible
from trailforge.pipelines.cards.card import describe_empty
from trailforge.pipelines.runs.finish import explain_nothing
from trailforge.pipelines.runs.finished import OpenRun, open_run
from trailforge.pipelines.runs.intake import read_settings
from trailforge.pipelines.show.parts import (
    Chips,
    Code,
    Columns,
    Conversation,
    DataTable,
    Diagram,
    DocumentPanes,
    FieldList,
    Fold,
    Grid,
    Line,
    Meters,
    Note,
    Part,
    Parts,
    Scores,
    Selector,
    ShownDocument,
    StyledText,
    Tabs,
    Title,
    TreeDiagram,
)
from trailforge.schemas import EntityMatch, KgTriple, Manifest, Message

_SHOWN = 400
"""Characters of a document."""
_ROLES = {"system": "dim", "user": "bold cyan", "assistant": "green", "tool": "yellow"}
_STYLES = {
    "strong": "bold", "quiet": "dim", "right": "green", "gold": "green", "wrong": "red", "mended": "magenta",
    "warn": "yellow", "step": "cyan",
}  # fmt: skip


def show_rows(folder: Path, *, table: str = "", id: str | None = None, kind: str | None = None, count: int = 1) -> None:
    """Print rows of a run. Raises `InvalidInput` when none matches."""
    run, console = open_run(folder), Console()
    found = find_rows(run, table=table, id=id, kind=kind, count=count)
    for number in found.numbers:
        console.print(row(run, found.table, number))
    if found.elsewhere:
        console.print(_text((f"Also in: {', '.join(found.elsewhere)} (--table)", "dim")))


def show_evaluation(folder: Path, *, id: str | None = None, kind: str | None = None, count: int = 1) -> None:
    """Print the table of an evaluation, or with an id or a kind episodes. Raises `InvalidInput` when none matches."""
    opened, console = open_evaluation(folder), Console()
    if id is None and kind is None:
        console.print(Group(*_views(describe_results(opened.table, is_brief=True))))
        if (folder / REPORT).is_file():
            console.print(_text((f"All of it: {folder / REPORT}", "dim")), soft_wrap=True)
        return
    _show_episodes(opened, console, id=id, kind=kind, count=count)


def show_training(folder: Path, *, id: str | None = None, kind: str | None = None, count: int = 1) -> None:
    """Print the steps of a training, or with an id or a kind episodes. Raises `InvalidInput` when none matches."""
    opened, console = open_training(folder), Console()
    if id is None and kind is None:
        console.print(Group(*_views(describe_steps(opened.episodes, is_brief=True))))
        return
    _show_episodes(opened, console, id=id, kind=kind, count=count)


def _show_episodes(opened: OpenEpisodes, console: Console, *, id: str | None, kind: str | None, count: int) -> None:
    for number in find_episodes(opened, id=id, kind=kind, count=count):
        console.print(view(describe_episode(opened.whole(number)), opened.episodes[number].uid, "episode"))


def show_first(manifest: Manifest, folder: Path) -> None:
    """Print the books of a preview and its first three rows, of none the first three rejected ones."""
    run, console = open_run(folder), Console()
    console.print(figures(manifest, count_kinds(run)))
    table = product_of(run.dataset) if run.size(product_of(run.dataset)) else "rejected"
    for number in range(min(3, run.size(table))):
        console.print(row(run, table, number))
    settings = read_settings(folder)
    if settings is not None and (nothing := explain_nothing(manifest, settings, folder)):
        console.print(_text((nothing, "bold red")), soft_wrap=True)


def show_end(manifest: Manifest, folder: Path) -> None:
    """Print what a person sees at the end of a run: its figures, one of its rows, and where to look further."""
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
        console.print(*([_text((empty, "bold red"))] if empty else []))
        rows = "none" if empty else f"none asked for after {manifest.stages[-1].name}"
    end = f"\nRows: {rows}   Card: {folder}/README.md\n{beside}Look further:\n  trailforge inspect {at}\n{further}"
    console.print(_text(f"{end}  trailforge verify {at}"), soft_wrap=True)


def _example(run: OpenRun, product: str) -> int:
    """A row that has a value in the first of two columns of kinds: a reflective trajectory, not a correct one."""
    table = show_of(run.dataset).table(product)
    kinds = list(kinds_of(run.dataset, table)) if table else []
    counts = run.table(product).counts(kinds[:1])[kinds[0]] if len(kinds) > 1 else Counter[str]()
    return run.find(product, next(iter(counts)), kinds[0]) or 0 if counts else 0


def row(run: OpenRun, table: str, number: int) -> RenderableType:
    """A row of a run."""
    return view(describe(run, table, number), run.row(table, number)[run.key_of(table)], table)


def view(parts: Parts, uid: str, table: str) -> RenderableType:
    """Parts of a row, under its name."""
    return Group(Rule(style="dim"), _text((f"{table} ", "dim"), (uid, "bold")), *_views(parts))


def _views(parts: Parts) -> list[RenderableType]:
    """Of those parts that a terminal can show."""
    makers = ((part, _MAKERS.get(type(part))) for part in parts)
    return [view for part, make in makers if make is not None and (view := make(part)) is not None]


def _title(part: Title) -> RenderableType:
    return _text((part.text, "bold"))


def _chips(part: Chips) -> RenderableType:
    pieces = [(chip.text, _style(chip.kind) or "dim") for chip in part.chips]
    return _text(*(each for piece in pieces for each in (piece, "  ")))


def _fields(part: FieldList) -> RenderableType:
    return Group(*(_text(((name + " "), "dim"), *_pairs(line)) for name, line in part.fields.items()))


def _note(part: Note) -> RenderableType:
    text = _text(*_pairs(part.line))
    text.style = _style(part.kind) if part.kind in ("wrong", "warn") else ""
    return Padding(text, (0, 0, 0, 2))


def _code(part: Code) -> RenderableType:
    return Panel(_text(part.text), border_style="green")


def _conversation(part: Conversation) -> RenderableType:
    return Group(*(_turn(message, part.is_for_training) for message in part.messages))


def _turn(message: Message, is_for_training: bool) -> RenderableType:
    trained = "" if message.train or not is_for_training else "  (not trained)"
    title = Text(f"{message.role}{trained}", style=_ROLES[message.role])
    return Panel(_text(message.content), title=title, title_align="left", border_style=_ROLES[message.role])


def _documents(part: DocumentPanes) -> RenderableType:
    return Group(*map(_document, part.documents)) if part.documents else _text(("no passage", "dim"))


def _document(document: ShownDocument) -> RenderableType:
    text = document.text[:_SHOWN] + (" …" if len(document.text) > _SHOWN else "")
    title = _text(*_pairs(document.title), "  ", *_pairs(document.origin))
    return Panel(_text(text), title=title, title_align="left", border_style="dim")


def _grid(part: Grid) -> RenderableType:
    table = _headed(part.head, show_lines=True)
    for line in part.rows:
        table.add_row(*(_cell(cell) for cell in line.cells))
    return table


def _headed(
    names: Iterable[str], *, right: Container[str] = (), title: str = "", show_lines: bool = False
) -> RichTable:
    """A table without rows. `right`: columns of numbers."""
    table = RichTable(title=_text(title) if title else None, title_justify="left", show_lines=show_lines)
    for name in names:
        table.add_column(_text(name), justify="right" if name in right else "left")
    return table


def _cell(cell: Parts | Line) -> RenderableType:
    parts: list[Any] = [cell] if isinstance(cell, str | StyledText) else list(cell)
    return Group(*_views(parts)) if any(isinstance(each, Part) for each in parts) else _text(*_pairs(parts))


def _meters(part: Meters) -> RenderableType:
    table = RichTable.grid(padding=(0, 2))
    for name, (value, meaning) in part.parts.items():
        table.add_row(_text((name, "dim")), "unknown" if value is None else f"{value:.3f}", _text((meaning, "dim")))
    return table


def _scores(part: Scores) -> RenderableType:
    pieces = [(f"{score.name} {score.score:g}", "" if score.passed else "red") for score in part.filters]
    return _text(*(each for piece in pieces for each in (piece, "  ")))


def _table(part: DataTable) -> RenderableType | None:
    if not part.rows:
        return None
    table = _headed(part.rows[0])
    for line in part.rows:
        table.add_row(*(_text(f"{value:.3g}" if isinstance(value, float) else str(value)) for value in line.values()))
    return table


def _graph(part: Diagram) -> RenderableType:
    names = {node.id: node.lines[0] for node in part.nodes}
    ends = ((names.get(each.source, each.source), names.get(each.target, each.target), each) for each in part.edges)
    arrows = [
        _text(f"  {source} ", ("<- " if edge.is_backward else "-> ", "dim"), target, (f"  {edge.text}", "dim"))
        for source, target, edge in ends
    ]
    return Group(_text((f"{part.alt}:", "dim")), *arrows)


def _tree(part: TreeDiagram) -> RenderableType:
    """Plans with visits and values, and under each its rollouts."""
    root = RichTree(_text(*_pairs(part.head)))
    branches: dict[int, RichTree] = {}
    for node in part.nodes:
        above = root if node.parent is None else branches[node.parent]
        steps = " | ".join(f"{number}. {text}" for number, text in enumerate(node.steps, start=1))
        title = _text(*_pairs(node.title), f" N={node.visits} V={node.value:.2f}  ", steps)
        branches[node.id] = above.add(title)
        for line in node.below:
            branches[node.id].add(_text(*_pairs(line)))
    return root


def _tabs(part: Tabs) -> RenderableType:
    return Group(*(view for tab in part.tabs if tab.brief for view in _views(tab.brief())))


def _choice(part: Selector) -> RenderableType:
    views = [view for option in part.options for view in (_text((option.title, "bold")), *_views(option.parts()))]
    return Group(*views)


def _columns(part: Columns) -> RenderableType:
    return Group(*(view for parts in part.columns for view in _views(parts)))


def _fold(part: Fold) -> RenderableType:
    return Group(_text((part.title, "dim")), *_views(part.parts))


_MAKERS: Mapping[type[Part], Callable[[Any], RenderableType | None]] = {
    Title: _title,
    Chips: _chips,
    FieldList: _fields,
    Note: _note,
    Code: _code,
    Conversation: _conversation,
    DocumentPanes: _documents,
    Grid: _grid,
    Meters: _meters,
    Scores: _scores,
    DataTable: _table,
    Diagram: _graph,
    TreeDiagram: _tree,
    Tabs: _tabs,
    Selector: _choice,
    Columns: _columns,
    Fold: _fold,
}


def _style(kind: str) -> str:
    return "cyan" if kind.startswith("hop") else _STYLES.get(kind, "")


def _pairs(line: Line) -> list[tuple[str, str]]:
    parts: list[Any] = [line] if isinstance(line, str | StyledText) else list(line)
    return [(part.text, _style(part.kind)) if isinstance(part, StyledText) else (part, "") for part in parts]


def figures(manifest: Manifest, kinds: Counter[str]) -> RenderableType:
    """Funnel, rows by kind, and what they cost."""
    return Group(_funnel(manifest), _kinds(kinds), _cost(manifest))


def kg_result(matches: Sequence[EntityMatch], triples: Sequence[KgTriple]) -> RenderableType:
    """Entities that a mention may mean, and triples around the likeliest."""
    found = _headed(("entity", "label", "matched", "score"), right=("score",), title="entities")
    for match in matches:
        found.add_row(*map(_text, (match.entity_id, match.label, match.name, f"{match.score:.2f}")))
    facts = _headed(("head", "relation", "tail"), title="triples")
    for triple in triples:
        facts.add_row(*map(_text, (triple.head_label, triple.relation_label, triple.tail_label)))
    return Group(found, facts)


def show(view: RenderableType) -> None:
    """Print a view."""
    Console().print(view)


def show_live(texts: Iterable[str]) -> None:
    """Print texts, on a terminal each in place of the one before."""
    console = Console()
    with Live(console=console, auto_refresh=False) if console.is_terminal else contextlib.nullcontext() as live:
        for text in texts:
            if live is not None:
                live.update(_text(text), refresh=True)
            else:
                console.print(_text(text), soft_wrap=True)


def _funnel(manifest: Manifest) -> RichTable:
    names = ("stage", "in", "accepted", "rejected", "failed")
    table = _headed(names, right=("in", "accepted"), title=manifest.run_id)
    for line in manifest.stages:
        rejected = ", ".join(f"{c.reason} {c.count}" for c in line.rejected)
        failed = ", ".join(f"{c.reason} {c.count}" for c in line.failed)
        table.add_row(*map(_text, (line.name, str(line.inputs), str(line.accepted), rejected, failed)))
    return table


def _kinds(kinds: Counter[str]) -> RichTable:
    table = _headed(kinds, right=kinds)
    table.add_row(*map(str, kinds.values()))
    return table


def _cost(manifest: Manifest) -> RichTable:
    names = ("calls", "cut", "prompt tokens", "completion tokens", "cost", "seconds", "calls per row", "cost per row")
    table = _headed(names, right=names)
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


def _text(*parts: str | tuple[str, str]) -> Text:
    """Parts, with or without a style, as they stand: no markup, no control characters."""
    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((visible(text), style) for text, style in pairs))
