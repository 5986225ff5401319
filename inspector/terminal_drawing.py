"""Draw parts of a row, and what commands print beside them, in a terminal.

Passages and answers are anyone's text: nothing of them is read as markup, no control character reaches the terminal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table as RichTable
from rich.text import Text
from rich.tree import Tree as RichTree

from trailforge.inspector.visible_text import visible
from trailforge.pipelines.show import (
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
    ShortLine,
    ShownDocument,
    StyledText,
    Tabs,
    Title,
    TreeDiagram,
)
from trailforge.schemas import EntityMatch, KgTriple, Message

_SHOWN = 400
"""Characters of a document."""
_ROLES = {"system": "dim", "user": "bold cyan", "assistant": "green", "tool": "yellow"}
_STYLES = {
    "strong": "bold", "quiet": "dim", "right": "green", "gold": "green", "wrong": "red", "mended": "magenta",
    "warn": "yellow", "step": "cyan",
}  # fmt: skip


def view(parts: Parts, uid: str, table: str) -> RenderableType:
    """Return a drawing of the parts of a row, under its name."""
    return Group(Rule(style="dim"), text_of((f"{table} ", "dim"), (uid, "bold")), *views(parts))


def views(parts: Parts) -> list[RenderableType]:
    """Return drawings of those parts that a terminal can show."""
    makers = ((part, _MAKERS.get(type(part))) for part in parts)
    return [view for part, make in makers if make is not None and (view := make(part)) is not None]


def _title(part: Title) -> RenderableType:
    return text_of((part.text, "bold"))


def _chips(part: Chips) -> RenderableType:
    pieces = [(chip.text, _style(chip.kind) or "dim") for chip in part.chips]
    return text_of(*(each for piece in pieces for each in (piece, "  ")))


def _fields(part: FieldList) -> RenderableType:
    return Group(*(text_of(((name + " "), "dim"), *_pairs(line)) for name, line in part.fields.items()))


def _note(part: Note) -> RenderableType:
    text = text_of(*_pairs(part.line))
    text.style = _style(part.kind) if part.kind in ("wrong", "warn") else ""
    return Padding(text, (0, 0, 0, 2))


@dataclass(frozen=True, slots=True)
class _CutLine:
    """Only its end is cut."""

    begin: Text
    end: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width - self.begin.cell_len
        end = self.end.copy()
        end.truncate(max(room, 0), overflow="ellipsis")
        yield self.begin + end if room > 1 else self.begin


def _short_line(part: ShortLine) -> RenderableType:
    return _CutLine(text_of(*_pairs(part.begin)), text_of(*_pairs(part.end)))


def _code(part: Code) -> RenderableType:
    return Panel(text_of(part.text), border_style="green")


def _conversation(part: Conversation) -> RenderableType:
    return Group(*(_turn(message, part.is_for_training) for message in part.messages))


def _turn(message: Message, is_for_training: bool) -> RenderableType:
    trained = "" if message.train or not is_for_training else "  (not trained)"
    title = Text(f"{message.role}{trained}", style=_ROLES[message.role])
    return Panel(text_of(message.content), title=title, title_align="left", border_style=_ROLES[message.role])


def _documents(part: DocumentPanes) -> RenderableType:
    return Group(*map(_document, part.documents)) if part.documents else text_of(("no passage", "dim"))


def _document(document: ShownDocument) -> RenderableType:
    text = document.text[:_SHOWN] + (" …" if len(document.text) > _SHOWN else "")
    origin = (
        [text_of(*((piece, style or "dim") for piece, style in _pairs(document.origin)))] if document.origin else []
    )
    title = text_of(*_pairs(document.title))
    return Panel(Group(*origin, text_of(text)), title=title, title_align="left", border_style="dim")


def _grid(part: Grid) -> RenderableType:
    table = table_of(part.head, show_lines=True)
    for line in part.rows:
        table.add_row(*(_cell(cell) for cell in line.cells))
    return table


def table_of(
    names: Iterable[str], *, right: Container[str] = (), title: str = "", show_lines: bool = False
) -> RichTable:
    """Return a table without rows. `right` names the columns of numbers, which are right-aligned."""
    table = RichTable(title=text_of(title) if title else None, title_justify="left", show_lines=show_lines)
    for name in names:
        table.add_column(text_of(name), justify="right" if name in right else "left")
    return table


def _cell(cell: Parts | Line) -> RenderableType:
    parts: list[Any] = [cell] if isinstance(cell, str | StyledText) else list(cell)
    return Group(*views(parts)) if any(isinstance(each, Part) for each in parts) else text_of(*_pairs(parts))


def _meters(part: Meters) -> RenderableType:
    table = RichTable.grid(padding=(0, 2))
    for name, (value, meaning) in part.parts.items():
        table.add_row(text_of((name, "dim")), "unknown" if value is None else f"{value:.3f}", text_of((meaning, "dim")))
    return table


def _scores(part: Scores) -> RenderableType:
    """What was measured, in words; of what did not pass, which comes first, by its name: that says what is wrong."""
    table = RichTable.grid(padding=(0, 1))
    for score in sorted(part.filters, key=lambda score: score.passed):
        meaning, why = part.meanings.get(score.name, ""), f": {score.reason}" if score.reason else ""
        measured = f"{meaning} ({score.name})" if meaning else score.name
        told = (measured, "dim") if score.passed else (f"{score.name}{why}", "red")
        sign = ("✓", "green") if score.passed else ("✗", "red")
        more = [] if score.passed or not meaning else [(f" ({meaning})", "dim")]
        table.add_row(text_of(sign), text_of(f"{score.score:.3g}"), text_of(told, *more))
    return table


def _table(part: DataTable) -> RenderableType | None:
    if not part.rows:
        return None
    table = table_of(part.rows[0])
    for line in part.rows:
        table.add_row(*(text_of(f"{value:.3g}" if isinstance(value, float) else str(value)) for value in line.values()))
    return table


def _graph(part: Diagram) -> RenderableType:
    names = {node.id: node.lines[0] for node in part.nodes}
    ends = ((names.get(each.source, each.source), names.get(each.target, each.target), each) for each in part.edges)
    arrows = [
        text_of(f"  {source} ", ("<- " if edge.is_backward else "-> ", "dim"), target, (f"  {edge.text}", "dim"))
        for source, target, edge in ends
    ]
    return Group(text_of((f"{part.alt}:", "dim")), *arrows)


def _tree(part: TreeDiagram) -> RenderableType:
    """Plans with visits and values, and under each its rollouts."""
    root = RichTree(text_of(*_pairs(part.head)))
    branches: dict[int, RichTree] = {}
    for node in part.nodes:
        above = root if node.parent is None else branches[node.parent]
        steps = " | ".join(f"{number}. {text}" for number, text in enumerate(node.steps, start=1))
        title = text_of(*_pairs(node.title), f" N={node.visits} V={node.value:.2f}  ", steps)
        branches[node.id] = above.add(title)
        for line in node.below:
            branches[node.id].add(text_of(*_pairs(line)))
    return root


def _tabs(part: Tabs) -> RenderableType:
    return Group(*(each for tab in part.tabs if tab.brief for each in views(tab.brief())))


def _choice(part: Selector) -> RenderableType:
    return Group(
        *(each for option in part.options for each in (text_of((option.title, "bold")), *views(option.parts())))
    )


def _columns(part: Columns) -> RenderableType:
    return Group(*(view for parts in part.columns for view in views(parts)))


def _fold(part: Fold) -> RenderableType:
    return Group(text_of((part.title, "dim")), *views(part.parts))


_MAKERS: Mapping[type[Part], Callable[[Any], RenderableType | None]] = {
    Title: _title,
    Chips: _chips,
    FieldList: _fields,
    Note: _note,
    ShortLine: _short_line,
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


def kg_result(matches: Sequence[EntityMatch], triples: Sequence[KgTriple]) -> RenderableType:
    """Return a drawing of the entities that a name may mean, and of triples around the likeliest."""
    found = table_of(("entity", "label", "matched", "score"), right=("score",), title="entities")
    for match in matches:
        found.add_row(*map(text_of, (match.entity_id, match.label, match.name, f"{match.score:.2f}")))
    facts = table_of(("head", "relation", "tail"), title="triples")
    for triple in triples:
        facts.add_row(*map(text_of, (triple.head_label, triple.relation_label, triple.tail_label)))
    return Group(found, facts)


def show(view: RenderableType) -> None:
    """Print a drawing to the terminal."""
    Console().print(view)


def show_live(texts: Iterable[str]) -> None:
    """Print texts; on a terminal each replaces the one before."""
    console = Console()
    with Live(console=console, auto_refresh=False) if console.is_terminal else contextlib.nullcontext() as live:
        for text in texts:
            if live is not None:
                live.update(text_of(text), refresh=True)
            else:
                console.print(text_of(text), soft_wrap=True)


def text_of(*parts: str | tuple[str, str]) -> Text:
    """Join parts, with or without a style, literally: no markup is read, and control characters are removed."""
    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((visible(text), style) for text, style in pairs))
