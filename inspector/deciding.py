"""A person's word on a row: checked against the rules of the data set, then in the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trailforge.curation.decisions import (
    append,
    check_decision,
    merge,
    now,
    of_run,
    read_decisions,
    source_of,
    standing,
)
from trailforge.schemas import Decision, InvalidInput, Ruling

Check = Callable[[Mapping[str, Any], Ruling], None]
"""Raises `InvalidInput` when people cannot decide this on a row, or when a fix leaves no valid row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curation:
    """The rules of a run's data set, and who decides."""

    tables: tuple[str, ...]
    """On whose rows people decide; none of a data set that is curated."""
    fixable: Callable[[str], tuple[str, ...]]
    """Fields of a table that can be fixed."""
    check: Check
    who: str
    """Name under which decisions are written unless another is given on the page."""


def decide(
    folder: Path, run_id: str, table: str, row: Mapping[str, Any], who: str, words: Sequence[Mapping[str, Any]],
    check: Check,
) -> list[Decision]:  # fmt: skip
    """Write what somebody says of a row, all of it or none.

    `words`: fields of `Decision`, at least `action`. Raises `InvalidInput` for a word that says too little, that takes
    back what was not said or fixes what is right already, or that together with what others said leaves no valid row;
    `OutputError` when the log cannot be written.
    """
    uid = row["uid"] if "uid" in row else row["id"]
    takes_back = any(word["action"] == "withdraw" for word in words)  # even on a row that is not there any more
    source_id = "" if takes_back else source_of(table, row)
    new = [
        check_decision(Decision(run_id=run_id, table=table, uid=uid, who=who, when=now(), source_id=source_id, **word))
        for word in words
    ]
    so_far = [each for each in of_run(read_decisions(folder), run_id) if (each.table, each.uid) == (table, uid)]
    stances = standing(so_far)
    if takes_back and not any(each.who == who for each in stances):
        raise InvalidInput(f"{who} decided nothing on row {uid} of {table} that could be taken back", field="action")
    fixed = {fix.field.split(".")[0] for each in stances for fix in each.fixes}
    for each in new:
        if each.action == "fix" and each.field.split(".")[0] not in fixed and _stands_there(row, each):
            raise InvalidInput("is that already", field=each.field)
    if not (takes_back and _is_refused(row, so_far, check)):  # what is wrong already has to be mended somewhere
        _check(row, [*so_far, *new], check)
    append(folder, new)
    return new


def _stands_there(row: Mapping[str, Any], fix: Decision) -> bool:
    return json.loads(fix.value) == value_at(row, fix.field)


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
    """A fix as a person types it: what is text in the row is taken as it stands, all else is JSON.

    Raises `InvalidInput` when the row has no such field.
    """
    value = json.dumps(text, ensure_ascii=False) if isinstance(value_at(row, field), str) else text
    return {"action": "fix", "field": field, "value": value}


def value_at(row: Mapping[str, Any], field: str) -> Any:
    """A field, or a part of it as `messages.3.content`. Raises `InvalidInput` when there is none."""
    at: Any = row
    for step in field.split("."):
        at = {str(number): each for number, each in enumerate(at)} if isinstance(at, list) else at
        if not isinstance(at, dict) or step not in at:
            raise InvalidInput("the row has no such field", field=field)
        at = at[step]
    return at


def parts_of(row: Mapping[str, Any], fields: Sequence[str]) -> list[str]:
    """The texts and numbers in some fields of a row, as `value_at` names them; a list of texts is one."""
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
