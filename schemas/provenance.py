"""Where a row comes from, and the books of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trailforge.schemas.versions import Earlier, migration

TableRole = Literal["", "sft", "questions", "corpus", "pairs"]
"""What training takes a table for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Enough to make the row again."""

    STORED_AS: ClassVar[str] = "Provenance"
    SCHEMA_VERSION: ClassVar[str] = "1.1"

    run_id: str
    source_id: str
    """Data set and id of the question or document the row was made from."""
    model: str
    prompt_version: str
    """Hash of the prompt files and connective pools in use."""
    seed: int
    call_keys: tuple[str, ...]
    """Ledger keys of the model calls behind the row, in the order of the steps."""
    retriever: str = ""
    """What found the passages: the name of a back end, and of an index or a corpus 12 hex digits of its hash; `web`;
    what a server says of itself. Empty: nothing was searched, or the row is of before this was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many items left a stage for one reason."""

    reason: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCount:
    """One line of the books: inputs = accepted + rejected + failed."""

    name: str
    inputs: int
    accepted: int
    rejected: tuple[Count, ...] = ()
    failed: tuple[Count, ...] = ()

    @property
    def balance(self) -> int:
        """Inputs that are not accounted for; 0 when the books balance."""
        return self.inputs - self.accepted - sum(c.count for c in self.rejected + self.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCount:
    """How many distinct calls were made for one purpose."""

    purpose: str
    """As requests name it: `answer`, `split`, …"""
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A file of the run."""

    path: str
    """Relative to the run's folder, with forward slashes."""
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersion:
    """The schema version of one table of the run, and what training takes it for."""

    table: str
    record: str
    version: str
    role: TableRole = ""
    """`sft`: conversations to learn; `questions`: rows with questions to ask; `corpus`: what is searched for them;
    `pairs`: a better and a worse conversation."""
    protocol: str = ""
    """In which the questions are asked, unless another one is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A finished run, written last: `manifest.json`. A folder without one is not finished."""

    STORED_AS: ClassVar[str] = "Manifest"
    SCHEMA_VERSION: ClassVar[str] = "1.4"
    EARLIER: ClassVar[Earlier] = {"1.1": migration(), "1.2": migration(), "1.3": migration()}

    run_id: str
    dataset: str
    schema_versions: tuple[SchemaVersion, ...]
    """Roles and protocols of tables are known from version 1.3 on; see `pipelines.datasets.with_roles`."""
    config_hash: str
    inputs: tuple[FileEntry, ...]
    """The files a person gave; `path` as given."""
    stages: tuple[StageCount, ...]
    files: tuple[FileEntry, ...]
    model: str
    calls: int
    """Distinct calls behind the rows, whether paid in this run or found in the ledger."""
    prompt_tokens: int
    completion_tokens: int
    cut_replies: int
    """Ended at `max_tokens`, or at the end of the model's window; `--redo truncated` asks for them anew."""
    cost: float
    seconds: float
    """Wall seconds of the process that finished the run; not a function of the rows."""
    calls_per_accepted_row: float | None
    """None when no row was accepted."""
    cost_per_accepted_row: float | None
    trailforge_version: str
    card: tuple[FileEntry, ...] = ()
    """The dataset card and the figures in it that no receipt names; those of version 1.1 are not known."""
    calls_by_purpose: tuple[CallCount, ...] = ()
    """By purpose, sorted; empty in runs of before version 1.4."""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A filter's answer about one row. Filters never drop; the pipeline does, and keeps the row in `rejected/`."""

    STORED_AS: ClassVar[str] = "Verdict"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    keep: bool
    reason: str
    """The filter's name, e.g. `answer_leaked`; the same whether the row is kept or not."""
    score: float
    """What was measured; its meaning stands in the filter's docstring."""
    detail: str = ""
    """One line for a person; empty when the row is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A row that a stage did not pass on: one row of `rejected/`."""

    STORED_AS: ClassVar[str] = "RejectedRow"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    uid: str
    """Of the rejected row; for an unreadable input row, `file:line`."""
    stage: str
    reason: str
    score: float
    detail: str
    payload: str
    """The row as it was, as JSON: rows of every stage and shape share this table, so no struct fits."""
    schema_version: str = SCHEMA_VERSION
