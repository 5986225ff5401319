"""One row, by the view that knows its record."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import streamlit as st

from trailforge.pipelines.runs.finished import OpenRun
from trailforge.inspector.views import (
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
from trailforge.inspector.visible_text import escaped
from trailforge.schemas import (
    Bundle,
    BundleInput,
    BundleQuestion,
    ContrastivePair,
    InvalidInput,
    KgQuestion,
    KgTrajectory,
    Question,
    RejectedRow,
    SearchEpisode,
    SearchTree,
    SftRow,
    SourceDocument,
    Trajectory,
    from_dict,
    to_dict,
)

PRESENTERS: dict[type, Callable[[OpenRun, Any], None]] = {
    Bundle: bundle_question.show_bundle,
    BundleInput: bundle_question.show_bundle_input,
    BundleQuestion: bundle_question.show_bundle_question,
    ContrastivePair: kg_pair.show_pair,
    KgQuestion: kg_question.show_kg_question,
    KgTrajectory: kg_episode.show_kg_trajectory,
    Question: sources.show_source,
    SearchEpisode: episodes.show_episode,
    SearchTree: search_trees.show_tree,
    SftRow: trajectories.show_sft,
    SourceDocument: sources.show_source,
    Trajectory: trajectories.show_trajectory,
}
"""By record; the others are shown field by field."""
_REJECTED = (Trajectory, KgTrajectory, BundleQuestion, KgQuestion, SearchEpisode, SourceDocument, Question, Bundle)
"""What filters judge, as the payload of a rejected row."""


def show_row(run: OpenRun, table: str, number: int) -> None:
    """A row of a table as a person reads it."""
    record = run.record(table, number)
    if isinstance(record, RejectedRow):
        _show_rejected(run, record)
    else:
        _show_record(run, record)


def _show_record(run: OpenRun, record: Any) -> None:
    presenter = PRESENTERS.get(type(record))
    if presenter is None:
        fields.show_fields(to_dict(record))
    else:
        presenter(run, record)


def _show_rejected(run: OpenRun, row: RejectedRow) -> None:
    """What a filter said of a row, and the row as it was."""
    told = f"{escaped(row.stage)}: <b>{escaped(row.reason)}</b> (score {row.score:g}) {escaped(row.detail)}"
    st.html(f'<div class="verdict rejected">{told}</div>')
    found = _payload(row)
    if isinstance(found, dict):
        fields.show_fields(found)
    else:
        _show_record(run, found)


def _payload(row: RejectedRow) -> Any:
    """The row as its record, or as plain values where it is none that we know: an input that could not be read."""
    try:
        content = json.loads(row.payload)
    except ValueError:
        return {"row": row.payload}
    for record in _REJECTED if isinstance(content, dict) else ():
        try:
            return from_dict(record, content)
        except InvalidInput:
            continue
    return content if isinstance(content, dict) else {"row": content}
