"""A search tree: its drawing, and the plan and the rollouts of the node that a person clicks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from trailforge.inspector.answer_marks import Marked
from trailforge.inspector.drawings.search_tree import Path, search_tree_figure
from trailforge.pipelines.runs.finished import OpenRun
from trailforge.inspector.views.reading import ORIGINS, chip, show_head, show_steps
from trailforge.inspector.visible_text import escaped, visible
from trailforge.schemas import Node, Rollout, SearchTree, StepPair

STYLE = """
.plan { margin: .2rem 0; padding-left: 1.6rem; font-size: .92rem; } .plan li { overflow-wrap: anywhere; }
"""
_STOPPED = {
    "satisfied": "the tree has the rollouts that its rows need",
    "budget": "calls or rounds ran out",
    "exhausted": "nothing was left that a further round could change",
}
_WRONG, _RIGHT = "#d1453b", "#2a6fdb"


def tree_of(run: OpenRun, question_id: str) -> SearchTree | None:
    """The search behind a question's rows; None when the run keeps none."""
    number = run.find("trees", question_id, "question_id")
    return None if number is None else run.record("trees", number)


def show_search_of_row(tree: SearchTree, uid: str, behind: Mapping[int, str]) -> None:
    """Of a trajectory: with what the search came to, which a tree's own head says already."""
    st.html(f'<div class="chips">{"".join(_facts(tree))}</div>')
    show_search(tree, uid, behind)


def show_search(tree: SearchTree, uid: str, behind: Mapping[int, str]) -> None:
    """The tree to click on. `behind`: rollouts that a row is made of, each with its role, `wrong`, `mended` or `row`.

    `uid`: what tells this tree's widgets from others on the page.
    """
    event: Any = st.plotly_chart(
        search_tree_figure(tree, _paths(tree, behind)), key=f"{uid}.tree", on_select="rerun", selection_mode="points",
        config={"scrollZoom": True, "displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d"]},
    )  # fmt: skip
    st.caption(
        "Click a node for its plan and rollouts. Size: visits n; colour: value V, the mean reward of its rollouts and "
        "of those below it. Drag to move, scroll to zoom, double-click for the whole tree."
    )
    _show_node(tree, _chosen(event, tree, behind), uid, behind)


def _facts(tree: SearchTree) -> list[str]:
    dropped = tree.dropped_splits
    lost = dropped.malformed + dropped.identical + dropped.no_progress + dropped.invalid
    told = (
        f"{dropped.malformed} malformed, {dropped.identical} identical, {dropped.no_progress} without progress, "
        f"{dropped.invalid} invalid"
    )
    facts = [
        chip(f"{len(tree.nodes)} plans"),
        chip(f"{len(tree.rollouts)} rollouts", f"{sum(r.reward > 0 for r in tree.rollouts)} of them right"),
        chip(f"stopped: {tree.stop_reason}", _STOPPED[tree.stop_reason]),
        chip(f"{tree.rounds} rounds, depth {tree.max_depth}"),
        chip(f"{tree.calls:,} model calls", f"{tree.prompt_tokens:,} + {tree.completion_tokens:,} tokens"),
        chip(f"{lost} splits dropped", told),
    ]
    if tree.cost:
        facts.append(chip(f"cost {tree.cost:.4f}", "in the currency of the configured prices"))
    if tree.oracle_used:
        facts.append(chip("oracle joined", ORIGINS["oracle"]))
    return facts


def _paths(tree: SearchTree, behind: Mapping[int, str]) -> list[Path]:
    known = {index: role for index, role in behind.items() if 0 <= index < len(tree.rollouts)}
    named = {"wrong": ("wrong rollout", _WRONG), "mended": ("right rollout", _RIGHT), "row": ("this row", _RIGHT)}
    return [
        Path(node=tree.rollouts[index].node, name=f"{named[role][0]} {index}", colour=named[role][1])
        for index, role in known.items()
    ]


def _chosen(event: Any, tree: SearchTree, behind: Mapping[int, str]) -> Node:
    """The clicked node; at first that of the row's rollout, else the best one that was visited most."""
    for point in event["selection"]["points"]:
        data = point.get("customdata")
        number = data[0] if isinstance(data, list) else data
        if isinstance(number, int) and 0 <= number < len(tree.nodes):
            return tree.nodes[number]
    for index in reversed(tuple(behind)):
        if 0 <= index < len(tree.rollouts):
            return tree.nodes[tree.rollouts[index].node]
    own = {rollout.node for rollout in tree.rollouts}
    return max(tree.nodes, key=lambda node: (node.id in own, node.value, node.visits))


def _show_node(tree: SearchTree, node: Node, uid: str, behind: Mapping[int, str]) -> None:
    own = [rollout for rollout in tree.rollouts if rollout.node == node.id]
    left, right = st.columns([2, 3])
    with left:
        st.html(_node(node, len(own)))
    with right:
        rollout = _pick_rollout(own, f"{uid}.node{node.id}", behind)
    if rollout is not None:
        st.html(f"<b>Rollout {rollout.index}</b> <span class='small'>{_varied(rollout)}</span>")
        show_steps(rollout.steps, Marked(kind="gold", answers=(tree.answer, *tree.answer_aliases)))


def _node(node: Node, own: int) -> str:
    splits = [*node.decomposable, *[False] * (len(node.plan) - len(node.decomposable))]
    plan = "".join(
        f"<li>{escaped(text, 600)}{' ' + chip('may be split') if can else ''}</li>"
        for text, can in zip(node.plan, splits, strict=False)
    )
    value = f"V {node.value:.2f}, visits n {node.visits}, own rollouts {own}" if node.visits else "no rollout"
    leaf = chip("leaf plan", "No sub-question may be split further; rows are made from such plans alone.")
    facts = [
        chip(f"depth {node.depth}"),
        chip(f"{node.origin} plan", ORIGINS[node.origin]),
        *([leaf] * (not any(splits))),
    ]
    return (
        f'<b>Node {node.id}</b> <span class="small">{value}</span><div class="chips">{"".join(facts)}</div>'
        f'<ol class="plan">{plan}</ol>'
    )


def _pick_rollout(own: Sequence[Rollout], key: str, behind: Mapping[int, str]) -> Rollout | None:
    if not own:
        st.info("This plan was never rolled out itself.")
        return None
    first = next((place for place, each in enumerate(own) if behind.get(each.index) in ("mended", "row")), 0)
    event: Any = st.dataframe(
        [
            {
                "rollout": each.index,
                **({"behind this row": behind.get(each.index, "")} if behind else {}),
                "reward": each.reward,
                "answer": visible(each.answer[:160]),
                "varied": _varied(each),
            }
            for each in own
        ],
        key=f"{key}.rollouts", on_select="rerun", selection_mode="single-row", hide_index=True,
        selection_default={"selection": {"rows": [first]}}, height=min(250, 38 + 35 * len(own)),
    )  # fmt: skip
    rows = event["selection"]["rows"]
    return own[rows[0] if rows else first]


def _varied(rollout: Rollout) -> str:
    if rollout.variation == "query" and rollout.varied_step is not None:
        return f"query of step {rollout.varied_step + 1} reworded"
    return {"none": "plain", "query": "a query reworded", "answer": "answers drawn anew"}[rollout.variation]


def roles(pair: StepPair | None, right_rollout: int) -> dict[int, str]:
    """Which rollouts a trajectory is made of."""
    return {right_rollout: "row"} if pair is None else {pair.wrong_rollout: "wrong", pair.right_rollout: "mended"}


def show_tree(run: OpenRun, tree: SearchTree) -> None:
    """One row of `trees`."""
    show_head(tree.question, tree.answer, tree.answer_aliases, None, False, _facts(tree))
    show_search(tree, tree.question_id, {})
