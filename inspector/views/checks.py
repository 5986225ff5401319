"""What each filter measured on a row: its score, whether the row passed, and what the score means."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import streamlit as st

from trailforge.inspector.visible_text import escaped
from trailforge.schemas import FilterScore

STYLE = """
.checks { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: .1rem 1.2rem; }
.check { display: grid; grid-template-columns: 1.1rem 1fr max-content; column-gap: .4rem; font-size: .88rem;
         padding: .15rem .4rem; border-radius: 4px; align-content: start; }
.check.failed { background: rgba(209,69,59,.12); }
.check .sign { color: #2e9e5b; font-weight: 700; }
.check.failed .sign { color: #d1453b; }
.check .score { font-variant-numeric: tabular-nums; }
.check .meaning { grid-column: 2 / 4; font-size: .76rem; opacity: .65; line-height: 1.15; }
.check .why { grid-column: 2 / 4; overflow-wrap: anywhere; }
"""
BUNDLE_MEANINGS: Mapping[str, str] = {
    "unsupported_quote": "share of the hops whose quote stands in its document",
    "too_few_documents": "documents that the hops quote",
    "single_source": "sources that the hops quote",
    "bad_options": "1: options and answer have the form that the type asks for",
    "invalid_plan": "rules that the search plan breaks",
    "answer_in_question": "how many of question and queries mention the answer",
    "stale_document": "days from the earliest allowed date to the oldest document",
    "not_answerable": "1: the model answers from all documents",
    "fewer_documents_suffice": "share of the smaller sets of documents that do not give the answer",
    "closed_book": "how near the model comes without any document, 0 to 1",
    "duplicate_question": "cosine with the nearest accepted question, or with the one that it repeats",
    "contaminated": "cosine with the nearest question of a benchmark",
}
"""Of the scores of bundle questions, by filter."""
KG_MEANINGS: Mapping[str, str] = {
    "malformed": "rules of form that are broken",
    "not_unique": "the most entities that fit what leads to the answer or a bridge",
    "shortcut": "entities left when one fact is left out: the fewest",
    "answer_in_question": "how many of question and sub-questions name what they ask for",
    "bridge_named": "share of the bridges that the question names",
    "start_missing": "share of the starts that the question names",
    "ungrounded_name": "names and numbers that the facts do not have",
    "closed_book": "how near the model comes from memory, 0 to 1",
    "duplicate_question": "the largest share of its facts that one accepted question has",
}
"""Of the scores of questions over a graph."""


def show_checks(filters: Sequence[FilterScore], meanings: Mapping[str, str]) -> None:
    """All scores, those that did not pass first."""
    if not filters:
        st.caption("No filter has measured this row.")
        return
    ordered = sorted(filters, key=lambda score: score.passed)
    st.html(f'<div class="checks">{"".join(_check(score, meanings.get(score.name, "")) for score in ordered)}</div>')


def _check(score: FilterScore, meaning: str) -> str:
    sign, kind = ("✓", "passed") if score.passed else ("✗", "failed")
    why = f'<div class="why">{escaped(score.reason)}</div>' if score.reason else ""
    return (
        f'<div class="check {kind}"><span class="sign">{sign}</span><span>{escaped(score.name)}</span>'
        f'<span class="score">{score.score:.3g}</span><div class="meaning">{html.escape(meaning)}</div>{why}</div>'
    )
