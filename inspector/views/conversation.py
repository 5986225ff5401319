"""A conversation as a trainer sees it: which turns are trained on, which are only read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from trailforge.inspector.visible_text import escaped
from trailforge.schemas import Message

_ROLES = {"system": "system", "user": "user", "assistant": "agent", "tool": "tool"}
STYLE = """
.turn { border-left: 4px solid #9aa0a6; padding: .35rem .8rem; margin: .35rem 0; border-radius: 4px;
        background: rgba(128,128,128,.07); }
.turn.trained { border-left-color: #2e9e5b; background: rgba(46,158,91,.10); }
.turn.wrong { border-left-color: #d1453b; background: rgba(209,69,59,.12); }
.turn.mended { border-left-color: #2a6fdb; background: rgba(42,111,219,.10); }
.turn .head { font-size: .75rem; opacity: .75; display: flex; gap: .6rem; }
.turn .head b { font-weight: 600; }
.turn .head .is-trained { background: rgba(46,158,91,.45); border-radius: 1rem; padding: 0 .5rem; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .92rem; }
.turn.folded .text { max-height: 14rem; overflow-y: auto; }
"""


def show_conversation(
    messages: Sequence[Message], notes: Mapping[int, tuple[str, str]] | None = None, *, first: int = 0
) -> None:
    """All turns, those trained on in green; `first` is the number of the first one.

    `notes`: by number of the message a class (`wrong`, `mended`) and a word on it, e.g. `the step that went wrong`.
    """
    turns = enumerate(messages, start=first)
    st.html("".join(_turn(number, message, (notes or {}).get(number)) for number, message in turns))


def _turn(number: int, message: Message, note: tuple[str, str] | None) -> str:
    kind, word = note or ("", "")
    trained = '<span class="is-trained">trained</span>' if message.train else "<span>not trained</span>"
    classes = " ".join(filter(None, ("turn", "trained" if message.train else "folded", kind)))
    said = f"<span>{escaped(word)}</span>" if word else ""
    head = f"<b>{number} · {_ROLES[message.role]}</b>{trained}{said}"
    return (
        f'<div class="{classes}"><div class="head">{head}</div><div class="text">{escaped(message.content)}</div></div>'
    )
