"""One row, by the view that knows its table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inspector.open_run import OpenRun
from inspector.views import (
    bundle_question,
    episodes,
    fields,
    kg_episode,
    kg_pair,
    kg_question,
    search_trees,
    sources,
    trajectories,
)
from schemas import to_dict

PRESENTERS: dict[str, Callable[[OpenRun, Any], None]] = {
    "episodes": episodes.show_episode,
    "inputs": sources.show_source,
    "mcts_trajectories": trajectories.show_trajectory,
    "rejected": fields.show_rejected,
    "sft": trajectories.show_sft,
    "trees": search_trees.show_tree,
    "bundles": bundle_question.show_bundle,
    "bundle_inputs": bundle_question.show_bundle_input,
    "bundle_questions": bundle_question.show_bundle_question,
    "kg_trajectories": kg_episode.show_kg_trajectory,
    "kg_questions": kg_question.show_kg_question,
    "pairs": kg_pair.show_pair,
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
