"""Records of people's decisions on finished rows, of the ruling that follows for each row, and of its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trailforge.schemas.versions import Earlier, migration

DecisionAction = Literal["accept", "reject", "fix", "comment", "withdraw"]
"""Actions that a person can take on a row; `withdraw` takes back all of one's own decisions on it, but not one's
comments."""
RulingAction = Literal["accept", "reject", "fix"]
CuratedAction = Literal["accept", "reject", "fix", "follow"]
"""Outcome for a row in the curated data set; `follow` means that it was removed because a row it was made of was
rejected or fixed."""
PatternField = Literal["question", "answer", "title", "text", "publisher", "relation", "entity"]
"""Part of a source that a pattern is matched against. Which parts a source has depends on its kind."""
PatternAction = Literal["refuse", "withdraw"]

DECISIONS_LOG = "curation/decisions.jsonl"
"""Path of the log of decisions, relative to a run's folder."""
PATTERNS_LOG = "curation/patterns.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision of one person on one row, which is a line of `curation/decisions.jsonl` beside the run's tables."""

    STORED_AS: ClassVar[str] = "Decision"
    SCHEMA_VERSION: ClassVar[str] = "1.1"
    EARLIER: ClassVar[Earlier] = {"1.0": migration()}  # without `source_hash`

    run_id: str
    table: str
    uid: str
    """Uid of the row; in the table `inputs/` its id."""
    who: str
    when: str
    """Time of the decision, ISO 8601 in UTC with microseconds and a `Z`, so that sorting as text sorts by time."""
    action: DecisionAction
    reason: str = ""
    """Reason of a rejection, one line."""
    field: str = ""
    """Field that a fix changes, or a part of it, such as `messages.3.content`."""
    value: str = ""
    """Right value that a fix sets, as JSON."""
    comment: str = ""
    source_id: str = ""
    """Id of the question, document or path that the row was made of; empty where it was made of several."""
    source_hash: str = ""
    """Hash of the source's content (`pipelines.sources.refused.hash_source`), since the same id can mean another
    question in another file; empty where it is not known, as in logs of version 1.0."""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternDecision:
    """One person's refusal of a kind of source, from which no rows shall be made: a line of
    `curation/patterns.jsonl`.
    """

    STORED_AS: ClassVar[str] = "PatternDecision"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    run_id: str
    """Id of the run in which the decision was made."""
    field: PatternField
    pattern: str
    """Regular expression that is searched for in the field."""
    who: str
    when: str
    """Time of the decision, as in `Decision.when`."""
    action: PatternAction
    """Action of the decision; `withdraw` takes back one's own refusal."""
    reason: str = ""
    """Reason of a refusal, one line."""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedPattern:
    """A kind of source that at least one person refuses, once all decisions are combined."""

    field: PatternField
    pattern: str
    detail: str
    """Names of the people who refused it, with their reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """A value that a person set for a field of a row."""

    field: str
    value: str
    """The value as JSON."""
    who: str
    when: str = ""
    """Time of the decision, as in `Decision.when`; empty in a `Ruling` that only lists what holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """The decision on a row after the decisions of all people are combined."""

    table: str
    uid: str
    action: RulingAction
    reason: str = ""
    """First reason that was given for a rejection."""
    detail: str = ""
    """Names of the people who rejected the row, with their reasons."""
    fixes: tuple[Fix, ...] = ()
    """Fixes by field, a whole field before its parts; they are applied in this order."""
    who: tuple[str, ...] = ()
    """Names of all people who decided on the row."""
    source_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFix:
    """A fix that was applied, with the value that it replaced."""

    field: str
    old_value: str
    """The replaced value as JSON."""
    new_value: str
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CuratedRow:
    """A row of the run that people decided on, and what became of it: one row of `curated/` in the curated data set.

    These rows allow the original tables of the run to be restored, which is how the curated data set is verified.
    """

    STORED_AS: ClassVar[str] = "CuratedRow"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    table: str
    uid: str
    """Uid of the row as the run made it; the fixed row is derived from it."""
    new_uid: str | None
    """Uid of the fixed row that replaces this one; None for all other outcomes."""
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
    """The original row as JSON; empty where the table still holds it."""
