"""An episode of searches in documents and a knowledge graph: search by search, with its reward and its conversation."""

from __future__ import annotations

import html
from collections.abc import Sequence

import streamlit as st

from trailforge.inspector.drawings.subgraph import step_subgraph
from trailforge.pipelines.runs.finished import OpenRun
from trailforge.inspector.quotes import find_quote
from trailforge.inspector.views.charts import show_drawing
from trailforge.inspector.views.conversation import show_conversation
from trailforge.inspector.views.kg_pair import show_contrast
from trailforge.inspector.views.side_by_side import Paper, show_papers
from trailforge.inspector.visible_text import escaped, visible
from trailforge.schemas import KgConflict, KgStep, KgTrajectory

STYLE = """
.pairs { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .8rem; font-size: .94rem; }
.pairs .name { opacity: .65; font-size: .82rem; }
.pairs .value { overflow-wrap: anywhere; }
.pairs .good { color: #2e9e5b; font-weight: 600; } .pairs .bad { color: #d1453b; font-weight: 600; }
.rewards { display: grid; grid-template-columns: max-content max-content 1fr; gap: .25rem 1rem; font-size: .92rem; }
.rewards .number { font-variant-numeric: tabular-nums; text-align: right; font-weight: 600; }
.rewards .meaning { opacity: .7; }
.conflict { border-left: 4px solid #d69e00; background: rgba(214,158,0,.12); border-radius: 4px; padding: .3rem .7rem;
            font-size: .92rem; overflow-wrap: anywhere; margin: .2rem 0; }
"""
_PARTS = (
    ("total", "what the episode is paid: r_acc + r_gain"),
    ("r_acc", "accuracy: r_ans, at least 0.1 in the right format, 0 in a wrong one"),
    ("r_ans", "how right the final answer is: cover-EM, or F1 when it has three times the gold answer's words"),
    ("r_recall", "share of the supporting documents that the searches brought"),
    ("r_penalty", "0 for as many searches as gold hops, towards 1 with every one more, below 0 with fewer"),
    ("r_gain", "half of r_recall − r_penalty, paid when the format holds and something was searched"),
)
"""By part of `KgReward`; the constants are those of the paper, see `rewards.dynasearcher`."""
_ROW = 35
_HEAD = 38


def show_kg_trajectory(run: OpenRun, row: KgTrajectory) -> None:
    """Presenter of `kg_trajectories`."""
    left, right = st.columns([3, 2], gap="medium")
    with left:
        st.html(_head(row))
    with right:
        st.html(_answers(row))
    pairs = run.matching("pairs", "good_uid", row.uid) if "pairs" in run.tables else ()
    names = ["Searches", "Conversation", f"Reward {row.reward.total:.2f}"]
    tabs = st.tabs([*names, *(["Contrast with a bad episode"] if pairs else [])], key=f"{row.uid}.tabs")
    with tabs[0]:
        _show_steps(row)
    with tabs[1]:
        show_conversation(row.messages)
    with tabs[2]:
        st.html(_reward(row))
    if pairs:
        with tabs[3]:
            for number in pairs:
                show_contrast(run.record("pairs", number))


def _head(row: KgTrajectory) -> str:
    led = {"oracle": "oracle: led by the gold hops", "policy": "policy: the model's own searches"}
    tags = [
        f'<span class="{row.kind}">{row.kind}</span>',
        f"<span>{led.get(row.origin, escaped(row.origin))}</span>",
        f"<span>{row.num_tool_calls} searches for {row.num_hops or 'unknown'} hops</span>",
        f'<span title="by the rule of this project; a trainer counts otherwise">~{row.token_estimate:,} tokens</span>',
        *(f'<span class="bad">{escaped(flag.replace("_", " "))}</span>' for flag in row.flags),
    ]
    return f'<div class="asked">{escaped(row.question)}</div><div class="tags">{"".join(tags)}</div>'


def _answers(row: KgTrajectory) -> str:
    golds = escaped(row.answer) + (f" (also {escaped(', '.join(row.answer_aliases))})" if row.answer_aliases else "")
    final = escaped(row.final_answer) if row.final_answer else f"none: {escaped(row.stop.replace('_', ' '))}"
    return (
        f'<div class="pairs"><div class="name">gold answer</div><div class="value">{golds}</div>'
        f'<div class="name">final answer</div><div class="value {row.kind}">{final}</div></div>'
    )


def _show_steps(row: KgTrajectory) -> None:
    if not row.steps:
        st.info("This episode never searched.")
        return
    number = st.segmented_control(
        "Search", range(len(row.steps)), default=0, required=True, key=f"{row.uid}.step",
        format_func=lambda number: f"Search {number + 1}", label_visibility="collapsed",
    )  # fmt: skip
    step = row.steps[number or 0]
    for conflict in row.conflicts:
        if conflict.step == step.index:
            st.html(_conflict(conflict))
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _show_graph(row, step)
        _show_found(step)
    with right:
        st.html(_searched(step))
        _show_links(row, step)
        _show_triples(row, step)


def _show_graph(row: KgTrajectory, step: KgStep) -> None:
    if not (step.triples_offered or step.triples_kept or any(link.is_searched for link in step.entities)):
        st.info("The graph gave nothing to this search.")
        return
    show_drawing(step_subgraph(step, row.golds), key=f"{row.uid}.graph.{step.index}", alt="What the graph gave")
    st.caption(
        f"{len(step.triples_kept)} of {len(step.triples_offered)} triples kept: green and solid. Dashed: offered only. "
        "Bold: searched entities. ★: a gold answer."
    )


def _show_links(row: KgTrajectory, step: KgStep) -> None:
    """What the mentions and the phrases of the search were taken for."""
    entities = [
        {"mention": visible(link.mention), "entity": visible(link.label or "nothing similar"), "score": link.score,
         "margin": link.margin, "searched": link.is_searched, "id": visible(link.entity_id or "")}
        for link in step.entities
    ]  # fmt: skip
    number, column = st.column_config.NumberColumn, st.column_config.CheckboxColumn
    st.dataframe(
        entities, hide_index=True, key=f"{row.uid}.entities.{step.index}", height=_HEAD + _ROW * min(4, len(entities)),
        column_config={
            "mention": st.column_config.TextColumn(width=120), "entity": st.column_config.TextColumn(width=120),
            "score": number(format="%.3f", help="How similar the best name is, 0 to 1; 1 only for the label itself."),
            "margin": number(format="%.3f", help="How far above the best other entity: 0 when names collide."),
            "searched": column(help="Its triples were looked up."),
        },
    )  # fmt: skip
    relations = [
        {"phrase": visible(link.phrase), "relation": visible(link.label or "nothing similar"), "score": link.score,
         "id": visible(link.relation_id or "")}
        for link in step.relations
    ]  # fmt: skip
    if relations:
        st.dataframe(
            relations, hide_index=True, key=f"{row.uid}.relations.{step.index}",
            height=_HEAD + _ROW * min(3, len(relations)), column_config={"score": number(format="%.3f")},
        )  # fmt: skip


def _show_triples(row: KgTrajectory, step: KgStep) -> None:
    kept = set(step.triples_kept)
    triples = list(dict.fromkeys((*step.triples_offered, *step.triples_kept)))
    if not triples:
        return
    st.dataframe(
        [
            {"kept": triple in kept, "head": visible(triple.head_label), "relation": visible(triple.relation_label),
             "tail": visible(triple.tail_label)}
            for triple in triples
        ],
        hide_index=True, key=f"{row.uid}.triples.{step.index}", height=_HEAD + _ROW * min(6, len(triples)),
        column_config={"kept": st.column_config.CheckboxColumn(help="The filter left it and the agent read it.")},
    )  # fmt: skip


def _show_found(step: KgStep) -> None:
    """The documents; what the agent took from them is marked."""
    if not step.documents:
        st.caption("No document was found.")
        return
    papers: list[Paper] = []
    for place, passage in enumerate(step.documents, start=1):
        plain = Paper(title=passage.title, text=passage.text, origin=[f"{place} · score {passage.score:.3f}"])
        span = find_quote(plain.whole, step.answer or "")
        quotes = [(span, "hop0")] if span else []
        papers.append(Paper(title=plain.title, text=plain.text, origin=plain.origin, quotes=quotes))
    show_papers(papers)


def _searched(step: KgStep) -> str:
    fields = {"sub-question": step.sub_question if step.sub_question != step.query else "", "query": step.query,
              "answer taken": step.answer or "the agent does not say"}  # fmt: skip
    cells = (
        f'<div class="name">{name}</div><div class="value">{escaped(value)}</div>'
        for name, value in fields.items()
        if value
    )
    return f'<div class="pairs">{"".join(cells)}</div>'


def _conflict(conflict: KgConflict) -> str:
    return (
        '<div class="conflict"><b>Stale or conflicting:</b> the knowledge graph says '
        f"<b>{escaped(conflict.kg_value)}</b>, the documents say <b>{escaped(conflict.document_value)}</b>.</div>"
    )


def _reward(row: KgTrajectory) -> str:
    """Its parts, then the documents that it asks for."""
    values: Sequence[tuple[str, float | None, str]] = [
        (name, getattr(row.reward, name), meaning) for name, meaning in _PARTS
    ]
    cells = "".join(
        f'<div>{name}</div><div class="number">{"not known" if value is None else f"{value:.3f}"}</div>'
        f'<div class="meaning">{html.escape(meaning)}</div>'
        for name, value, meaning in values
    )
    found = {" ".join(passage.title.casefold().split()) for step in row.steps for passage in step.documents}
    supporting = "".join(
        f'<div class="hop">{"✓ found" if " ".join(each.title.casefold().split()) in found else "✗ not found"} · '
        f"{escaped(each.title)}</div>"
        for each in row.supporting
    )
    told = f"<p>Supporting documents of the gold hops:</p>{supporting}" if supporting else ""
    return f'<div class="rewards">{cells}</div>{told}'
