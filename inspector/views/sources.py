"""What rows are made of: questions with their paragraphs, documents, facts of a graph."""

from __future__ import annotations

from typing import Any

import streamlit as st

from trailforge.pipelines.runs.finished import OpenRun
from trailforge.inspector.views.fields import show_fields
from trailforge.inspector.visible_text import escaped
from trailforge.schemas import Question, SourceDocument, to_dict

STYLE = """
.document { border: 1px solid rgba(128,128,128,.35); border-radius: 6px; padding: .5rem .8rem; margin: .4rem 0; }
.document.gold { border-color: #2e9e5b; }
.document .head { display: flex; gap: .8rem; font-size: .85rem; } .document .head b { overflow-wrap: anywhere; }
.document .head span { opacity: .7; }
"""


def show_source(run: OpenRun, row: Any) -> None:
    """A row of `inputs/`."""
    if isinstance(row, Question):
        _show_question(row)
    elif isinstance(row, SourceDocument):
        _show_document(row)
    else:
        show_fields(to_dict(row))


def _show_question(row: Question) -> None:
    st.html(f'<div class="asked">{escaped(row.question)}</div>')
    show_fields({"id": row.id, "answer": row.answer, "also right": ", ".join(row.answer_aliases)})
    supports = {hop.support_id for hop in row.decomposition}
    if row.decomposition:
        st.dataframe(
            [
                {"hop": number, "question": hop.question, "answer": hop.answer, "paragraph": hop.support_id}
                for number, hop in enumerate(row.decomposition, start=1)
            ],
            hide_index=True,
        )
    paragraphs = sorted(row.paragraphs, key=lambda each: each.id not in supports)
    st.html("".join(_document(each.title, each.text, each.id, each.id in supports) for each in paragraphs))


def _show_document(row: SourceDocument) -> None:
    fields = {"id": row.id, "source": row.source, "kind": row.kind, "published": row.published or "unknown"}
    fields |= {"url": row.url, "authors": ", ".join(row.authors), "licence": row.licence or "unknown"}
    show_fields({name: value for name, value in fields.items() if value})
    st.html(_document(row.title, row.text, "", False))


def _document(title: str, text: str, note: str, is_gold: bool) -> str:
    word = "gold paragraph" if is_gold else ""
    head = f"<b>{escaped(title)}</b><span>{escaped(note)}</span><span>{word}</span>"
    kind = "document gold" if is_gold else "document"
    return f'<div class="{kind}"><div class="head">{head}</div><div class="text">{escaped(text)}</div></div>'
