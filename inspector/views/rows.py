"""One row, by the view that knows its table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inspector.open_run import OpenRun
from inspector.views import episodes, fields, search_trees, sources, trajectories
from schemas import to_dict

PRESENTERS: dict[str, Callable[[OpenRun, Any], None]] = {
    "episodes": episodes.show_episode,
    "inputs": sources.show_source,
    "mcts_trajectories": trajectories.show_trajectory,
    "rejected": fields.show_rejected,
    "sft": trajectories.show_sft,
    "trees": search_trees.show_tree,
}
"""By table; the others are shown field by field."""


def show_row(run: OpenRun, table: str, number: int) -> None:
    """A row of a table as a person reads it."""
    record = run.record(table, number)
    presenter = PRESENTERS.get(table)
    if presenter is None:
        fields.show_fields(to_dict(record))
    else:
        presenter(run, record)
