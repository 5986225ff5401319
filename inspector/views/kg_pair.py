"""A good and a bad episode of one question, side by side from where they differ."""

from __future__ import annotations

import streamlit as st

from trailforge.pipelines.runs.finished import OpenRun
from trailforge.inspector.views.conversation import show_conversation
from trailforge.inspector.visible_text import escaped
from trailforge.schemas import ContrastivePair


def show_pair(run: OpenRun, row: ContrastivePair) -> None:
    """Presenter of `pairs`."""
    st.html(f'<div class="asked">{escaped(row.question)}</div><div class="reply right">{escaped(row.answer)}</div>')
    show_contrast(row)


def show_contrast(row: ContrastivePair) -> None:
    """The two conversations, below a question that is shown already."""
    st.html(
        '<div class="verdict rejected">The bad one was put aside by '
        f"<b>{escaped(row.reason)}</b>: {escaped(row.detail)}</div>"
    )
    start = row.diverges_at
    with st.expander(f"The {start} turns that both begin with"):
        show_conversation(row.good_messages[:start])
    good, bad = st.columns(2, gap="medium")
    with good:
        st.html(_heading("good", row.good_reward, row.good_uid))
        show_conversation(row.good_messages[start:], first=start)
    with bad:
        st.html(_heading("bad", row.bad_reward, row.bad_uid))
        show_conversation(row.bad_messages[start:], {start: ("wrong", "differs from here on")}, first=start)


def _heading(kind: str, reward: float, uid: str) -> str:
    return (
        f'<div class="tags"><span class="{kind}">{kind}</span><span>reward {reward:.3f}</span>'
        f"<span>{escaped(uid)}</span></div>"
    )
