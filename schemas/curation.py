"""What people say of finished rows, what then holds for a row, and what became of it in the curated data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trailforge.schemas.versions import Earlier, migration

DecisionAction = Literal["accept", "reject", "fix", "comment", "withdraw"]
"""`withdraw` takes back all that oneself had decided on the row; one's comments stay."""
RulingAction = Literal["accept", "reject", "fix"]
CuratedAction = Literal["accept", "reject", "fix", "follow"]
"""`follow`: the row went because one that it was made of was rejected or fixed."""
PatternField = Literal["question", "answer", "title", "text", "publisher", "relation", "entity"]
"""Part of a source that a pattern is held against. Which a source has follows from what it is."""
PatternAction = Literal["refuse", "withdraw"]

DECISIONS_LOG = "curation/decisions.jsonl"
"""In a run's folder."""
PATTERNS_LOG = "curation/patterns.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One word of one person on one row: a line of `curation/decisions.jsonl` beside the run's tables."""

    STORED_AS: ClassVar[str] = "Decision"
    SCHEMA_VERSION: ClassVar[str] = "1.1"
    EARLIER: ClassVar[Earlier] = {"1.0": migration()}  # without `source_hash`

    run_id: str
    table: str
    uid: str
    """Of the row; in `inputs/` its id."""
    who: str
    when: str
    """ISO 8601 in UTC with microseconds and a `Z`: as text in the order of time."""
    action: DecisionAction
    reason: str = ""
    """Of a rejection, one line."""
    field: str = ""
    """Of a fix: a field, or a part of it as `messages.3.content`."""
    value: str = ""
    """Of a fix: the right value as JSON."""
    comment: str = ""
    source_id: str = ""
    """Id of the question, document or path that the row was made of; empty where that is not one thing."""
    source_hash: str = ""
    """Of what that says (`pipelines.sources.refused.hash_source`), as other files have other questions of the same id;
    empty where it is not known, as in logs of version 1.0."""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternDecision:
    """One word of one person on a kind of source that nothing is to be made of: a line of `curation/patterns.jsonl`."""

    STORED_AS: ClassVar[str] = "PatternDecision"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    run_id: str
    """Of the run that it was said over."""
    field: PatternField
    pattern: str
    """Regular expression, searched for in the field."""
    who: str
    when: str
    """As in `Decision`."""
    action: PatternAction
    """`withdraw` takes back one's own refusal."""
    reason: str = ""
    """Of a refusal, one line."""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedPattern:
    """A kind of source that somebody refuses, when all are heard."""

    field: PatternField
    pattern: str
    detail: str
    """Who gave which reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """What a field has to be."""

    field: str
    value: str
    """As JSON."""
    who: str
    when: str = ""
    """As in `Decision`; empty where only what holds is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What holds for a row when all who decided on it are heard."""

    table: str
    uid: str
    action: RulingAction
    reason: str = ""
    """Of a rejection: the first one given."""
    detail: str = ""
    """Of a rejection: who gave which reason."""
    fixes: tuple[Fix, ...] = ()
    """By field, the whole before its parts: in this order they are made."""
    who: tuple[str, ...] = ()
    """All who decided, by name."""
    source_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFix:
    """A fix with what stood there before."""

    field: str
    old_value: str
    """As JSON, like the new one."""
    new_value: str
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CuratedRow:
    """A row of the run that people decided on, and what became of it: one row of `curated/` in the curated data set.

    With these rows the tables of the run can be had back as they were, which is how the data set is verified.
    """

    STORED_AS: ClassVar[str] = "CuratedRow"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    table: str
    uid: str
    """Of the row as the run made it; a fixed row is derived from it."""
    new_uid: str | None
    """Of the fixed row that stands in its place; None for all others."""
    action: CuratedAction
    reason: str
    detail: str
    fixes: tuple[AppliedFix, ...]
    who: tuple[str, ...]
    source_id: str
    file: str
    """Name of the file of the table that the row is in; empty for a source, which stays."""
    position: int | None
    """0-based place in that file as the run wrote it; None for a source."""
    payload: str
    """The row as it was, as JSON; empty where it still is."""
