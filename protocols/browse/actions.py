"""The actions of a research agent's turn: it thinks, and searches, opens, finds or answers.

A turn holds one or several calls, or the answer. It has two writings, as tags in text (`tags.py`) and as native tool
calls (`native.py`); both read into the same `BrowseTurn`. A slip whose meaning is plain is mended and named in
`BrowseTurn.mends`. A call that cannot be carried out is a `BadCall`, to which the agent reads what is wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

BROWSE = "browse"
"""The name of the protocol, as a row's `protocol` gives it."""

Mend = Literal[
    "tag_spelling",
    "closing_tag",
    "opening_think",
    "closing_think",
    "untagged_thought",
    "surplus_thought",
    "missing_thought",
    "loose_text",
    "joined_lines",
    "untagged_answer",
    "call_in_text",
    "call_id",
    "tool_name",
    "arguments",
    "unknown_key",
    "text_for_number",
    "list_for_text",
]
"""The kinds of slip that are mended in a turn: the first eight in its tags, the next in the lines of a call, the others
in native calls.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAction:
    """A call that searches all pages for passages."""

    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAction:
    """A call that opens a part of a page."""

    page: str
    """The id of the page, as a result shows it."""
    part: int = 0
    """Number of the part to open, from 1. 0 opens the page at its beginning, or at the passage whose id was given as
    the page.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FindAction:
    """A call that looks for words in a page."""

    page: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BadCall:
    """A call that cannot be carried out as it is written, with the message that the agent reads."""

    name: str
    """The tool's name as the agent wrote it."""
    written: str
    """The arguments as the agent wrote them."""
    problem: str
    """What is wrong with the call, in words for the agent."""


Call = SearchAction | OpenAction | FindAction | BadCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A part of a page that the agent names as the source of what it says."""

    page: str
    part: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerAction:
    """The final answer, which ends the episode."""

    text: str
    citations: tuple[Citation, ...] = ()
    """The parts of pages that the last turn names, in order, each once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseTurn:
    """A parsed turn of the agent: either it calls tools, or it answers."""

    thought: str = ""
    said: str = ""
    """What the agent says beside native calls, or before the answer, for everybody to read. Tags have no room for it.
    """
    calls: tuple[Call, ...] = ()
    answer: AnswerAction | None = None
    call_ids: tuple[str, ...] = ()
    """The ids of the calls, in the order of the calls. Calls written as tags have none and are numbered by the episode.
    """
    mends: tuple[Mend, ...] = ()
    """The kinds of slip that were mended to read the turn, each once."""


_BRACKETS = re.compile(r"\[([^\[\]\n]{1,300})\]")
_AND = r"(?:\s*[,;]\s*(?:and\s+)?|\s+and\s+)"
_SOURCE = re.compile(
    rf"(?:([^\s,;]+)\s+|(.+?),\s*)"  # an id of several words has a comma after it: "Part 1" may be its end
    rf"(part\s+\d{{1,6}}(?:{_AND}part\s+\d{{1,6}})*|parts\s+\d{{1,6}}(?:{_AND}\d{{1,6}}(?!,?\s+part))*)(?:{_AND}|$)"
)
"""A page and its parts, of the sources that stand between two brackets."""


def citations_in(*texts: str) -> tuple[Citation, ...]:
    """Return the citations in texts, each once: `[page id, part 2]`, and lists such as `[one id, part 1, part 2]` and
    `[one id part 1; other id part 2]`.
    """
    found = (each for text in texts for sources in _BRACKETS.findall(text) for each in _cited(sources))
    return tuple(dict.fromkeys(found))


def _cited(sources: str) -> list[Citation]:
    """The parts that these name; none where something else stands between them."""
    found, at = list[Citation](), 0
    while at < len(sources):
        match = _SOURCE.match(sources, at)
        if match is None:
            return []
        page = (match[1] or match[2]).strip()
        found += [Citation(page=page, part=int(part)) for part in re.findall(r"\d+", match[3])]
        at = match.end()
    return found


def call_name(call: Call) -> str:
    """Return the name of the tool that a call is for."""
    match call:
        case SearchAction():
            return "search"
        case OpenAction():
            return "open"
        case FindAction():
            return "find"
        case BadCall():
            return call.name


def make_call(name: str, written: str, **given: str | int) -> Call:
    """Return the call of the tool `name` with the arguments `given`, or a `BadCall` that says why it cannot be carried
    out. `written` is the text of the arguments as the agent wrote them, which a `BadCall` keeps.
    """

    def text(key: str) -> str:
        return str(given.get(key, "")).strip()

    needed = {"search": ("query",), "open": ("page",), "find": ("page", "text")}
    if name not in needed:
        return BadCall(
            name=name, written=written, problem=f"there is no tool {name!r}; there are search, open and find"
        )
    if lacking := [key for key in needed[name] if not text(key)]:
        return BadCall(name=name, written=written, problem=f"{name} needs {' and '.join(lacking)}")
    if name == "search":
        return SearchAction(query=text("query"))
    if name == "find":
        return FindAction(page=text("page"), text=text("text"))
    part = given.get("part", 0)
    if not isinstance(part, int) or part < 0:
        return BadCall(name=name, written=written, problem="part has to be a number from 1 on")
    return OpenAction(page=text("page"), part=part)
