"""Trajectories, the search trees behind them, episodes of planned search, and the rows that a trainer reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import streamlit as st

from trailforge.inspector.answer_marks import Marked
from trailforge.pipelines.runs.finished import OpenRun
from trailforge.inspector.views import episodes, mended, reading, search_trees
from trailforge.inspector.views.conversation import show_conversation
from trailforge.inspector.views.picking import pick
from trailforge.inspector.views.reading import ORIGINS, chip, show_head, show_parts, show_provenance, show_steps
from trailforge.inspector.views.tabs import Tab, show_tabs
from trailforge.inspector.views.to_decide import TABLE
from trailforge.schemas import Message, SftRow, Trajectory, TrajectoryReward

STYLE = reading.STYLE + mended.STYLE + search_trees.STYLE + episodes.STYLE
_REWARD = {
    "total": "the reward by which the row was kept",
    "exact_match": "the final answer is a gold answer, after normalisation",
    "f1": "words in common with the gold answer",
    "cover_exact_match": "a gold answer stands in the final answer",
}


class _Table(NamedTuple):
    title: str
    columns: Sequence[str]
    kind: str
    show: Callable[[OpenRun, Any], None]


def show(run: OpenRun) -> None:
    """The list on the left, the row on the right."""
    tables = {name: table for name, table in _TABLES.items() if name in run.tables}
    asked = st.query_params.get(TABLE)
    first = next(iter(tables))
    chosen = st.segmented_control(
        "Show", list(tables), default=asked if asked in tables else first, required=True, key="trajectories.table",
        format_func=lambda name: f"{tables[name].title} ({run.size(name):,})", label_visibility="collapsed",
    )  # fmt: skip
    name = chosen or first
    st.query_params[TABLE] = name
    left, right = st.columns([1, 3])
    with left:
        number = pick(run, name, tables[name].columns, kind=tables[name].kind, height=640)
    if number is not None:
        with right:
            tables[name].show(run, run.record(name, number))


def show_trajectory(run: OpenRun, row: Trajectory) -> None:
    """One row of `mcts_trajectories`."""
    chips = [*_kind_chips(row), *_size_chips(row)]
    show_head(row.question, row.answer, row.answer_aliases, row.final_answer, row.reward.total > 0, chips)
    tree = search_trees.tree_of(run, row.question_id)
    gold = Marked(kind="gold", answers=(row.answer, *row.answer_aliases))
    tabs = [
        Tab("Conversation", lambda: show_conversation(row.messages, turns_of_mistake(row))),
        Tab("Steps", lambda: show_steps(row.steps, gold, _kinds(row))),
        Tab("Reward and provenance", lambda: _show_origin(row)),
    ]
    if tree is not None:
        behind = search_trees.roles(row.step_pair, row.right_rollout)
        tabs.insert(2, Tab("Search tree", lambda: search_trees.show_search_of_row(tree, row.uid, behind)))
    if row.kind == "reflective":
        tabs.insert(0, Tab("Wrong and mended", lambda: mended.show_mended(row, tree)))
    show_tabs(tabs, row.uid, "mcts_trajectories")


def show_sft(run: OpenRun, row: SftRow) -> None:
    """One row of `sft`: what a trainer reads, with the turns on which the loss is taken."""
    part = f"turn {row.segment_index + 1} of {row.segment_count}" if row.segment_count > 1 else "whole conversation"
    chips = [
        *_kind_chips(row),
        chip(part),
        chip(f"{sum(row.train)} of {len(row.messages)} turns trained", "Turns on which the loss is taken."),
        *_size_chips(row),
        chip(row.protocol),
    ]
    made_of = _made_of(run, row)
    is_right = max(row.reward.exact_match, row.reward.cover_exact_match) > 0
    show_head(
        row.question, row.answer, row.answer_aliases, None if made_of is None else made_of.final_answer, is_right, chips
    )
    notes = turns_of_mistake(made_of) if isinstance(made_of, Trajectory) else {}
    messages = [
        Message(role=message.role, content=message.content, train=train)
        for message, train in zip(row.messages, row.train, strict=True)
    ]
    tabs = [
        Tab("Conversation", lambda: show_conversation(messages, notes)),
        Tab("Reward and provenance", lambda: _show_origin(row)),
    ]
    show_tabs(tabs, row.uid, "sft")


def _made_of(run: OpenRun, row: SftRow) -> Any:
    """The trajectory or episode behind it; None when the run keeps none."""
    for table in ("mcts_trajectories", "episodes", "kg_trajectories"):
        number = run.find(table, row.trajectory_uid)
        if number is not None:
            return run.record(table, number)
    return None


def turns_of_mistake(row: Trajectory) -> dict[int, tuple[str, str]]:
    """Notes for the conversation: where the wrong step is asked and searched, and where it is taken back and mended.

    A step's answer is told in the turn after its search. The turn after a wrong step so holds the wrong answer, the
    reflection, and the better search; for a reasoning error the better answer itself, for nothing is searched again.
    """
    mistake = next((place for place, step in enumerate(row.steps) if step.is_mistake), None)
    turns = [number for number, message in enumerate(row.messages) if message.role == "assistant"]
    if mistake is None or mistake + 1 >= len(turns):
        return {}
    asks, mends = turns[mistake], turns[mistake + 1]
    notes = {asks: ("wrong", "begins the step that goes wrong")}
    notes |= {number: ("wrong", "what the wrong step found") for number in range(asks + 1, mends)}
    if row.reflection_error == "reasoning":
        return notes | {mends: ("mended", "the wrong answer, the reflection, and the right answer")}
    notes[mends] = ("mended", "the wrong answer, the reflection, and the better search")
    after = turns[mistake + 2] if mistake + 2 < len(turns) else len(row.messages)
    return notes | {number: ("mended", "what the mended step found") for number in range(mends + 1, after)}


def _kinds(row: Trajectory) -> dict[int, str]:
    mistake = next((place for place, step in enumerate(row.steps) if step.is_mistake), None)
    return {} if mistake is None else {mistake: "wrong", mistake + 1: "mended"}


def _kind_chips(row: Any) -> list[str]:
    kind = getattr(row, "trajectory_kind", None) or row.kind
    told = "Holds a wrong step, a reflection and the mended step." if kind == "reflective" else "No wrong step."
    error = [chip(f"{row.reflection_error} error", kind="wrong")] if row.reflection_error else []
    return [chip(kind, told, "mended" if kind == "reflective" else "right"), *error]


def _size_chips(row: Any) -> list[str]:
    return [
        chip(f"{row.origin} plan", ORIGINS[row.origin]),
        chip(f"{row.num_hops} hops", "Sub-questions of the plan that leads to the answer."),
        chip(f"{row.num_tool_calls} searches"),
        chip(f"{row.token_estimate:,} tokens", "By a rule of thumb; a trainer counts with its own tokenizer."),
        chip(f"F1 {row.reward.f1:.2f}", "Of the final answer."),
    ]


def _show_origin(row: Any) -> None:
    reward: TrajectoryReward = row.reward
    show_parts({name: (getattr(reward, name), told) for name, told in _REWARD.items()})
    show_provenance(row.provenance, uid=row.uid, question_id=row.question_id)


_TABLES = {
    "mcts_trajectories": _Table(
        "Trajectories", ("reflection_error", "question", "answer", "origin", "num_hops"), "reflection_error",
        show_trajectory,
    ),
    "trees": _Table("Search trees", ("stop_reason", "question", "rounds"), "stop_reason", search_trees.show_tree),
    "episodes": _Table("Episodes", ("type", "question", "origin", "reward.total"), "type", episodes.show_episode),
    "sft": _Table("Rows for training", ("trajectory_kind", "question", "segment_index"), "trajectory_kind", show_sft),
}  # fmt: skip
