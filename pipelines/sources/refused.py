"""Sources that people rejected, one by one or by a pattern, which the next run leaves out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import regex

from trailforge.pipelines.curated import is_input, source_column
from trailforge.pipelines.dataset import INPUTS, Parts
from trailforge.pipelines.datasets import dataset_names, load_dataset
from trailforge.schemas import FileEntry, InvalidInput, PatternField, RefusedPattern, RejectedRow, Ruling, to_dict

REASON = "rejected_by_curator"
PATTERN_REASON = "refused_pattern"
LONGEST_PATTERN = 1000
"""Characters."""
MATCH_S = 2.0
"""For one text. A pattern that needs more goes through exponentially many ways: the run stops before anything is paid
for, so what is refused never depends on how fast a machine is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """What people said of earlier runs, as far as the next run's sources go."""

    sources: Mapping[str, str] = field(default_factory=dict)
    """Who gave which reason, by the id of a refused source."""
    patterns: tuple[RefusedPattern, ...] = ()
    logs: tuple[FileEntry, ...] = ()
    """The files that this was read from; `rows`: words in them."""

    def __post_init__(self) -> None:
        for each in self.patterns:
            compile_pattern(each.pattern)

    @property
    def hash(self) -> str:
        """12 hex digits over all that is refused and why; empty when nothing is."""
        if not (self.sources or self.patterns):
            return ""
        content = json.dumps([sorted(self.sources.items()), [to_dict(each) for each in self.patterns]])
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    def row_of(self, source: Any) -> RejectedRow | None:
        """The row for `rejected/` of a source that is refused; None for all others."""
        if source.id in self.sources:
            why = f"people rejected it, or what was made of it: {self.sources[source.id]}"
            return _reject_source(source, REASON, why)
        for each in self.patterns:
            if is_match(each, source):
                return _reject_source(source, PATTERN_REASON, f"{each.field} matches {each.pattern!r}: {each.detail}")
        return None


NONE = Refusals()
"""Of a run that nobody said anything before."""


def refused_sources(rulings: Iterable[Ruling]) -> dict[str, str]:
    """Ids of questions, documents and paths that nothing is to be made of again, with who gave which reason.

    A source is refused when it was rejected itself; and when a row that was made of it was rejected, and none was
    accepted or fixed. A question made of a graph is such a row, and itself the source of trajectories. Rows of bundles
    refuse no source: it is not told which of its documents was at fault. Raises `InvalidInput` for a rejection of which
    it is not known what it refuses.
    """
    itself: dict[str, str] = {}
    against: dict[str, list[str]] = {}
    in_favour: set[str] = set()
    for ruling in rulings:
        has_source = bool(source_column(ruling.table))
        if ruling.table == "rejected":
            continue  # filters see to these
        if is_input(ruling.table):
            if ruling.action == "reject":
                itself[ruling.uid] = ruling.detail
        elif ruling.action == "reject" and has_source and not ruling.source_id:
            problem = f"row {ruling.uid} of {ruling.table} was rejected without its source; reject it again"
            raise InvalidInput(problem, field="source_id")
        if ruling.table != INPUTS and ruling.source_id:
            if ruling.action == "reject":
                against.setdefault(ruling.source_id, []).append(ruling.detail)
            else:
                in_favour.add(ruling.source_id)
    by_rows = {name: "; ".join(sorted(set(reasons))) for name, reasons in against.items() if name not in in_favour}
    return by_rows | itself


def compile_pattern(pattern: str) -> regex.Pattern[str]:
    """A pattern ready to be searched for. Raises `InvalidInput` for none, and for one that every text matches."""
    if len(pattern) > LONGEST_PATTERN:
        raise InvalidInput(f"longer than {LONGEST_PATTERN:,} characters", field="pattern")
    try:
        found = _compile(pattern)
    except (regex.error, OverflowError, RecursionError) as error:
        raise InvalidInput(f"{pattern!r} is no regular expression: {error}", field="pattern") from error
    if found.search("") is not None:
        raise InvalidInput(f"{pattern!r} matches the empty text, and so every source", field="pattern")
    return found


def is_match(pattern: RefusedPattern, source: Any) -> bool:
    """Whether a source has the pattern in its field. Raises `InvalidInput` when that takes longer than `MATCH_S`."""
    parts = pattern_fields(type(source)).get(pattern.field)
    search = _compile(pattern.pattern).search
    try:
        return parts is not None and any(search(text, timeout=MATCH_S) is not None for text in parts(source))
    except TimeoutError as error:
        problem = f"{pattern.pattern!r} takes more than {MATCH_S:g} s on one {pattern.field}; write it more plainly"
        raise InvalidInput(f"{problem} (source {source.id})", field="pattern") from error


@cache
def pattern_fields(record: type) -> Mapping[PatternField, Parts]:
    """What a pattern can be held against, of this kind of source; any of the texts may match."""
    inputs = (load_dataset(name).inputs for name in dataset_names())
    return next((table.patterns for table in inputs if table.record is record), {})


@cache
def _compile(pattern: str) -> regex.Pattern[str]:
    return regex.compile(pattern)


def _reject_source(source: Any, reason: str, detail: str) -> RejectedRow:
    return RejectedRow(
        uid=source.id,
        stage="read",
        reason=reason,
        score=0.0,
        detail=detail,
        payload=json.dumps(to_dict(source), ensure_ascii=False),
    )
