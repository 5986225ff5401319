"""Choose the rows that a person decides on next, and log the decisions after checking them against the data set's
rules."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from trailforge.curation import (
    CurationGuide,
    LatestDecision,
    Merged,
    TableGuide,
    append,
    check_decision,
    latest_decisions,
    merge,
    merge_latest,
    now,
    of_run,
    read_decisions,
    source_of,
    with_source_hashes,
)
from trailforge.pipelines import value_at
from trailforge.pipelines.runs import OpenRun
from trailforge.pipelines.runs.table_index import FILTERS
from trailforge.pipelines.search import like_of, search_rows
from trailforge.schemas import Decision, InvalidInput, Ruling, TrailforgeError

Check = Callable[[Mapping[str, Any], Ruling], None]
"""A function that raises `InvalidInput` when people cannot decide this on a row, or when a fix leaves no valid row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curation:
    """The rules by which people decide on a run's rows, and the name of the person deciding."""

    tables: tuple[str, ...]
    """Names of the tables on whose rows people decide; empty for a curated data set."""
    fixable: Callable[[str], tuple[str, ...]]
    """Returns the fields of a table that can be fixed."""
    check: Check
    who: str
    """Name under which decisions are written unless another is given on the page."""
    guide: CurationGuide = field(default_factory=CurationGuide)
    """Reasons and guidelines by table, and who decides on what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDecisions:
    """All that people said of the rows of a run, and what holds of it."""

    decisions: tuple[Decision, ...]
    stances: tuple[LatestDecision, ...]
    merged: Merged


def read_run_decisions(path: Path, run_id: str) -> RunDecisions:
    """Read what people said of a run. `path` is the log or the folder of the run. Raises what `read_decisions`
    raises.
    """
    decisions = of_run(read_decisions(path), run_id)
    stances = latest_decisions(decisions)
    return RunDecisions(decisions=tuple(decisions), stances=tuple(stances), merged=merge_latest(stances))


def decide(
    folder: Path, run_id: str, table: str, row: Mapping[str, Any], who: str, words: Sequence[Mapping[str, Any]],
    check: Check,
) -> list[Decision]:  # fmt: skip
    """Write everything that a person decides on a row to the log, or nothing; returns the decisions.

    `words` has for each decision its fields of `Decision`, at least `action`; `check` is the data set's. Raises
    `InvalidInput` for a decision that is incomplete, that withdraws what was not said or fixes what is right already,
    or that together with others' decisions leaves no valid row; `OutputError` when the log cannot be written.
    """
    uid = row["uid"] if "uid" in row else row["id"]
    takes_back = any(word["action"] == "withdraw" for word in words)  # even on a row that is not there any more
    source_id = "" if takes_back else source_of(table, row)
    made = (
        check_decision(Decision(run_id=run_id, table=table, uid=uid, who=who, when=now(), source_id=source_id, **word))
        for word in words
    )
    new = with_source_hashes(folder, list(made))
    so_far = [each for each in of_run(read_decisions(folder), run_id) if (each.table, each.uid) == (table, uid)]
    stances = latest_decisions(so_far)
    if takes_back and not any(each.who == who for each in stances):
        raise InvalidInput(f"{who} decided nothing on row {uid} of {table} that could be taken back", field="action")
    fixed = {fix.field.split(".")[0] for each in stances for fix in each.fixes}
    for each in new:
        if each.action != "fix" or each.field.split(".")[0] in fixed:
            continue
        if json.loads(each.value) == value_at(row, each.field):
            raise InvalidInput("has that value already; fix nothing, or accept the row", field=each.field)
    if not (takes_back and _is_refused(row, so_far, check)):  # what is wrong already has to be mended somewhere
        _check(row, [*so_far, *new], check)
    append(folder, new)
    return new


def _check(row: Mapping[str, Any], words: Sequence[Decision], check: Check) -> None:
    for ruling in merge(words).rulings:
        check(row, ruling)


def _is_refused(row: Mapping[str, Any], words: Sequence[Decision], check: Check) -> bool:
    try:
        _check(row, words, check)
    except InvalidInput:
        return True
    return False


def make_fix(row: Mapping[str, Any], field: str, text: str) -> dict[str, str]:
    """Return a fix from the text that a person typed: as it is where the row has text, else read as JSON. Raises
    `InvalidInput` when the row has no such field.
    """
    value = json.dumps(text, ensure_ascii=False) if isinstance(value_at(row, field), str) else text
    return {"action": "fix", "field": field, "value": value}


def parts_of(row: Mapping[str, Any], fields: Sequence[str]) -> list[str]:
    """Return the paths, as `value_at` takes them, of texts and numbers in some fields of a row; a list of texts counts
    as one.
    """
    return [part for field in fields for part in _parts(row.get(field), field)]


def _parts(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _parts(part, f"{path}.{name}")
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        for number, part in enumerate(value):
            yield from _parts(part, f"{path}.{number}")
    else:
        yield path


IN_ORDER, RANDOM, LOWEST = "In order", "Random order", "Lowest first"
MINE = "Mine, then overlap"
FILTERS_DIFFER, PEOPLE_DIFFER, DECIDED = "Filters disagree", "People disagree", "Decided by me"
MODES = {
    MINE: "The rows that are yours alone, then those that you and others decide on, by curation.yaml; without those "
    "that as many have decided on as are to.",
    IN_ORDER: "All rows, as they stand in the files.",
    RANDOM: "All rows in a random order, the same one for everybody: the first so many are a sample.",
    LOWEST: "The rows with the lowest value of a number first.",
    FILTERS_DIFFER: "Rows that some filters pass and others do not, the most divided first.",
    PEOPLE_DIFFER: "Rows that some keep and others reject, or fix in different ways.",
    DECIDED: "Rows that you have decided on, to look at again.",
}
_KINDS = ("kind", "reflection_error", "type", "shape", "origin", "stage", "reason", "source")
"""Columns by whose values rows can be chosen."""
_MOST_VALUES = 30
"""Of one column, the most frequent ones."""
_MOST_ASKED = 50_000
"""Rows that are read to see whether filters disagree on any before that order is offered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A filter of rows: those with this value in a column."""

    column: str
    value: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which rows a person wants to decide on, and in which order."""

    table: str
    mode: str
    number: str = ""
    """Path of the number that orders the rows in the mode `LOWEST`, as in `TableIndex.values`."""
    kind: Kind | None = None
    """The kind of rows to show; None: all kinds."""
    words: str = ""
    """A search that the rows have to match; empty: none."""
    guide: TableGuide = field(default_factory=TableGuide)
    """Who decides on which rows, for the mode `MINE`."""
    hide_decided: bool = True
    """Whether to leave out rows that this person decided on; it has no effect on `PEOPLE_DIFFER` and `DECIDED`."""


def modes_of(run: OpenRun, table: str, guide: TableGuide | None = None, who: str = "") -> list[str]:
    """Return the orders in which a table's rows can be decided on: "filters disagree" only where rows have filters'
    scores, "mine" only where the guide names the person `who`.
    """
    has = {LOWEST: bool(run.table(table).numbers()), FILTERS_DIFFER: _may_be_disputed(run, table)}
    has[MINE] = guide is not None and who in guide.annotators
    return [mode for mode in MODES if has.get(mode, True)]


def kinds_of(run: OpenRun, table: str) -> list[Kind]:
    """Return the filters that a table's kinds of rows allow; a value that all rows have is none."""
    schema = run.table(table).schema
    columns = [name for name in _KINDS if name in schema.names and pa.types.is_string(schema.field(name).type)]
    counts = run.table(table).counts(columns) if columns else {}
    return [
        Kind(column=column, value=value, rows=rows)
        for column, count in counts.items()
        for value, rows in count.most_common(_MOST_VALUES)
        if value and rows < run.size(table)
    ]


def queue(run: OpenRun, wanted: Wanted, who: str, stances: Sequence[LatestDecision], decided: Merged) -> np.ndarray:
    """Return the numbers of the rows to decide on, in order; with a search, of the rows searched so far.

    `stances` are all people's latest decisions, and `decided` what these come to for each row.
    """
    table = wanted.table
    order = _order(run, wanted, who, stances, decided)
    if wanted.kind is not None:
        order = order[_among(run, table, run.table(table).matching(wanted.kind.column, wanted.kind.value))[order]]
    if wanted.words.strip():
        found = np.array(_found(run, wanted), np.int64)
        is_by_likeness = like_of(wanted.words) and wanted.mode == IN_ORDER
        order = found[_among(run, table, order)[found]] if is_by_likeness else order[_among(run, table, found)[order]]
    if wanted.hide_decided and wanted.mode not in (PEOPLE_DIFFER, DECIDED):
        mine = {each.uid for each in stances if each.table == table and each.who == who}
        if wanted.mode == MINE:
            mine |= _decided_enough(wanted, stances)
        if mine:
            order = order[~_among(run, table, run.places(table, mine).values())[order]]
    return order


def _found(run: OpenRun, wanted: Wanted) -> Sequence[int]:
    """Rows that were searched for, none where the search cannot be read: the page says why."""
    try:
        return search_rows(run, wanted.table, wanted.words).rows
    except TrailforgeError:
        return ()


def _order(run: OpenRun, wanted: Wanted, who: str, stances: Sequence[LatestDecision], decided: Merged) -> np.ndarray:
    """All rows that the order is made of."""
    table = wanted.table
    if wanted.mode == MINE:
        alone, shared = shares_of(run, table, wanted.guide).get(who, _NO_SHARE)
        return np.concatenate([alone, shared])
    if wanted.mode == RANDOM:
        return run.table(table).shuffled()
    if wanted.mode == LOWEST:
        return run.table(table).ascending(wanted.number) if wanted.number else np.array([], np.int64)
    if wanted.mode == FILTERS_DIFFER:
        return run.table(table).disputed()
    if wanted.mode == IN_ORDER:
        return np.arange(run.size(table))
    uids = (
        {each.uid for each in stances if each.table == table and each.who == who}
        if wanted.mode == DECIDED
        else {each.uid for each in decided.conflicts if each.table == table}
    )
    return np.array(sorted(run.places(table, uids).values()), np.int64)


_NO_SHARE = np.array([], np.int64), np.array([], np.int64)


def shares_of(run: OpenRun, table: str, guide: TableGuide) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return for each annotator the numbers of the rows that belong to this person alone, and to several, each in the
    order of the table.
    """

    def divide() -> dict[str, tuple[np.ndarray, np.ndarray]]:
        key = run.key_of(table)
        rows: dict[str, tuple[list[int], list[int]]] = {name: ([], []) for name in guide.annotators}
        for number, uid in enumerate(run.table(table).select([key])[key].to_pylist()):
            people = guide.people_for(table, uid)
            for name in people:
                rows[name][len(people) > 1].append(number)
        return {name: (np.array(own, np.int64), np.array(both, np.int64)) for name, (own, both) in rows.items()}

    named = (*guide.annotators, str(guide.overlap), str(guide.people))
    return run.once(("shares", table, *named), divide) if guide.annotators else {}


def _decided_enough(wanted: Wanted, stances: Sequence[LatestDecision]) -> set[str]:
    """Ids of rows that as many people have decided on as the guide asks for, whoever they are."""
    table = wanted.table
    counts = Counter(each.uid for each in stances if each.table == table)
    return {uid for uid, count in counts.items() if count >= len(wanted.guide.people_for(table, uid))}


def _among(run: OpenRun, table: str, numbers: Collection[int]) -> np.ndarray:
    """Of each row of a table whether it is one of these."""
    mask = np.zeros(run.size(table), bool)
    mask[np.fromiter(numbers, np.int64, len(numbers))] = True
    return mask


def _may_be_disputed(run: OpenRun, table: str) -> bool:
    names = run.table(table).schema.names
    if FILTERS not in names and "payload" not in names:
        return False
    return run.size(table) > _MOST_ASKED or bool(len(run.table(table).disputed()))
