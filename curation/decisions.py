"""Keep a log of people's decisions on the rows of a run, append-only and beside its tables, and merge it into one
ruling a row.

The log is `curation/decisions.jsonl`, one `Decision` a line; that of patterns (`curation.verdicts`) is alike. Several
processes may append; a line that a killed one left half-written is passed over, and the next append removes it.

What holds for a row: each person's latest decision counts, comments aside. A fix says that the row is good once it
is fixed; fixes of different fields add up; an acceptance keeps one's earlier fixes, a rejection takes them back. A
person who withdraws has decided nothing on the row, as if never heard. One rejection outweighs all acceptances. Of
two values for one field the later one holds, and a field is also what it is a part of: a later fix of `messages`
replaces one of `messages.2.content`, a later fix of the part changes the whole. Where people differ, that is a
conflict and is listed. The order of the lines of different people does not matter, nor does a line that comes twice.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from trailforge.pipelines import value_at
from trailforge.pipelines.curated import source_column
from trailforge.schemas import (
    DECISIONS_LOG,
    Decision,
    Fix,
    InvalidInput,
    OutputError,
    Ruling,
    RulingAction,
    from_stored,
    parse_json,
    sync,
    to_dict,
    version_of,
)

LOG = DECISIONS_LOG
T = TypeVar("T")
_TAIL = 1 << 20
"""Bytes at the end in which the last line begins; no line may be longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestDecision:
    """The latest decision of one person on one row."""

    table: str
    uid: str
    who: str
    when: str
    """Time of the person's latest decision on the row."""
    action: RulingAction
    reason: str
    fixes: tuple[Fix, ...]
    """Fixes by field, the whole before its parts; none where the row is rejected."""
    source_id: str

    @property
    def is_kept(self) -> bool:
        """Tell whether this person keeps the row, fixed or as it is."""
        return self.action != "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A row on which people's decisions differ."""

    table: str
    uid: str
    field: str
    """The field for which people have different values; empty when some accept the row and others reject it."""
    sides: tuple[tuple[str, str], ...]
    """Pairs of a person's name and `accept`, `reject`, `fix` or the value as JSON, sorted by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The merged decisions of all people: the ruling on each row, by table and uid, and the rows on which people
    differ.
    """

    rulings: tuple[Ruling, ...]
    conflicts: tuple[Conflict, ...]


def now() -> str:
    """Return the present time in the format of `Decision.when`."""
    return datetime.now(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def append(folder: Path, decisions: Sequence[Decision]) -> None:
    """Write decisions to the log of a run's folder and bring them to disk, all or none.

    Raises `InvalidInput` for a decision that says too little, `OutputError` when the log cannot be written.
    """
    append_records(folder / LOG, [check_decision(each) for each in decisions])


def read_decisions(path: Path, check: Callable[[Decision], Decision] | None = None) -> list[Decision]:
    """Return the decisions of a log in its order; an empty list when there is no such file. `path` is a log or the
    folder of a run. Raises `InvalidInput` naming the line that is no decision, or that `check` refuses; only the last
    line may be half-written.
    """
    return read_records(path / LOG if path.is_dir() else path, Decision, check or check_decision)


def take_in(folder: Path, run_id: str, logs: Sequence[Path]) -> tuple[list[Decision], int]:
    """Copy into a run's log the decisions on this run that other logs have and it lacks.

    Each of `logs` is a log or the folder of a run. Returns the copied decisions, and how many decisions were on other
    runs. Raises `InvalidInput` as `read_decisions` does, and for a path that does not exist; then nothing is written.
    """
    known, new, others = set(read_decisions(folder)), list[Decision](), 0
    for path in logs:
        if not path.exists():
            raise InvalidInput("no such file or folder", file=path)
        for each in read_decisions(path):
            if each.run_id != run_id:
                others += 1
            elif each not in known:
                known.add(each)
                new.append(each)
    if new:
        append(folder, new)
    return new, others


def latest_decisions(decisions: Iterable[Decision]) -> list[LatestDecision]:
    """Return the latest decision of each person on each row, by table, uid and name. Comments do not count, and a
    person who withdrew a decision has none.
    """
    words: dict[tuple[str, str, str], list[Decision]] = defaultdict(list)
    for each in sorted(decisions, key=lambda each: each.when):
        if each.action == "withdraw":
            words[each.table, each.uid, each.who].clear()
        elif each.action != "comment":
            words[each.table, each.uid, each.who].append(each)
    return [_stance(words[key]) for key in sorted(words) if words[key]]


def merge(decisions: Iterable[Decision]) -> Merged:
    """Merge decisions into one ruling a row, by the rules in the module's docstring."""
    return merge_latest(latest_decisions(decisions))


def merge_latest(latest: Iterable[LatestDecision]) -> Merged:
    """Merge what `latest_decisions` returns, as `merge` does."""
    of_row: dict[tuple[str, str], list[LatestDecision]] = defaultdict(list)
    for each in latest:
        of_row[each.table, each.uid].append(each)
    rulings = tuple(_ruling(decided) for decided in of_row.values())
    return Merged(rulings=rulings, conflicts=tuple(c for decided in of_row.values() for c in _conflicts(decided)))


def of_run(decisions: Iterable[Decision], run_id: str) -> list[Decision]:
    """Return the decisions on the rows of this run: the folder may have held another run before."""
    return [each for each in decisions if each.run_id == run_id]


def check_decision(decision: Decision) -> Decision:
    """Return the decision unchanged. Raises `InvalidInput` when a part that it needs is missing."""
    check_filled(decision, ("who", "uid", "table", "run_id", *_NEEDED.get(decision.action, ())))
    if decision.action == "fix":
        try:
            value = parse_json(decision.value)
        except ValueError as error:
            raise InvalidInput(f"not valid JSON ({error})", field=decision.field) from error
        if isinstance(value, str) and not value.strip():
            raise InvalidInput("must not be empty", field=decision.field)
    return decision


_NEEDED = {"reject": ("reason",), "fix": ("field",), "comment": ("comment",)}
"""What a word has to say besides who says it of what."""


def check_filled(record: object, names: Iterable[str]) -> None:
    """Check that these fields of a record hold text. Raises `InvalidInput` for the first that does not."""
    for name in names:
        if not getattr(record, name).strip():
            raise InvalidInput("must not be empty", field=name)


def source_of(table: str, row: Mapping[str, Any]) -> str:
    """Return the id of the question, document or path that a row was made of, for `Decision.source_id`; empty where
    that is not one thing.

    Raises `InvalidInput` for a table that is not known.
    """
    field = source_column(table)
    found = value_at(row, field) if field else ""
    return found if isinstance(found, str) else ""


def _stance(words: Sequence[Decision]) -> LatestDecision:
    """Of one person's words on one row, in the order of time."""
    last = words[-1]
    fixes: list[Fix] = []
    for word in words:
        if word.action == "fix":
            fixes.append(Fix(field=word.field, value=word.value, who=word.who, when=word.when))
        elif word.action == "reject":
            fixes.clear()
    action: RulingAction = "reject" if last.action == "reject" else "fix" if fixes else "accept"
    return LatestDecision(
        table=last.table,
        uid=last.uid,
        who=last.who,
        when=last.when,
        action=action,
        reason=last.reason if action == "reject" else "",
        fixes=_holding(fixes),
        source_id=last.source_id,
    )


def _ruling(stances: Sequence[LatestDecision]) -> Ruling:
    in_time = sorted(stances, key=lambda each: (each.when, each.who))
    against = [each for each in in_time if not each.is_kept]
    given = sorted((fix for each in stances for fix in each.fixes), key=lambda fix: (fix.when, fix.who))
    fixes = () if against else _holding(given)
    return Ruling(
        table=stances[0].table,
        uid=stances[0].uid,
        action="reject" if against else "fix" if fixes else "accept",
        reason=against[0].reason if against else "",
        detail="; ".join(f"{each.who}: {each.reason}" for each in against),
        fixes=fixes,
        who=tuple(sorted(each.who for each in stances)),
        source_id=max(each.source_id for each in stances),
    )


def _holding(fixes: Iterable[Fix]) -> tuple[Fix, ...]:
    """Of fixes in the order of time those that later ones leave, by field: the whole before its parts."""
    held: dict[str, Fix] = {}
    for fix in fixes:
        held = {field: each for field, each in held.items() if not _is_in(field, fix.field)} | {fix.field: fix}
    return tuple(held[field] for field in sorted(held, key=lambda field: field.split(".")))


def _conflicts(stances: Sequence[LatestDecision]) -> Iterator[Conflict]:
    """Where those who decided on one row differ."""
    table, uid = stances[0].table, stances[0].uid
    if len({each.is_kept for each in stances}) > 1:
        yield Conflict(table=table, uid=uid, field="", sides=tuple((each.who, each.action) for each in stances))
    for field in sorted({fix.field for each in stances for fix in each.fixes}):
        values = [(each.who, value) for each in stances for value in _wanted(each, field)]
        if len({json.dumps(json.loads(value), sort_keys=True) for _, value in values}) > 1:
            yield Conflict(table=table, uid=uid, field=field, sides=tuple(values))


def _wanted(stance: LatestDecision, field: str) -> list[str]:
    """What somebody's fix of a field, or else of the nearest thing that it is a part of, makes of it, as JSON.

    None without such a fix. Where the fixed thing has no such part, `null`.
    """
    around = [fix for fix in stance.fixes if _is_in(field, fix.field)]
    if not around:
        return []
    nearest = max(around, key=lambda fix: len(fix.field))
    if nearest.field == field:
        return [nearest.value]
    try:
        part = value_at(json.loads(nearest.value), field.removeprefix(f"{nearest.field}."))
    except InvalidInput:
        part = None
    return [json.dumps(part, ensure_ascii=False)]


def _is_in(field: str, other: str) -> bool:
    """Is a field another one, or a part of it?"""
    return f"{field}.".startswith(f"{other}.")


# Logs, of whatever records


def append_records(path: Path, records: Sequence[object]) -> None:
    """Write records at the end of a log and bring them to disk, all or none. The next append removes a half line.

    Raises `OutputError` when the log cannot be written, `InvalidInput` for a line of more than a mebibyte, and for text
    that was no UTF-8 when it was typed.
    """
    lines = b"".join(map(line_of, records))
    try:
        path.parent.mkdir(exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _write_at_end(descriptor, lines)
        finally:
            os.close(descriptor)
        sync(path.parent)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


_READ: dict[tuple[Path, type, Callable[[Any], Any]], tuple[bytes, list[Any]]] = {}
"""Whole lines of the logs read last, and their records. With each decision the page reads the log anew."""
_MOST_READ = 8
"""Logs. A page over a folder of runs may read hundreds."""


def read_records(path: Path, record: type[T], checked: Callable[[T], T]) -> list[T]:
    """Read the records of a log, in their order; none where there is no such file.

    A log that has grown since it was last read is read from there on. Raises `InvalidInput` naming the line that is no
    such record or that `checked` refuses; only the last one may be half-written.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", file=path) from error
    known, records = _READ.pop((path, record, checked), (b"", []))
    if not content.startswith(known):
        known, records = b"", []

    def parse(lines: Sequence[bytes], first: int) -> list[T]:
        numbered = enumerate(lines, start=first + 1)
        return [_parse_line(line, path, number, record, checked) for number, line in numbered if line.strip()]

    *lines, tail = content[len(known) :].split(b"\n")
    records = records + parse(lines, known.count(b"\n"))
    whole = content.removesuffix(tail)
    _READ[path, record, checked] = whole, records
    for oldest in [*_READ][:-_MOST_READ]:
        _READ.pop(oldest, None)
    return records + parse([tail] if _is_whole(tail) else [], whole.count(b"\n"))


def line_of(record: object) -> bytes:
    """Encode a record as a line of a log. Raises `InvalidInput` as `append_records` does."""
    text = json.dumps(to_dict(record), ensure_ascii=False) + "\n"
    try:
        line = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"a decision holds what UTF-8 cannot write ({text[error.start : error.end]!r})") from error
    if len(line) > _TAIL:
        raise InvalidInput(
            f"more than {_TAIL:,} bytes in a line of the log of decisions; write a shorter value", field="value"
        )
    return line


def _write_at_end(descriptor: int, lines: bytes) -> None:
    """Append whole lines; what a killed process left without its line end goes first, unless it is all there."""
    size = os.fstat(descriptor).st_size
    start = max(0, size - _TAIL)
    tail = os.pread(descriptor, size - start, start).rpartition(b"\n")[2]
    if tail:
        lines = b"\n" + lines if _is_whole(tail) else lines
        size -= 0 if _is_whole(tail) else len(tail)
    os.ftruncate(descriptor, size)
    try:
        written = 0
        while written < len(lines):
            written += os.pwrite(descriptor, lines[written:], size + written)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)  # the disk is full: nothing of it counts
        raise


def _is_whole(tail: bytes) -> bool:
    """Whether the end of a log without line end lacks nothing but that."""
    try:
        return isinstance(parse_json(tail), dict)
    except ValueError:
        return False


def _parse_line(line: bytes, path: Path, number: int, record: type[T], checked: Callable[[T], T]) -> T:
    try:
        content = parse_json(line)
        if isinstance(content, dict):
            content.setdefault("schema_version", version_of(record))
        return checked(from_stored(record, content, source=path))
    except InvalidInput as error:
        raise InvalidInput(error.problem, file=path, row=number, field=error.field) from error
    except ValueError as error:
        raise InvalidInput(f"not valid JSON ({error})", file=path, row=number) from error
