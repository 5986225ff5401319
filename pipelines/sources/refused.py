"""Leave out of the next run the sources that people rejected, individually or by a pattern."""

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
"""Number of characters that a pattern may have."""
SourceKey = tuple[str, str]
"""The key of a source: its id and its `hash_source`, which `ANY` replaces to mean all sources of this id."""
ANY = ""
_TELLING: tuple[PatternField, ...] = ("question", "text")
"""What tells sources of one id apart, as two files may each have a question `q1`."""
MATCH_S = 2.0
"""Seconds that a search for a pattern in one text may take. A pattern that needs more goes through exponentially
many ways: the run stops before anything is paid for, so what is refused never depends on how fast a machine is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """The sources that the next run leaves out, since people refused them in earlier runs."""

    sources: Mapping[SourceKey, str] = field(default_factory=dict)
    """The person and the reason behind each refused source."""
    patterns: tuple[RefusedPattern, ...] = ()
    logs: tuple[FileEntry, ...] = ()
    """The files that the refusals were read from; `rows`: number of decisions in them."""
    by_id_alone: int = 0
    """Number of rejections whose source's content is not known: they hold for all sources of its id."""

    def __post_init__(self) -> None:
        for each in self.patterns:
            compile_pattern(each.pattern)

    @property
    def hash(self) -> str:
        """Return a hash of 12 hex digits over all that is refused and why; empty when nothing is. The content of
        sources is not hashed: which of them are left out follows from the inputs.
        """
        if not (self.sources or self.patterns):
            return ""
        refused = sorted((name, detail) for (name, _), detail in self.sources.items())
        content = json.dumps([refused, [to_dict(each) for each in self.patterns]])
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    def row_of(self, source: Any) -> RejectedRow | None:
        """Return the row for `rejected/` of a source that is refused; None for all others."""
        said = self.sources.get((source.id, hash_source(source))) or self.sources.get((source.id, ANY))
        if said is not None:
            return _reject_source(source, REASON, f"people rejected it, or what was made of it: {said}")
        for each in self.patterns:
            if is_match(each, source):
                return _reject_source(source, PATTERN_REASON, f"{each.field} matches {each.pattern!r}: {each.detail}")
        return None


NONE = Refusals()
"""The refusals of a run that no earlier decisions are given to."""


def hash_source(source: Any) -> str:
    """Return a hash of 12 hex digits over a source's content without its id, ignoring white space."""
    fields = pattern_fields(type(source))
    texts = [" ".join(text.split()) for name in _TELLING if name in fields for text in fields[name](source)]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def refused_sources(rulings: Mapping[str, Iterable[Ruling]]) -> dict[SourceKey, str]:
    """Find the questions, documents and paths from which nothing is to be made again, with the person and the reason
    behind each.

    `rulings` are by the hash of their source, `ANY` where it is unknown. A source is refused when it was rejected
    itself, and when a row made of it was rejected and none was accepted or fixed. A question made from a graph is such
    a row, and itself the source of trajectories. Rows of bundles refuse no source, since it is unknown which of their
    documents was at fault. Raises `InvalidInput` for a rejection that does not say what it refuses.
    """
    itself: dict[SourceKey, str] = {}
    against: dict[SourceKey, list[str]] = {}
    in_favour: set[SourceKey] = set()
    for said, ruling in ((said, ruling) for said, alike in rulings.items() for ruling in alike):
        has_source = bool(source_column(ruling.table))
        if ruling.table == "rejected":
            continue  # filters see to these
        if is_input(ruling.table):
            if ruling.action == "reject":  # of rows that others are made of, the uid says all
                itself[ruling.uid, said if ruling.table == INPUTS else ANY] = ruling.detail
        elif ruling.action == "reject" and has_source and not ruling.source_id:
            problem = f"row {ruling.uid} of {ruling.table} was rejected without its source; reject it again"
            raise InvalidInput(problem, field="source_id")
        if ruling.table != INPUTS and ruling.source_id:
            if ruling.action == "reject":
                against.setdefault((ruling.source_id, said), []).append(ruling.detail)
            else:
                in_favour.add((ruling.source_id, said))
    by_rows = {
        key: "; ".join(sorted(set(reasons))) for key, reasons in against.items() if not {key, (key[0], ANY)} & in_favour
    }
    return by_rows | itself


def compile_pattern(pattern: str) -> regex.Pattern[str]:
    """Compile a pattern for searches. Raises `InvalidInput` for text that is no pattern, and for one that matches every
    text.
    """
    if len(pattern) > LONGEST_PATTERN:
        raise InvalidInput(f"longer than {LONGEST_PATTERN:,} characters; shorten it, or write two", field="pattern")
    try:
        found = _compile(pattern)
    except (regex.error, OverflowError, RecursionError) as error:
        raise InvalidInput(f"{pattern!r} is no regular expression: {error}", field="pattern") from error
    if found.search("") is not None:
        raise InvalidInput(
            f"{pattern!r} matches the empty text, and so every source; write one that needs a letter", field="pattern"
        )
    return found


def is_match(pattern: RefusedPattern, source: Any) -> bool:
    """Tell whether a source has the pattern in its field. Raises `InvalidInput` when that takes longer than
    `MATCH_S`.
    """
    parts = pattern_fields(type(source)).get(pattern.field)
    search = _compile(pattern.pattern).search
    try:
        return parts is not None and any(search(text, timeout=MATCH_S) is not None for text in parts(source))
    except TimeoutError as error:
        problem = f"{pattern.pattern!r} takes more than {MATCH_S:g} s on one {pattern.field}; write it more plainly"
        raise InvalidInput(f"{problem} (source {source.id})", field="pattern") from error


@cache
def pattern_fields(record: type) -> Mapping[PatternField, Parts]:
    """Return the fields of this kind of source that a pattern can be matched against, with the texts of each, any of
    which may match.
    """
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
