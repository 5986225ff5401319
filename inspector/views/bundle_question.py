"""A bundle, and a question over it: asked, answered, with its evidence in the documents and its search plan."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from trailforge.inspector.bundle_rows import documents_of, questions_of
from trailforge.inspector.drawings.nl_dag import nl_dag
from trailforge.pipelines.runs.finished import OpenRun
from trailforge.inspector.quotes import find_quote
from trailforge.inspector.views import checks
from trailforge.inspector.views.charts import show_drawing
from trailforge.inspector.views.side_by_side import Paper, hop_mark, show_papers
from trailforge.inspector.visible_text import escaped, visible
from trailforge.schemas import Bundle, BundleHop, BundleInput, BundleQuestion, SourceDocument

STYLE = """
.tags { display: flex; flex-wrap: wrap; gap: .4rem; margin: .2rem 0 .35rem; font-size: .78rem; }
.tags span { padding: .05rem .5rem; border-radius: 99px; background: rgba(128,128,128,.16); overflow-wrap: anywhere; }
.tags .good { background: rgba(46,158,91,.25); } .tags .bad { background: rgba(209,69,59,.22); }
.option, .reply, .hop { padding: .15rem .5rem; border-left: 3px solid rgba(128,128,128,.35); margin: .15rem 0;
                         overflow-wrap: anywhere; font-size: .94rem; }
.option.right, .reply.right { border-left-color: #2e9e5b; background: rgba(46,158,91,.14); }
.reply.wrong { border-left-color: #d1453b; background: rgba(209,69,59,.12); }
.hop .line { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.hop .none { color: #d1453b; } .hop .quiet, .reply .quiet { opacity: .65; font-size: .8rem; }
"""
_TYPES = {
    "factual": "factual",
    "causal": "causal",
    "single_choice": "single choice",
    "multiple_choice": "multiple choice",
}


def show_bundle_question(run: OpenRun, row: BundleQuestion) -> None:
    """Presenter of `bundle_questions` and `candidates`."""
    documents = documents_of(run, row.bundle_id, [hop.document_id for hop in row.hops])
    left, right = st.columns([11, 9], gap="medium")
    with left:
        st.html(_asked(row))
        st.html("".join(_hop(number, hop, documents) for number, hop in enumerate(row.hops)))
    with right:
        show_plan(row)
    show_documents(documents, row.hops)
    with st.expander(
        f"What the filters measured: {sum(score.passed for score in row.filters)} of {len(row.filters)} passed",
        expanded=True,
    ):
        checks.show_checks(row.filters, checks.BUNDLE_MEANINGS)


def show_plan(row: BundleQuestion) -> None:
    """The gold search plan, drawn; its searches in full, and as an agent writes it, folded."""
    if not row.dag_nodes and not row.dag_edges:
        st.caption("It has no search plan.")
        return
    show_drawing(nl_dag(row.dag_nodes, row.dag_edges), key=f"plan.{row.uid}", alt="The search plan")
    with st.expander("The plan in words"):
        needs = {node.node_id: [e.src for e in row.dag_edges if e.dst == node.node_id] for node in row.dag_nodes}
        st.dataframe(
            [
                {"search": visible(node.node_id), "tool": visible(node.tool), "query": visible(node.query),
                 "needs": visible(", ".join(needs[node.node_id]))}
                for node in row.dag_nodes
            ],
            hide_index=True, row_height=56, key=f"searches.{row.uid}",
        )  # fmt: skip
        st.code(visible(row.dag_text), language=None, wrap_lines=True)


def show_documents(documents: Sequence[SourceDocument], hops: Sequence[BundleHop] = ()) -> None:
    """A bundle's documents, with what the hops quote marked in the colours of the hops."""
    if not documents:
        st.info("This run does not hold the documents.")
        return
    papers = []
    for document in documents:
        plain = Paper(title=document.title, text=document.text, origin=_origin(document))
        quoted = [
            (span, hop_mark(number))
            for number, hop in enumerate(hops)
            if hop.document_id == document.id and (span := find_quote(plain.whole, hop.evidence))
        ]
        papers.append(Paper(title=plain.title, text=plain.text, origin=plain.origin, quotes=quoted))
    show_papers(papers)


def show_bundle(run: OpenRun, bundle: Bundle) -> None:
    """Presenter of `bundles`."""
    show_bundle_head(bundle)
    show_documents(documents_of(run, bundle.uid))
    asked = questions_of(run, bundle.uid)
    if asked:
        st.html("".join(f'<div class="hop"><b>{each.fate}</b> {escaped(each.row.question)}</div>' for each in asked))


def show_bundle_input(run: OpenRun, item: BundleInput) -> None:
    """Presenter of `bundle_inputs`."""
    show_bundle_head(item.bundle)
    show_documents(item.documents)


def show_bundle_head(bundle: Bundle) -> None:
    """What its documents have in common."""
    sources = " · ".join(escaped(source) for source in dict.fromkeys(bundle.sources))
    st.html(
        f'<div class="asked">{escaped(bundle.theme)}</div><div class="tags">'
        f"<span>{len(bundle.document_ids)} documents</span>"
        f'<span title="mean cosine over all pairs of its documents">cohesion {bundle.cohesion:.3f}</span>'
        f"<span>{sources}</span></div>"
    )


def _asked(row: BundleQuestion) -> str:
    """Question, options, answer."""
    stage = f"<span>curriculum stage {row.curriculum_stage}</span>" if row.curriculum_stage else ""
    right = set(row.correct_options)
    options = "".join(
        f'<div class="option{" right" if letter in right else ""}"><b>{letter}</b> {escaped(option)}'
        f"{' ✓' if letter in right else ''}</div>"
        for letter, option in ((chr(ord("A") + place), option) for place, option in enumerate(row.options))
    )
    answer = "" if row.options else f'<div class="reply right">{escaped(row.answer)}</div>'
    return (
        f'<div class="asked">{escaped(row.question)}</div><div class="tags"><span>{_TYPES[row.type]}</span>'
        f'<span title="0 easy, 1 hard: sources, hops, depth of the plan, type, closed-book answers">'
        f"complexity {row.complexity:.2f}</span>{stage}</div>{options}{answer}"
    )


def _hop(number: int, hop: BundleHop, documents: Sequence[SourceDocument]) -> str:
    """What one document contributes, and whether its quote stands there."""
    document = next((each for each in documents if each.id == hop.document_id), None)
    missing = ""
    if document is None:
        missing = f'<div class="none">The run does not hold its document {escaped(hop.document_id, 90)}.</div>'
    elif not find_quote(f"{document.title}\n{document.text}", hop.evidence):
        missing = f'<div class="none">This quote does not stand in {escaped(document.title, 90)}.</div>'
    quote = f'<mark class="{hop_mark(number)}">“{escaped(hop.evidence)}”</mark>'
    shown = "whole" if missing else "line"
    title = escaped(document.title, 90) if document else escaped(hop.document_id)
    return (
        f'<div class="hop"><b>{number + 1}</b> {escaped(hop.reasoning)}<div class="{shown}">{quote}</div>{missing}'
        f'<div class="quiet">{title}</div></div>'
    )


def _origin(document: SourceDocument) -> list[str]:
    return [document.source, document.kind, document.published or "no date", document.url, document.licence]
