"""A question made of a knowledge graph, with the facts that it asks for."""

from __future__ import annotations

import streamlit as st

from trailforge.inspector.drawings.subgraph import fact_chain
from trailforge.pipelines.runs.finished import OpenRun
from trailforge.inspector.views import checks
from trailforge.inspector.views.charts import show_drawing
from trailforge.inspector.visible_text import escaped, visible
from trailforge.schemas import KgNode, KgQuestion

_SHAPES = {
    "chain": "one fact after the other",
    "intersection": "two chains meet in the answer",
    "intersection_inside": "two chains meet in a bridge",
}


def show_kg_question(run: OpenRun, row: KgQuestion) -> None:
    """Presenter of `kg_questions`."""
    left, right = st.columns([3, 2], gap="medium")
    with left:
        st.html(_head(row))
    with right:
        st.html("".join(_hop(number, row) for number in range(len(row.decomposition))))
    show_drawing(fact_chain(row.chain), key=f"{row.uid}.chain", alt="The facts of the question")
    _show_facts(row)
    passed = sum(score.passed for score in row.filters)
    with st.expander(f"What the filters measured: {passed} of {len(row.filters)} passed", expanded=True):
        checks.show_checks(row.filters, checks.KG_MEANINGS)


def _head(row: KgQuestion) -> str:
    aliases = f" (also {escaped(', '.join(row.answer_aliases))})" if row.answer_aliases else ""
    return (
        f'<div class="asked">{escaped(row.question)}</div><div class="tags">'
        f"<span>{row.hops} facts, {_SHAPES[row.shape]}</span><span>written by {escaped(row.writer)}</span>"
        f'<span title="date of the graph: what is asked was true then">as of {escaped(row.as_of)}</span>'
        f'<span title="entities of the graph that satisfy the question">answers in the graph: {row.num_answers}</span>'
        f'</div><div class="reply right">{escaped(row.answer)}{aliases}</div>'
    )


def _hop(number: int, row: KgQuestion) -> str:
    hop = row.decomposition[number]
    return (
        f'<div class="hop"><b>{number + 1}</b> {escaped(hop.question)} '
        f'<span class="quiet">→</span> <b>{escaped(hop.answer)}</b></div>'
    )


def _show_facts(row: KgQuestion) -> None:
    """The facts as a table: how each is followed, and what it is needed for."""
    names = {node.id: node.label for node in (*row.chain.starts, *row.chain.found)}
    counts = {node.id: node for node in (*row.chain.starts, *row.chain.found)}
    facts = [
        {
            "fact": visible(fact.triple.text),
            "followed": visible(f"from {names.get(fact.known, fact.known)} to {names.get(fact.found, fact.found)}"),
            "leads to": fact.fan_out,
            "left without": fact.left_without,
            "namesakes": _count(counts.get(fact.known)),
        }
        for fact in row.chain.facts
    ]
    number = st.column_config.NumberColumn
    st.dataframe(
        facts, hide_index=True, key=f"{row.uid}.facts",
        column_config={
            "leads to": number(help="fan_out: entities that the relation leads to from there, in this direction. "
                                    "1: nothing but what is found."),
            "left without": number(help="left_without: entities that satisfy the question when this fact is left out. "
                                        "More than 1: the fact is needed. Counted up to the sampler's limit."),
            "namesakes": number(help="Of a start: entities with its name. Of a bridge: entities that fit all that "
                                     "leads to it."),
        },
    )  # fmt: skip
    st.caption(
        f"With any one fact left out at least {row.fewest_left:,} entities satisfy the question"
        f"{': every fact is needed.' if row.fewest_left > 1 else ': a fact can be spared.'}"
    )


def _count(node: KgNode | None) -> int | None:
    return None if node is None else node.matches
