"""Identify the sources of decided rows by their content, so that a decision on one file's question touches no other
file's of its id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from trailforge.pipelines import INPUTS, load_dataset
from trailforge.pipelines.runs import Settings, read_settings
from trailforge.pipelines.runs.table_index import TableIndex, tables_of
from trailforge.pipelines.sources import hash_source
from trailforge.schemas import Decision, OutputError, from_dict


def with_source_hashes(folder: Path, decisions: Sequence[Decision]) -> list[Decision]:
    """Return the decisions with the content hash of their source added, where they lack it and the run's folder has it.
    Only decisions on this run get one: another run that was in the folder may have had other inputs.
    """
    settings = _settings(folder)
    if settings is None or INPUTS not in tables_of(folder):
        return list(decisions)
    unknown = {_source(each) for each in decisions if each.run_id == settings.run_id and not each.source_hash} - {""}
    if not unknown:
        return list(decisions)
    index, record = TableIndex(folder, INPUTS), load_dataset(settings.dataset).inputs.record
    numbers = index.find_all(unknown, "id")
    hashes = {id: hash_source(from_dict(record, index.row(number))) for id, number in numbers.items()}
    return [
        replace(each, source_hash=each.source_hash or hashes.get(_source(each), ""))
        if each.run_id == settings.run_id
        else each
        for each in decisions
    ]


def by_source(decisions: Iterable[Decision]) -> dict[str, list[Decision]]:
    """Group decisions by the content hash of their source, empty where it is unknown. A decision without that hash,
    such as one that withdraws others, joins those on the same row that have it.
    """
    decisions = list(decisions)
    known = {(each.run_id, each.table, each.uid): each.source_hash for each in decisions if each.source_hash}
    found: dict[str, list[Decision]] = defaultdict(list)
    for each in decisions:
        found[each.source_hash or known.get((each.run_id, each.table, each.uid), "")].append(each)
    return dict(found)


def _settings(folder: Path) -> Settings | None:
    """Of the run in a folder; a run that cannot be read tells nothing, and no decision on it is lost for that."""
    try:
        return read_settings(folder)
    except OutputError:
        return None


def _source(decision: Decision) -> str:
    """Id of the source of a decided row; empty where it is not one thing, or not said."""
    return decision.uid if decision.table == INPUTS else decision.source_id
