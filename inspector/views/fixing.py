"""Let a person fix a row: fields are edited one by one with old and new text side by side, and everything is saved at
once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from trailforge.inspector.deciding import parts_of
from trailforge.inspector.views.visit import DecideVisit, button
from trailforge.inspector.visible_text import escape_text, mark_spans
from trailforge.pipelines import Place, value_at

STYLE = """
.change { display: grid; grid-template-columns: 1fr 1fr; column-gap: .8rem; margin: .2rem 0 .5rem; }
.change > div { padding: .3rem .7rem; border-radius: 4px; white-space: pre-wrap; overflow-wrap: anywhere; min-width: 0;
                font-size: .92rem; max-height: 15rem; overflow-y: auto; background: rgba(128,128,128,.07); }
.change > .name { grid-column: 1 / 3; padding: 0; background: none; font-size: .8rem; opacity: .75; }
.change > .old { border-left: 4px solid #d1453b; } .change > .new { border-left: 4px solid #2e9e5b; }
.change mark { color: inherit; border-radius: 3px; padding: 0 .1rem; }
.change mark.gone { background: rgba(209,69,59,.32); } .change mark.added { background: rgba(46,158,91,.38); }
.change .cut { opacity: .6; font-size: .8rem; }
"""
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_MOST_COMPARED = 1_000_000
"""Words of one text times words of the other, from the first difference to the last; of more all counts as changed."""
_AROUND = 160
"""Characters around a change that are shown."""

Span = tuple[int, int]
"""Positions in a text at which a part of it begins and ends."""
Save = Callable[[Sequence[tuple[str, str]]], bool]
"""A function that takes fields with their new texts, and says whether they were saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixing:
    """A row that a person may change, and the changes so far."""

    visit: DecideVisit
    place: Place
    row: Mapping[str, Any]
    fixable: Sequence[str]
    standing: Mapping[str, str]
    """This person's fixes of the row that hold: by field, the value as JSON."""
    save: Save


def show_fix(fixing: Fixing, where: DeltaGenerator) -> None:
    """Show the field to edit, and in `where` the resulting change with the button that saves it."""
    uid = fixing.place[1]
    edits = fixing.visit.edits.get(fixing.place, {})
    with st.expander("Fix fields", expanded=bool(edits), key=f"decide.fixing.{uid}"):
        field = st.selectbox("Field", parts_of(fixing.row, fixing.fixable), key=f"decide.field.{uid}")
        key = f"decide.value.{uid}.{field}"
        st.session_state.setdefault(key, edits.get(field, _now(fixing, field)))
        st.text_area("Value", key=key, height=170, on_change=_keep, args=(fixing, field, key), help=_HELP)
    if edits:
        with where.container(border=True, key="decide_change"):
            _show_changes(fixing, edits, field, key)


_HELP = (
    "Lists and numbers as JSON. A click beside the field, or Ctrl and Enter, shows old and new side by side. "
    "Fields that belong together can be changed one after the other and saved at once."
)


def _show_changes(fixing: Fixing, edits: Mapping[str, str], field: str, key: str) -> None:
    legend, save, drop = st.columns([3, 1, 1], vertical_alignment="center")
    legend.html("<b>What the fix changes</b>: old on the left, new on the right. Nothing is saved yet.")
    shown = tuple(sorted(edits.items()))
    uid = fixing.place[1]
    button(save, "Save the fix", "save", fixing.visit.seat, _save, fixing, shown, field, key, type="primary")
    drop.button("Discard", key=f"decide.discard.{uid}", width="stretch", on_click=_discard, args=(fixing, field, key))
    st.html("".join(_change(name, _now(fixing, name), text) for name, text in shown))


def _change(name: str, old: str, new: str) -> str:
    gone, added = differences(old, new)
    return (
        f'<div class="change"><div class="name">{escape_text(name)}</div>'
        f'<div class="old">{_part(old, gone, "gone")}</div><div class="new">{_part(new, added, "added")}</div></div>'
    )


def _part(text: str, spans: Sequence[Span], kind: str) -> str:
    """What is around the changes of a text; how much is left out between."""
    parts, at = [], 0
    for begin, end in windows(len(text), spans, _AROUND):
        parts.append(_cut(begin - at))
        inside = [(max(a, begin) - begin, min(b, end) - begin, kind) for a, b in spans if a < end and b > begin]
        parts.append(mark_spans(text[begin:end], inside))
        at = end
    return "".join(parts) + _cut(len(text) - at)


def _cut(count: int) -> str:
    return f'<span class="cut"> … {count:,} characters … </span>' if count else ""


def _now(fixing: Fixing, field: str) -> str:
    """A field as it stands, this person's earlier fix of it included; what is no text as JSON."""
    held = fixing.standing.get(field)
    value = value_at(fixing.row, field) if held is None else json.loads(held)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _keep(fixing: Fixing, field: str, key: str) -> None:
    """What was typed, until it is saved: the field itself is gone as soon as another one is chosen."""
    edits = fixing.visit.edits.setdefault(fixing.place, {})
    text = st.session_state.get(key)
    if text is None:  # pressed once more, late: the field is gone
        return
    if text == _now(fixing, field):
        edits.pop(field, None)
    else:
        edits[field] = text


def _save(fixing: Fixing, shown: tuple[tuple[str, str], ...], field: str, key: str) -> None:
    """Save what was shown; what was typed after that is shown first."""
    _keep(fixing, field, key)
    if tuple(sorted(fixing.visit.edits[fixing.place].items())) != shown:
        st.toast("The text has changed since: look at the change, then save it.")
    elif fixing.save(shown):
        _discard(fixing, field, key)


def _discard(fixing: Fixing, field: str, key: str) -> None:
    fixing.visit.edits.pop(fixing.place, None)
    st.session_state.pop(key, None)


def differences(old: str, new: str) -> tuple[list[Span], list[Span]]:
    """Return the parts of the old text that are gone and the parts of the new text that replace them, in pairs. Where
    nothing is gone or nothing came, the span is empty: its begin is its end.
    """
    ours, theirs = _TOKEN.findall(old), _TOKEN.findall(new)
    shared = min(len(ours), len(theirs))
    head = next((n for n in range(shared) if ours[n] != theirs[n]), shared)
    rest = shared - head
    tail = next((n for n in range(rest) if ours[-1 - n] != theirs[-1 - n]), rest)
    middle, other = ours[head : len(ours) - tail], theirs[head : len(theirs) - tail]
    if len(middle) * len(other) > _MOST_COMPARED:
        blocks = [(0, len(middle), 0, len(other))]
    else:
        codes = SequenceMatcher(None, middle, other, autojunk=False).get_opcodes()
        blocks = [place for name, *place in codes if name != "equal"]
    starts, others = _starts(ours), _starts(theirs)
    return (
        [(starts[head + begin], starts[head + end]) for begin, end, _, _ in blocks],
        [(others[head + begin], others[head + end]) for _, _, begin, end in blocks],
    )


def windows(length: int, spans: Sequence[Span], around: int) -> list[Span]:
    """Return the parts of a text with `around` characters on both sides of each span."""
    found: list[Span] = []
    for begin, end in spans:
        begin, end = max(0, begin - around), min(length, end + around)
        if found and begin <= found[-1][1] + around:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found


def _starts(tokens: Sequence[str]) -> list[int]:
    """Where each token begins, and where the last one ends."""
    starts = [0]
    for token in tokens:
        starts.append(starts[-1] + len(token))
    return starts
