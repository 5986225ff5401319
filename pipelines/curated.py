"""Apply people's decisions to rows: pure functions that turn rows and rulings into a curated data set.

A rejected row goes, and a fixed row is another row: it gets a uid of its own and `curated/` says what it is derived
from. What was made of a row that is not there any more goes with it: SFT rows silently, as they hold nothing that
their trajectory does not, all others into `rejected/`. A rejected question goes too, as training sets take the
questions of a run. Documents, bundles and paths are *sources*: they stay, and what was made of a rejected one goes.

`Undo` gives the tables back as the run made them, which is how a curated data set is verified.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trailforge.pipelines.dataset import INPUTS, Place, Table, resolve
from trailforge.pipelines.datasets import CURATE, CURATED, dataset_names, load_dataset
from trailforge.schemas import (
    AppliedFix,
    CuratedRow,
    Fix,
    InvalidInput,
    RejectedRow,
    Ruling,
    SftRow,
    from_dict,
    from_payload,
    read_rows,
    to_dict,
)

NAME = "part-curation"
"""Stem of the files that curation writes in `curated/` and `rejected/`."""
SFT = "sft"
_OF = {"reject": "of_rejected_row", "follow": "of_rejected_row", "fix": "of_fixed_row"}
"""Reason of what goes with a row, by what became of that."""


def products_of(dataset: str) -> Mapping[str, Table]:
    """Return the tables of a data set that lose rows when people reject some, each after the tables from which its rows
    are made.
    """
    return {name: table for name, table in _tables(dataset).items() if table.decided == "product"}


def decidable(dataset: str) -> tuple[str, ...]:
    """Return the tables on whose rows people decide: products, sources, and the rows that filters rejected, so that
    people can say where a filter errs.
    """
    return (*products_of(dataset), *_list_sources(dataset), "rejected")


def source_column(table: str) -> str:
    """Return the column that has the id of the question, document or path from which a row was made; empty where that
    is not one thing. Raises `InvalidInput` for a table on whose rows people do not decide.
    """
    if table == "rejected":
        return ""
    for declared in _declared(table):
        if declared.decided:
            return declared.source
    problem = f"no table {table!r} is known, so this would refuse nothing; use the trailforge that wrote it"
    raise InvalidInput(problem, field="table")


def is_input(table: str) -> bool:
    """Tell whether rejecting a row of this table also keeps it from being an input of later runs."""
    return table == INPUTS or any(declared.is_input for declared in _declared(table))


def _declared(table: str) -> Iterator[Table]:
    return (tables[table] for tables in map(_tables, dataset_names()) if table in tables)


def _tables(name: str) -> Mapping[str, Table]:
    return load_dataset(name).all_tables


def _list_sources(dataset: str) -> list[str]:
    return [name for name, table in _tables(dataset).items() if table.decided == "source"]


def check_row(dataset: str, row: Mapping[str, Any], ruling: Ruling) -> None:
    """Raise `InvalidInput` when this ruling on a row is not allowed, or when its fix leaves no valid row."""
    _check_fields(dataset, ruling)
    if ruling.action == "fix":
        product = products_of(dataset)[ruling.table]
        apply_fixes(from_dict(product.record, dict(row)), ruling, product)


def _check_fields(dataset: str, ruling: Ruling) -> None:
    for field in [fix.field for fix in ruling.fixes] or [""]:
        check_ruling(dataset, ruling.table, ruling.action, field)


def check_ruling(dataset: str, table: str, action: str, field: str = "") -> None:
    """Raise `InvalidInput` when people may not take this action on the rows of a table."""
    products = products_of(dataset)
    if table == "rejected":
        if action == "fix":
            raise InvalidInput("a rejected row is in no data set, so nothing of it can be fixed", field=field)
    elif table in _list_sources(dataset):
        if action == "fix":
            raise InvalidInput(f"rows of {table} cannot be fixed: rows were made of them; reject it", field=field)
    elif table not in products:
        known = ", ".join(decidable(dataset))
        raise InvalidInput(f"rows of {table!r} follow from others; decide on {known}")
    elif action == "fix" and field.split(".")[0] not in products[table].fixable:
        fixable = ", ".join(products[table].fixable) or "none; reject the row"
        raise InvalidInput(f"cannot be fixed; of {table} can be: {fixable}", field=field)


def uid_of(row: Any) -> str:
    """Return the uid of a row; for an input, its id."""
    return row.id if hasattr(row, "id") else row.uid


def apply_fixes(row: Any, ruling: Ruling, product: Table) -> tuple[Any, tuple[AppliedFix, ...]]:
    """Return the row with the fixes applied, and the values that they replaced. Raises `InvalidInput` for a bad fix."""
    content, applied = to_dict(row), []
    for fix in ruling.fixes:
        old = _put(content, fix.field, json.loads(fix.value))
        applied.append(AppliedFix(field=fix.field, old_value=_json(old), new_value=fix.value, who=fix.who))
    text = _json([[fix.field, json.loads(fix.value)] for fix in ruling.fixes])
    content["uid"] = hashlib.sha256(f"{row.uid}\0{text}".encode()).hexdigest()[:16]
    try:
        new = from_dict(product.record, content)
        return (resolve(product.refit)(new, row) if product.refit else new), tuple(applied)
    except InvalidInput as error:
        problem = f"the fix of {row.uid} leaves no valid row: {error.problem}"
        raise InvalidInput(problem, field=error.field) from error


class Curator:
    """Applies people's decisions to the rows of a run, table by table, each table after those from which its rows are
    made.
    """

    def __init__(self, dataset: str, rulings: Iterable[Ruling]) -> None:
        """Raises `InvalidInput` for what people cannot decide. Rulings on `rejected/` change no row of the data set."""
        self._dataset = dataset
        self._products, sources = products_of(dataset), _list_sources(dataset)
        self._rulings: dict[Place, Ruling] = {}
        self._found: set[Place] = set()
        self.sources: list[CuratedRow] = []
        """Rulings on sources."""
        self._changed: dict[Place, str] = {}  # what became of sources and rows that are not there any more
        self._derived: dict[str, Any] = {}
        for ruling in rulings:
            _check_fields(dataset, ruling)
            if ruling.table in sources:
                self.sources.append(_curated_row(ruling, file="", position=None))
                if ruling.action == "reject":
                    self._changed[ruling.table, ruling.uid] = "reject"
            elif ruling.table != "rejected":
                self._rulings[ruling.table, ruling.uid] = ruling

    def curate(self, table: str, file: str, rows: Iterable[Any]) -> Iterator[tuple[Any | None, CuratedRow | None]]:
        """Yield for each row of a file its replacement and the record of the change; the first is None for a removed
        row, the second where people decided nothing.
        """
        product = self._products[table]
        for position, row in enumerate(rows):
            uid = uid_of(row)
            ruling = self._rulings.get((table, uid))
            if ruling is not None:
                self._found.add((table, uid))
            places = resolve(product.made_of)(row) if product.made_of else ()
            lost = next((place for place in places if place in self._changed), None)
            if ruling is not None and ruling.action == "reject":
                self._changed[table, uid] = "reject"
                yield None, _curated_row(ruling, file=file, position=position, payload=_json(to_dict(row)))
            elif lost is not None:
                yield None, self._follow(table, row, lost, file, position)
            elif ruling is None:
                yield row, None
            elif ruling.action == "fix":
                derived, applied = apply_fixes(row, ruling, product)
                self._changed[table, uid], self._derived[uid] = "fix", derived
                what = _curated_row(ruling, file=file, position=position, payload=_json(to_dict(row)))
                yield derived, replace(what, new_uid=derived.uid, fixes=applied)
            else:
                yield row, _curated_row(ruling, file=file, position=position)

    def sft(self, rows: Iterable[SftRow], config: Any) -> Iterator[SftRow]:
        """Yield the SFT rows that remain after curation; those of a fixed row are made again, in place of the
        first.
        """
        table = load_dataset(self._dataset).conversations
        sft = self._products[table].sft
        written: set[str] = set()
        for row in rows:
            became = self._changed.get((table, row.trajectory_uid))
            if became is None:
                yield row
            elif became == "fix" and sft is not None and row.trajectory_uid not in written:
                written.add(row.trajectory_uid)
                yield from resolve(sft)(self._derived[row.trajectory_uid], config)

    def check_all_found(self) -> None:
        """Raise `InvalidInput` when a row that people decided on was not found."""
        for table, uid in sorted(self._rulings.keys() - self._found):
            raise InvalidInput(
                f"a decision on row {uid} of {table}, which is not in this run; "
                "withdraw it, or apply the log to its own run"
            )

    def _follow(self, table: str, row: Any, lost: Place, file: str, position: int) -> CuratedRow:
        reason, uid = _OF[self._changed[lost]], uid_of(row)
        self._changed[table, uid] = "follow"
        gone = Ruling(table=table, uid=uid, action="reject", reason=reason, detail=f"made of {lost[1]} of {lost[0]}")
        return replace(_curated_row(gone, file=file, position=position, payload=_json(to_dict(row))), action="follow")


class Undo:
    """Restores the rows of a curated data set as the run made them; rows of a run without `curated/` are unchanged."""

    def __init__(self, folder: Path) -> None:
        """Memory holds `curated/`."""
        self.rows: list[CuratedRow] = list(read_rows(sorted((folder / CURATED).glob("part-*.parquet")), CuratedRow))
        self._at: dict[tuple[str, str], dict[int, CuratedRow]] = defaultdict(dict)
        for row in self.rows:
            if row.position is not None and row.action != "accept":
                self._at[row.table, row.file][row.position] = row

    def original(self, table: str, file: str, record: type, standing: Iterator[Any]) -> Iterator[Any]:
        """Yield the rows of a file as the run made them. `standing` are the rows that its curated file still has; those
        that people changed or rejected come from `curated/`. Raises `InvalidInput` where the stored text of such a row
        is no row.
        """
        changes = self._at.get((table, file), {})
        last, position = max(changes, default=-1), 0
        while True:
            change = changes.get(position)
            row = None if change is not None and change.new_uid is None else next(standing, None)
            if change is not None:
                yield _revive(record, change.payload)
            elif row is not None:
                yield row
            elif position > last:
                return
            position += 1


def rulings_of(rows: Iterable[CuratedRow]) -> list[Ruling]:
    """Return the decisions of people that are recorded in the rows of `curated/`."""
    return [
        Ruling(**_shared(row), fixes=tuple(Fix(field=fix.field, value=fix.new_value, who=fix.who) for fix in row.fixes))
        for row in rows
        if row.action != "follow"
    ]


def rejected_rows(rows: Sequence[CuratedRow]) -> list[RejectedRow]:
    """Return the rows that curation writes to `rejected/`: those that left their tables."""
    return [
        RejectedRow(
            uid=row.uid,
            stage=CURATE,
            reason=row.reason,
            score=0.0,
            detail=row.detail or row.reason,
            payload=row.payload,
        )
        for row in rows
        if row.action in ("reject", "follow") and row.position is not None
    ]


def _curated_row(ruling: Ruling, *, file: str, position: int | None, payload: str = "") -> CuratedRow:
    return CuratedRow(**_shared(ruling), new_uid=None, fixes=(), file=file, position=position, payload=payload)


def _shared(row: Ruling | CuratedRow) -> dict[str, Any]:
    """What a ruling and what is told of it say alike."""
    return {name: getattr(row, name) for name in ("table", "uid", "action", "reason", "detail", "who", "source_id")}


def value_at(row: Any, path: str) -> Any:
    """Return the value of a field of a row, or of a part of one such as `messages.3.content`. Raises `InvalidInput`
    when there is none.
    """
    at = row
    for step in path.split("."):
        at = {str(number): each for number, each in enumerate(at)} if isinstance(at, list) else at
        if not isinstance(at, dict) or step not in at:
            raise InvalidInput("the row has no such field; `trailforge show` lists its fields", field=path)
        at = at[step]
    return at


def _put(content: Any, path: str, value: Any) -> Any:
    """Set a part of a row; what stood there. Raises what `value_at` raises."""
    old = value_at(content, path)
    above, _, last = path.rpartition(".")
    around = value_at(content, above) if above else content
    around[int(last) if isinstance(around, list) else last] = value
    return old


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _revive(record: type, payload: str) -> Any:
    try:
        return from_payload(record, json.loads(payload))
    except ValueError as error:
        raise InvalidInput(f"the payload of a row is not valid JSON ({error})", file=CURATED) from error
