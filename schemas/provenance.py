"""Records of where a row comes from, and of a run's counts and files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trailforge.schemas.versions import Earlier, migration

TableRole = Literal["", "sft", "questions", "corpus", "pairs"]
"""What training uses a table for; see `SchemaVersion.role`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Sources, prompts and model calls of a row, from which it can be made again."""

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
    """What found the passages: the name of a back end with 12 hex digits of the hash of its index or corpus, `web`, or
    what a server states of itself. Empty when nothing was searched, or in rows from before this was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Number of items that left a stage for one reason."""

    reason: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCount:
    """Counts of one stage: inputs = accepted + rejected + failed."""

    name: str
    inputs: int
    accepted: int
    rejected: tuple[Count, ...] = ()
    failed: tuple[Count, ...] = ()

    @property
    def balance(self) -> int:
        """Return the number of inputs that are not accounted for; 0 when the counts balance."""
        return self.inputs - self.accepted - sum(c.count for c in self.rejected + self.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCount:
    """Number of distinct calls made for one purpose."""

    purpose: str
    """Purpose that the requests state: `answer`, `split`, …"""
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A file of the run, with its number of rows and its hash."""

    path: str
    """Path relative to the run's folder, with forward slashes."""
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersion:
    """Schema version of one table of the run, with the role of the table in training."""

    table: str
    record: str
    version: str
    role: TableRole = ""
    """Role of the table: `sft`, conversations to learn; `questions`, rows with questions to ask; `corpus`, documents
    that are searched for them; `pairs`, a better and a worse conversation."""
    protocol: str = ""
    """Protocol in which the questions are asked, unless another one is chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Description of a finished run, written last as `manifest.json`. A folder without one is not finished."""

    STORED_AS: ClassVar[str] = "Manifest"
    SCHEMA_VERSION: ClassVar[str] = "1.4"
    EARLIER: ClassVar[Earlier] = {"1.1": migration(), "1.2": migration(), "1.3": migration()}

    run_id: str
    dataset: str
    schema_versions: tuple[SchemaVersion, ...]
    """Schema versions of the tables. Roles and protocols are known from version 1.3 on; see
    `pipelines.datasets.with_roles`."""
    config_hash: str
    inputs: tuple[FileEntry, ...]
    """Input files that the user gave; `path` is as given."""
    stages: tuple[StageCount, ...]
    files: tuple[FileEntry, ...]
    model: str
    calls: int
    """Distinct calls behind the rows, whether paid in this run or found in the ledger."""
    prompt_tokens: int
    completion_tokens: int
    cut_replies: int
    """Number of replies that ended at `max_tokens` or at the end of the model's window; `--redo truncated` asks for
    them again."""
    cost: float
    seconds: float
    """Wall-clock seconds of the process that finished the run; rows do not depend on it."""
    calls_per_accepted_row: float | None
    """Mean number of calls for an accepted row; None when no row was accepted."""
    cost_per_accepted_row: float | None
    trailforge_version: str
    card: tuple[FileEntry, ...] = ()
    """The dataset card and those of its figures that no receipt names; not known in runs of version 1.1."""
    calls_by_purpose: tuple[CallCount, ...] = ()
    """Number of calls for each purpose, sorted by purpose; empty in runs from before version 1.4."""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A filter's verdict on one row. Filters never drop rows; the pipeline does, and keeps the row in `rejected/`."""

    STORED_AS: ClassVar[str] = "Verdict"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    keep: bool
    reason: str
    """The filter's name, e.g. `wrong_answer`; the same whether the row is kept or not."""
    score: float
    """Value that the filter measured; the filter's docstring explains it."""
    detail: str = ""
    """One line for a person; empty when the row is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A row that a stage did not pass on: one row of `rejected/`."""

    STORED_AS: ClassVar[str] = "RejectedRow"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    uid: str
    """Uid of the rejected row; for an input row that cannot be read, `file:line`."""
    stage: str
    reason: str
    score: float
    detail: str
    payload: str
    """The row as JSON, since rows of every stage and shape share this table."""
    schema_version: str = SCHEMA_VERSION
