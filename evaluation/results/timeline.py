"""Describe the calls of a research agent on one line each, quick to read at a hundred calls."""

from __future__ import annotations

from trailforge.pipelines.show import Chips, Grid, GridRow, Note, Parts, StyledText
from trailforge.protocols.browse import longest_dead_end, timeline_of
from trailforge.schemas import BrowseRecord, to_dict

_LONGEST = 160
"""Characters of a line."""
_MARKS = {"search": "? search", "open": "> open", "find": "= find", "": "! no tool"}


def describe_timeline(record: BrowseRecord) -> Parts:
    """Describe an episode by its figures and one line a call: what was called, what it returned, and what of that the
    answer cites.
    """
    figures = {name: value for name, value in to_dict(record.figures).items() if value is not None}
    figures["longest_dead_end"] = longest_dead_end(record)
    figures["mended_mistakes"] = len(record.mended)
    windows = f"in {len(record.views)} window{'s' if len(record.views) > 1 else ''}"
    kept = f"the model was shown its context by the rule {record.context}, {windows}"
    rows, last = [], -1
    for number, each in enumerate(timeline_of(record), start=1):
        mark = "wrong" if each.problem else "mended" if each.is_repeat else "strong"
        notes: list[str | StyledText] = []
        if each.mends:
            notes.append(StyledText(f"gives up a {_words(each.mends[0])} ", "mended"))
        if each.mistake:
            notes.append(StyledText(_words(each.mistake), "wrong"))
        elif each.cited:
            notes.append(StyledText("cited", "right"))
        elif each.is_repeat:
            notes.append(StyledText("again in vain", "mended"))
        elif each.is_left:
            notes.append(StyledText("never named again", "quiet"))
        elif each.is_barren and not each.problem:
            notes.append(StyledText("nothing new", "quiet"))
        outcome = StyledText(each.outcome[:_LONGEST], "wrong" if each.problem else "quiet" if each.is_barren else "")
        turn = "" if each.turn == last else str(each.turn)
        call = [StyledText(f"{_MARKS[each.kind]} ", mark), each.target[:_LONGEST]]
        rows.append(GridRow([str(number), turn, call, [outcome], notes or "", f"{each.tokens:,}"]))
        last = each.turn
    return [
        Chips([StyledText(f"{name.replace('_', ' ')} {value}") for name, value in figures.items()]),
        Note(f"Calls are {record.writing}; {kept}."),
        Grid(("#", "turn", "call", "showed", "", "tokens"), rows, (0.3, 0.6, 4, 4, 1, 0.7)),
    ]


def _words(kind: str) -> str:
    return kind.replace("_", " ")
