"""Knowledge graph: the episodes that searched it, and the questions made of it."""

from __future__ import annotations

import streamlit as st

from trailforge.pipelines.runs.finished import OpenRun
from trailforge.inspector.views.kg_episode import show_kg_trajectory
from trailforge.inspector.views.kg_question import show_kg_question
from trailforge.inspector.views.picking import pick

_TITLES = {"kg_trajectories": "Episodes", "kg_questions": "Questions"}
_LIST_HEIGHT = 180


def show(run: OpenRun) -> None:
    """Choose an episode or a question, and read it."""
    tables = [table for table in _TITLES if table in run.tables]
    table = tables[0]
    if len(tables) > 1:
        table = st.segmented_control(
            "Show", tables, default=tables[0], required=True, key="kg.table", format_func=_TITLES.__getitem__
        )
    if table == "kg_trajectories":
        columns = ["question", "answer", "final_answer", "reward.total", "num_tool_calls", "num_hops", "origin"]
        number = pick(run, "kg_trajectories", columns, kind="origin", height=_LIST_HEIGHT)
        if number is not None:
            show_kg_trajectory(run, run.record("kg_trajectories", number))
        return
    columns = ["question", "answer", "shape", "hops", "fewest_left", "writer"]
    number = pick(run, "kg_questions", columns, kind="shape", height=_LIST_HEIGHT)
    if number is not None:
        show_kg_question(run, run.record("kg_questions", number))
