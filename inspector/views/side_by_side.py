"""Documents side by side, each in a column of its own that scrolls, with quotes marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from trailforge.inspector.quotes import Span, clipped
from trailforge.inspector.visible_text import escaped, marked

STYLE = """
.papers { display: grid; grid-auto-flow: column; grid-auto-columns: minmax(0, 1fr); gap: .7rem; }
.paper { border: 1px solid rgba(128,128,128,.3); border-radius: 6px; padding: .5rem .7rem; min-width: 0; }
.paper .title { font-weight: 600; line-height: 1.25; overflow-wrap: anywhere; max-height: 3.9em; overflow-y: auto; }
.paper .origin { font-size: .76rem; opacity: .7; overflow-wrap: anywhere; margin-bottom: .35rem; }
.paper .body { font-size: .92rem; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 17rem;
               overflow-y: auto; line-height: 1.4; }
.paper mark, .hop mark { color: inherit; border-radius: 3px; padding: 0 .1rem; }
mark.hop0 { background: rgba(46,158,91,.38); } mark.hop1 { background: rgba(42,111,219,.34); }
mark.hop2 { background: rgba(214,158,0,.42); } mark.hop3 { background: rgba(141,105,184,.45); }
"""
HOPS = 4
"""Colours for quotes; further hops begin again with the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A document as it is shown."""

    title: str
    text: str
    origin: Sequence[str]
    """Source, date, address: what is known of where it comes from."""
    quotes: Sequence[tuple[Span, str]] = ()
    """Places in `whole`, each with the class of its mark."""

    @property
    def whole(self) -> str:
        """Title and text: a quote may stand in either."""
        return f"{self.title}\n{self.text}"


def hop_mark(number: int) -> str:
    """Class of the marks of a hop, which is counted from 0."""
    return f"hop{number % HOPS}"


def show_papers(papers: Sequence[Paper]) -> None:
    """In columns of the same width."""
    st.html(f'<div class="papers">{"".join(map(_paper, papers))}</div>')


def _paper(paper: Paper) -> str:
    cut, whole = len(paper.title), len(paper.whole)
    title = [(*part, kind) for span, kind in paper.quotes if (part := clipped(span, 0, cut))]
    text = [(*part, kind) for span, kind in paper.quotes if (part := clipped(span, cut + 1, whole))]
    origin = " · ".join(escaped(part) for part in paper.origin if part)
    return (
        f'<div class="paper"><div class="title">{marked(paper.title, title)}</div><div class="origin">{origin}</div>'
        f'<div class="body">{marked(paper.text, text)}</div></div>'
    )
