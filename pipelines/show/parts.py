"""Define the parts by which a row is shown, and how a data set declares what it shows.

A part is plain data with anyone's text in it; the code that draws it keeps such text from acting. Kinds give parts
their colours: `gold`, `right`, `wrong`, `mended`, `step`, `quiet`, `strong`, `warn`, `hop0` to `hop3`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trailforge.pipelines.runs.finished import OpenRun
from trailforge.schemas import FilterScore, Message


class StyledText(NamedTuple):
    """A piece of text with a kind, which gives its colour."""

    text: str
    kind: str = ""
    help: str = ""
    """Help that is shown under the pointer."""


class Mark(NamedTuple):
    """A place in a text that is highlighted."""

    begin: int
    end: int
    kind: str


Line = str | Sequence[str | StyledText]


class Part:
    """Anything that can be drawn."""

    __slots__ = ()


Parts = Sequence[Part]
Lazy = Callable[[], Parts]
"""A function that makes parts, called when a person looks at them."""


@dataclass(frozen=True, slots=True)
class Title(Part):
    """A title in large letters that says what a row is about."""

    text: str


@dataclass(frozen=True, slots=True)
class Chips(Part):
    """Short facts, drawn beside each other."""

    chips: Sequence[StyledText]


@dataclass(frozen=True, slots=True)
class FieldList(Part):
    """A list of names with their values."""

    fields: Mapping[str, Line]


@dataclass(frozen=True, slots=True)
class Note(Part):
    """A line of text with a coloured edge."""

    line: Line
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ShortLine(Part):
    """A line of a list. Where there is no room for it, its end is cut, and never its beginning."""

    begin: Line
    end: Line = ""


@dataclass(frozen=True, slots=True)
class Code(Part):
    """Text that is shown with its line breaks and spaces."""

    text: str


@dataclass(frozen=True, slots=True)
class Conversation(Part):
    """The turns of a conversation as a trainer sees them; gold answers are marked in what was found."""

    messages: Sequence[Message]
    golds: Sequence[str] = field(default=(), kw_only=True)
    notes: Mapping[int, StyledText] = field(default_factory=dict)
    """A note on a turn and the note's kind, by the number of the turn."""
    first: int = 0
    """Number of the first turn."""
    is_for_training: bool = True
    """Whether the turns that are trained are pointed out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDocument:
    """A document or passage that is shown with marks in its text."""

    title: str
    text: str
    origin: Line = ""
    """A line that says where the document comes from."""
    marks: Sequence[Mark] = ()
    """Marked places in `whole`; a pane opens at the first one that is not of kind `shared`."""
    is_open: bool = True
    kind: str = ""

    @property
    def whole(self) -> str:
        """Return title and text in one, since a quote may be in either."""
        return f"{self.title}\n{self.text}"


@dataclass(frozen=True, slots=True)
class DocumentPanes(Part):
    """Documents side by side, each in a column that scrolls, or one below another when folded."""

    documents: Sequence[ShownDocument]
    is_folded: bool = False


@dataclass(frozen=True, slots=True)
class GridRow:
    """A line of a `Grid`."""

    cells: Sequence[Parts | Line]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Grid(Part):
    """A grid of cells with marked texts and documents, which holds no widgets."""

    head: Sequence[str]
    rows: Sequence[GridRow]
    widths: Sequence[float] = ()
    """Shares of the width by column; empty: all columns are equal."""


@dataclass(frozen=True, slots=True)
class Meters(Part):
    """Meters for the parts of a reward: each has a number (None where it is not known) and its meaning."""

    parts: Mapping[str, tuple[float | None, str]]


@dataclass(frozen=True, slots=True)
class Scores(Part):
    """The score of each filter, with the meanings of scores by the filter's name."""

    filters: Sequence[FilterScore]
    meanings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DataTable(Part):
    """A table of plain values."""

    rows: Sequence[Mapping[str, Any]]
    help: Mapping[str, str] = field(default_factory=dict)
    """Meaning of columns, by name."""
    height: int = 8
    """Number of rows that are shown before the table scrolls."""


class DiagramNode(NamedTuple):
    """A box of a `Diagram`."""

    id: str
    lines: Sequence[str]
    """Lines of text in the box; the first is its name."""
    kind: str = ""
    is_strong: bool = False
    hover: str = ""


class DiagramEdge(NamedTuple):
    """An arrow of a `Diagram`."""

    source: str
    target: str
    text: str = ""
    kind: str = ""
    is_dashed: bool = False
    is_backward: bool = False
    """Whether the arrow's head is at its source."""
    hover: str = ""


@dataclass(frozen=True, slots=True)
class Diagram(Part):
    """Boxes and arrows, drawn from left to right or from the top down."""

    nodes: Sequence[DiagramNode]
    edges: Sequence[DiagramEdge]
    alt: str
    """Text that says what the diagram shows, in place of it."""
    is_downward: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNode:
    """A node of a search tree as it is drawn."""

    id: int
    parent: int | None
    depth: int
    visits: int
    value: float
    origin: str
    title: Line
    steps: Sequence[str]
    """Lines that are shown under the pointer, and in a terminal after the title."""
    below: Sequence[Line] = ()
    """Lines that a terminal shows below the node."""


class TreePath(NamedTuple):
    """A path of the tree that is highlighted, from the root to a node."""

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
    """Number of the node that is shown before a person clicks."""
    behind: Callable[[int], Parts]
    origins: Mapping[str, tuple[str, str]]
    """Shape (of Plotly) and meaning of each origin of a node."""


@dataclass(frozen=True, slots=True)
class Tab:
    """Parts of a row under a title of their own."""

    title: str
    parts: Lazy
    brief: Lazy | None = None
    """Makes the parts that a terminal shows of the tab; None: it shows none."""


def tab(title: str, parts: Lazy) -> Tab:
    """Make a tab that a terminal shows whole."""
    return Tab(title, parts, parts)


@dataclass(frozen=True, slots=True)
class Tabs(Part):
    """Tabs of which only the open one is drawn; the same one is open at the next row."""

    tabs: Sequence[Tab]


@dataclass(frozen=True, slots=True)
class Option:
    """One of the choices of a `Selector`."""

    title: str
    parts: Lazy
    cells: Mapping[str, Any] = field(default_factory=dict)
    """Cells of the option's line, where the options are a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector(Part):
    """Several things to look at, of which one is shown at a time."""

    label: str
    options: Sequence[Option]
    first: int = 0
    help: str = ""


@dataclass(frozen=True, slots=True)
class Columns(Part):
    """Parts that are drawn beside each other."""

    columns: Sequence[Parts]
    widths: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Fold(Part):
    """Parts that a person can hide and show."""

    title: str
    parts: Parts
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class DecideLink(Part):
    """A link to the view where people decide on a row."""

    table: str
    uid: str
    what: str = "row"


@dataclass(frozen=True, slots=True)
class SearchOn(Part):
    """A button to continue a search that has not reached the table's end."""

    table: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPoint:
    """A point of a map; a click on it leads to a row."""

    x: float
    y: float
    hover: Sequence[str]
    source: str
    group: str
    """Key of the row that the point belongs to; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Map(Part):
    """Points in the plane, coloured by source or by group, those of the chosen row on top."""

    points: Sequence[MapPoint]
    chosen: Sequence[MapPoint]
    table: str
    """Name of the table to whose rows a click leads."""
    caption: str
    help: str


Describe = Callable[[OpenRun, Any], Parts]
"""A function that makes the parts of a record of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTable:
    """A table whose rows are shown to people."""

    name: str
    title: str
    describe: Describe
    columns: Sequence[str] = ()
    """Columns of the list of rows (`reward.total` for a part of one). Without any, rows have no list of their own."""
    more: Callable[[OpenRun], Mapping[str, Sequence[Any]]] | None = None
    """Columns that the table does not store, by name, with the value of each of its rows."""
    meanings: Callable[[OpenRun], Mapping[str, str]] | None = None
    """Meaning of columns of the list, by name; None: none are given."""
    brief: Describe | None = None
    """What a terminal shows of one row among several; None: all of it, as for a row that is asked for by its id."""
    keys: Sequence[str] = ("uid",)
    """Columns by which `show --id` finds a row."""
    kinds: Sequence[str] = ()
    """Columns that hold a row's kind, the first that is not null; empty: those that the table declares."""
    values: Sequence[str] = ()
    """All values that a row's kind can have."""
    is_list_beside: bool = False
    """Whether the list stands to the left of the row, and not above it."""
    beside: Callable[[OpenRun, Any], Parts] | None = None
    """Parts beside a list that stands above the row, for the chosen record, or for None when none is chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """The declaration of what a data set shows of its runs, in a terminal and on the page."""

    path: str
    """Path of the page's view in the address."""
    title: str
    icon: str
    tables: Sequence[ShownTable]
    numbers: Mapping[str, str] = field(default_factory=dict)
    """Paths of numbers whose distribution the overview draws, with their units."""
    hints: Sequence[str] = ()
    """Options of `trailforge show` that find rows worth a look."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Names of files beside the tables, with what they are for."""

    def table(self, name: str) -> ShownTable | None:
        """Return the shown table with this name; None when there is none."""
        return next((table for table in self.tables if table.name == name), None)
