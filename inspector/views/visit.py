"""Make sure that a key or button press on the Decide view counts for the row that is shown, and counts once.

Each showing of a row has a number, its *seat*. Buttons belong to a seat, and only one press counts for each seat; a
press that comes late, or twice, meets another seat, and a note says so. In the browser, `one_press.js` makes keys act
on the row that is shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import streamlit as st

from trailforge.inspector.visible_text import escape_text
from trailforge.pipelines import Place

REASON_KEYS = ("1", "2", "3", "4", "5", "6", "7", "8", "9")
"""As many as a guide may name reasons."""
_KEYS = {"accept": "a", "next": "j", "previous": "k", "again": "u", "undo": "z", "save": "s"}
_NAMES = {key: name for name, key in _KEYS.items()} | {key: f"reject-{key}" for key in REASON_KEYS}
KEYS = {
    "a": "accept",
    "1 to 9": "reject, for the reason on the button",
    "j, k": "next, previous row",
    "u": "show the row that you decided last",
    "z": "undo your decision on this row, or else your last one",
    "s": "save a fix",
    "Space, Shift Space": "read on, read back",
    "↓ ↑, PageDown PageUp, Home End": "scroll the row",
    "?": "show or hide these keys",
}
_SCRIPT, _READING = (
    (Path(__file__).parent / name).read_text(encoding="utf-8") for name in ("one_press.js", "reading.js")
)
STYLE = """
.stElementContainer:has(> .stHtml > .seat) { display: none; }
.not-taken { position: fixed; bottom: 1.2rem; left: 50%; transform: translateX(-50%); z-index: 999999; color: #fff;
             background: #b3261e; padding: .4rem 1rem; border-radius: .5rem; pointer-events: none; font-size: .9rem; }
.not-taken:empty { display: none; }
[data-testid="stLayoutWrapper"]:has(> .st-key-decide_row) { flex: 0 0 var(--row-height, 720px) !important;
                                                             height: var(--row-height, 720px) !important; }
.st-key-decide_choices, .st-key-decide_choices [data-testid="stForm"] { gap: .45rem; }
.st-key-decide_choices button { min-height: 2.05rem; padding-top: .1rem; padding-bottom: .1rem; }
.st-key-decide_row { height: 100% !important; }
.st-key-decide_choices [data-testid="stCheckbox"] label { align-items: center; }
.all-keys { position: fixed; top: 50%; left: 50%; transform: translate(-50%, -50%); z-index: 999998; cursor: pointer;
            display: grid; grid-template-columns: max-content 1fr; gap: .45rem 1.2rem; align-items: baseline;
            padding: 1.2rem 1.6rem; border-radius: .6rem; background: #1d2026; color: #f2f2f2; font-size: .95rem;
            box-shadow: 0 6px 30px rgba(0,0,0,.4); }
.all-keys kbd { background: #3a3f48; border-radius: 4px; padding: .05rem .45rem; }
[data-testid="stToastContainer"] { top: auto !important; bottom: 1rem !important; }
.stMain:focus, .stMain:focus-visible { outline: none !important; box-shadow: none !important; }
"""


@dataclass(slots=True)
class DecideVisit:
    """The state of a person's visit to the Decide view.

    Callbacks change this object directly. It is not kept in Streamlit's session, where a run of the script is
    interrupted as soon as another one starts, and half of what was pressed would be lost.
    """

    seat: int = 0
    shown: tuple[str, ...] = ()
    """The table, the row and the person of the present seat."""
    is_taken: bool = False
    """Whether something has been pressed on the present seat."""
    runs: int = 0
    again: Place | None = None
    """The row that is shown instead of the list's; None: the list's is shown."""
    place: int = 0
    """Position of the row in the list."""
    edits: dict[Place, dict[str, str]] = field(default_factory=dict)
    """Edits of rows that are not saved yet: the typed text by field."""
    problem: str = ""
    """Why a decision was not saved; empty: all were."""
    notes: list[str] = field(default_factory=list)
    """Notes to show on the page."""

    def sit(self, *shown: str) -> int:
        """Return the seat (the number of this showing) for what is shown now: a new one for another row, and after each
        press.
        """
        if self.is_taken or shown != self.shown:
            self.seat, self.shown, self.is_taken = self.seat + 1, shown, False
        self.runs += 1
        return self.seat

    def take(self, seat: int) -> bool:
        """Tell whether a press on a seat counts: only the first press on the latest seat does."""
        if self.is_taken or seat != self.seat:
            self.notes.append("Not taken: this was pressed on a row that had been decided or left.")
            return False
        self.is_taken = True
        return True


def visit_of_session() -> DecideVisit:
    """Return the state of this visit to the page."""
    return st.session_state.setdefault("decide.visit", DecideVisit())


def listen() -> None:
    """Let single keys of the keyboard press the buttons of the row that is shown (a: accept, 1 to 9: reject for the
    reason of this number, j and k: next and previous row …). The browser knows that row by what `mark` writes.
    """
    scripts = f"({_SCRIPT})({json.dumps(_NAMES)});({_READING})({json.dumps([*KEYS.items()])})"
    st.html(f'<i class="seat"></i><script>{scripts}</script>', unsafe_allow_javascript=True)


def mark(visit: DecideVisit, side: str) -> None:
    """Write an empty element into the page where the row that is shown begins (`side` is `from`) or ends (`to`), with
    its seat, by which the browser knows for which row a key was pressed.
    """
    row = escape_text("/".join(visit.shown))
    st.html(f'<i class="seat {side}" data-seat="{visit.seat}" data-run="{visit.runs}" data-row="{row}"></i>')


def button(
    place: Any, label: str, name: str, seat: int, on_click: Callable[..., object], *args: Any, **more: Any
) -> None:
    """Draw a button in `place` that counts for one showing of a row, its seat. `name` is the button's in the code, and
    says which key of the keyboard presses it; `args` are passed to `on_click`, `more` to Streamlit's button.
    """
    key = _KEYS.get(name, name.removeprefix("reject-"))
    place.button(
        label, shortcut=key, key=f"decide.{name}.{seat}", on_click=on_click, args=args, width="stretch", **more
    )


def show_notes(visit: DecideVisit) -> None:
    """Show notes on the page about what came of key and button presses."""
    while visit.notes:
        st.toast(visit.notes[0])
        del visit.notes[0]
    if visit.problem:
        st.error("Not saved:")
        st.code(visit.problem, language=None, wrap_lines=True)
        visit.problem = ""
