"""Answers to bundles' questions by planned search: the plan, what each search found, the parts of the reward."""

from __future__ import annotations

import streamlit as st

from trailforge.inspector.answer_marks import Marked
from trailforge.pipelines.runs.finished import OpenRun
from trailforge.inspector.views.conversation import show_conversation
from trailforge.inspector.views.reading import ORIGINS, chip, passages, show_head, show_parts, show_provenance
from trailforge.inspector.views.tabs import Tab, show_tabs
from trailforge.inspector.visible_text import escaped
from trailforge.schemas import PlannedSearch, SearchEpisode

STYLE = """
.search { border: 1px solid rgba(128,128,128,.3); border-radius: 6px; padding: .4rem .8rem; margin: .4rem 0; }
.search .head { display: flex; gap: .5rem; align-items: baseline; flex-wrap: wrap; }
"""
_STATUS = {
    "found": ("right", "The search was run."),
    "skipped": ("", "It was not run: no query, or no such tool."),
    "failed": ("wrong", "Its tool failed."),
}


def show_episode(run: OpenRun, row: SearchEpisode) -> None:
    """One row of `episodes`."""
    chips = [
        chip(row.type),
        chip(f"{row.origin} plan", ORIGINS[row.origin]),
        chip(f"{row.num_hops} hops"),
        chip(f"{row.num_tool_calls} searches"),
        chip(f"evidence {row.evidence_found:.0%}", "Share of the hops whose evidence the searches brought."),
        chip(f"reward {row.reward.total:.2f}", kind="right" if row.reward.total >= 1 else ""),
        chip(f"{row.token_estimate:,} tokens"),
    ]
    show_head(row.question, row.answer, row.answer_aliases, row.final_answer, row.reward.answer > 0, chips)
    tabs = [
        Tab("Plan and searches", lambda: _show_searches(row)),
        Tab("Conversation", lambda: show_conversation(row.messages)),
        Tab("Reward and provenance", lambda: _show_origin(row)),
    ]
    show_tabs(tabs, row.uid, "episodes")


def _show_searches(row: SearchEpisode) -> None:
    """The plan's nodes in the order in which they were searched; those that were not come last."""
    if not row.plan_nodes:
        st.warning("This episode has no plan that could be read.")
    done = {search.node_id: search for search in row.searches}
    order = [*done, *(node.node_id for node in row.plan_nodes if node.node_id not in done)]
    nodes = {node.node_id: node for node in row.plan_nodes}
    right = tuple(row.answer_aliases) if row.options else (row.answer, *row.answer_aliases)
    correct = tuple(
        text for letter, text in zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", row.options, strict=False)
        if letter in row.correct_options
    )  # fmt: skip
    gold = Marked(kind="gold", answers=(*right, *correct))
    cards = []
    for node_id in order:
        needs = [edge.src for edge in row.plan_edges if edge.dst == node_id]
        search, node = done.get(node_id), nodes.get(node_id)
        tool, query = (search.tool, search.query) if search else (node.tool, node.query) if node else ("", "")
        cards.append(_card(node_id, tool, query, needs, search, gold))
    st.html("".join(cards))


def _card(node_id: str, tool: str, query: str, needs: list[str], search: PlannedSearch | None, gold: Marked) -> str:
    after = chip(f"needs {', '.join(needs)}", "Its query uses what these searches find.") if needs else ""
    kind, told = _STATUS[search.status] if search else ("", "The plan was not run to here.")
    status = chip(search.status if search else "not searched", told, kind)
    found = passages(search.passages, (gold,)) if search else ""
    return (
        f'<div class="search"><div class="head"><b>{escaped(node_id, 40)}</b>{chip(tool[:60])}{status}{after}</div>'
        f"<div>{escaped(query, 600)}</div>{found}</div>"
    )


def _show_origin(row: SearchEpisode) -> None:
    reward = row.reward
    show_parts(
        {
            "total": (reward.total, "the weighted sum of the parts"),
            "format": (reward.format, "the turns follow the grammar"),
            "dag": (reward.dag, "1 when the plan breaks none of the rules of a search plan"),
            "answer": (reward.answer, "the final answer against the gold answer"),
            "evidence": (row.evidence_found, "share of the hops whose evidence was found; not part of the reward"),
        }
    )
    show_provenance(row.provenance, uid=row.uid, question_id=row.question_id)
