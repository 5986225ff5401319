"""The parts that a row is shown by, and what a data set declares of what it shows.

A part is plain data with anyone's text in it; whoever draws it sees to it that nothing in a text acts. Kinds give parts
their colours: `gold`, `right`, `wrong`, `mended`, `step`, `quiet`, `strong`, `warn`, `hop0` to `hop3`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trailforge.pipelines.runs.finished import OpenRun
from trailforge.schemas import FilterScore, Message


class StyledText(NamedTuple):
    """A piece of text of one kind."""

    text: str
    kind: str = ""
    help: str = ""
    """Shown under the pointer."""


class Mark(NamedTuple):
    """A place in a text that is pointed out."""

    begin: int
    end: int
    kind: str


Line = str | Sequence[str | StyledText]


class Part:
    """Anything that can be drawn."""

    __slots__ = ()


Parts = Sequence[Part]
Lazy = Callable[[], Parts]
"""Parts that are made when somebody looks at them."""


@dataclass(frozen=True, slots=True)
class Title(Part):
    """What a row is about, in large letters."""

    text: str


@dataclass(frozen=True, slots=True)
class Chips(Part):
    """Short facts beside each other."""

    chips: Sequence[StyledText]


@dataclass(frozen=True, slots=True)
class FieldList(Part):
    """Names and what they stand for."""

    fields: Mapping[str, Line]


@dataclass(frozen=True, slots=True)
class Note(Part):
    """A line with a coloured edge."""

    line: Line
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ShortLine(Part):
    """A line of a list. Where there is no room for it, its end is cut, and never its beginning."""

    begin: Line
    end: Line = ""


@dataclass(frozen=True, slots=True)
class Code(Part):
    """Text whose lines and spaces count."""

    text: str


@dataclass(frozen=True, slots=True)
class Conversation(Part):
    """Turns as a trainer sees them; the gold answers are marked in what was found."""

    messages: Sequence[Message]
    golds: Sequence[str] = field(default=(), kw_only=True)
    notes: Mapping[int, StyledText] = field(default_factory=dict)
    """By number of a turn: a word on it, and its kind."""
    first: int = 0
    """Number of the first turn."""
    is_for_training: bool = True
    """Whether it is said which turns are trained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDocument:
    """A document or passage."""

    title: str
    text: str
    origin: Line = ""
    """What is known of where it comes from."""
    marks: Sequence[Mark] = ()
    """Places in `whole`; a pane opens at the first one but those of kind `shared`."""
    is_open: bool = True
    kind: str = ""

    @property
    def whole(self) -> str:
        """Title and text: a quote may stand in either."""
        return f"{self.title}\n{self.text}"


@dataclass(frozen=True, slots=True)
class DocumentPanes(Part):
    """Documents side by side, each in a column that scrolls; or, folded, under each other."""

    documents: Sequence[ShownDocument]
    is_folded: bool = False


@dataclass(frozen=True, slots=True)
class GridRow:
    """A line of a grid."""

    cells: Sequence[Parts | Line]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Grid(Part):
    """Cells that hold marked texts and documents; no widgets."""

    head: Sequence[str]
    rows: Sequence[GridRow]
    widths: Sequence[float] = ()
    """Shares of the width by column; equal where there are none."""


@dataclass(frozen=True, slots=True)
class Meters(Part):
    """Parts of a reward: a number, None where it is not known, and what it means."""

    parts: Mapping[str, tuple[float | None, str]]


@dataclass(frozen=True, slots=True)
class Scores(Part):
    """What each filter measured, with what the scores mean by the filter's name."""

    filters: Sequence[FilterScore]
    meanings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DataTable(Part):
    """Rows of plain values."""

    rows: Sequence[Mapping[str, Any]]
    help: Mapping[str, str] = field(default_factory=dict)
    """What columns mean."""
    height: int = 8
    """Rows that are shown before it scrolls."""


class DiagramNode(NamedTuple):
    """A box of a graph."""

    id: str
    lines: Sequence[str]
    """The first one is its name."""
    kind: str = ""
    is_strong: bool = False
    hover: str = ""


class DiagramEdge(NamedTuple):
    """An arrow of a graph."""

    source: str
    target: str
    text: str = ""
    kind: str = ""
    is_dashed: bool = False
    is_backward: bool = False
    """The head is at the source."""
    hover: str = ""


@dataclass(frozen=True, slots=True)
class Diagram(Part):
    """Boxes and arrows, from left to right or from the top down."""

    nodes: Sequence[DiagramNode]
    edges: Sequence[DiagramEdge]
    alt: str
    """What it is a drawing of."""
    is_downward: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNode:
    """A node of a search."""

    id: int
    parent: int | None
    depth: int
    visits: int
    value: float
    origin: str
    title: Line
    steps: Sequence[str]
    """Under the pointer, and in a terminal after the title."""
    below: Sequence[Line] = ()
    """In a terminal, a line each."""


class TreePath(NamedTuple):
    """A node to point out, with the way to it."""

    node: int
    name: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeDiagram(Part):
    """A search tree, sized by visits and coloured by value; a click on a node shows what is behind it."""

    head: Line
    nodes: Sequence[ShownNode]
    paths: Sequence[TreePath] = ()
    first: int = 0
    """The node that is shown before anybody clicks."""
    behind: Callable[[int], Parts]
    origins: Mapping[str, tuple[str, str]]
    """Shape (of Plotly) and meaning of each origin."""


@dataclass(frozen=True, slots=True)
class Tab:
    """A part of a row under its title."""

    title: str
    parts: Lazy
    brief: Lazy | None = None
    """What a terminal shows of it; None: nothing."""


def tab(title: str, parts: Lazy) -> Tab:
    """A tab that a terminal shows whole."""
    return Tab(title, parts, parts)


@dataclass(frozen=True, slots=True)
class Tabs(Part):
    """Only the open one is made; the same one is open at the next row."""

    tabs: Sequence[Tab]


@dataclass(frozen=True, slots=True)
class Option:
    """One of several things to look at."""

    title: str
    parts: Lazy
    cells: Mapping[str, Any] = field(default_factory=dict)
    """Of its line, where the options are a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector(Part):
    """One of several is shown at a time."""

    label: str
    options: Sequence[Option]
    first: int = 0
    help: str = ""


@dataclass(frozen=True, slots=True)
class Columns(Part):
    """Parts beside each other."""

    columns: Sequence[Parts]
    widths: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Fold(Part):
    """Parts that can be hidden."""

    title: str
    parts: Parts
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class DecideLink(Part):
    """The way to decide on a row."""

    table: str
    uid: str
    what: str = "row"


@dataclass(frozen=True, slots=True)
class SearchOn(Part):
    """A button, where a search in a table has not come to the table's end."""

    table: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPoint:
    """A point of a map; a click on it goes to a row."""

    x: float
    y: float
    hover: Sequence[str]
    source: str
    group: str
    """Key of the row that it belongs to; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Map(Part):
    """Points in the plane, coloured by source or by group, those of the chosen row on top."""

    points: Sequence[MapPoint]
    chosen: Sequence[MapPoint]
    table: str
    """To whose rows a click goes."""
    caption: str
    help: str


Describe = Callable[[OpenRun, Any], Parts]
"""Of a record of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTable:
    """A table whose rows people look at."""

    name: str
    title: str
    describe: Describe
    columns: Sequence[str] = ()
    """Of the list; a part of one as `reward.total`. Without any, rows have no list of their own."""
    more: Callable[[OpenRun], Mapping[str, Sequence[Any]]] | None = None
    """Columns that the table does not store, by name, with the value of each of its rows."""
    meanings: Callable[[OpenRun], Mapping[str, str]] | None = None
    """What columns of the list mean, by name."""
    brief: Describe | None = None
    """What a terminal shows of one of several rows; without it, and of a row that is asked for by its id, all."""
    keys: Sequence[str] = ("uid",)
    """Columns by which `show --id` finds a row."""
    kinds: Sequence[str] = ()
    """Columns of which the first that is not null is a row's kind; without any, those that the table declares."""
    values: Sequence[str] = ()
    """All kinds that there are."""
    is_list_beside: bool = False
    """Whether the list stands to the left of the row, not above it."""
    beside: Callable[[OpenRun, Any], Parts] | None = None
    """What is drawn beside a list above: of the chosen record, or of None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """What a data set shows."""

    path: str
    """Of the page's view."""
    title: str
    icon: str
    tables: Sequence[ShownTable]
    numbers: Mapping[str, str] = field(default_factory=dict)
    """Numbers whose distribution the overview draws, with their units."""
    hints: Sequence[str] = ()
    """Options of `trailforge show` that are worth a look."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Files beside the tables, with what they are for."""

    def table(self, name: str) -> ShownTable | None:
        """A table by name."""
        return next((table for table in self.tables if table.name == name), None)
