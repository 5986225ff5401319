"""The records that travel between stages, their Arrow schemas, and the errors. Imports nothing of ours."""

from schemas.arrow import (
    arrow_schema,
    check_row_count,
    from_dict,
    from_table,
    iter_parquet,
    read_parquet,
    read_rows,
    to_dict,
    to_table,
    version_of,
    write_parquet,
)
from schemas.document import Document, Passage
from schemas.errors import (
    ITEM_ERRORS,
    BudgetExceeded,
    ContextOverflow,
    CountMismatch,
    InvalidInput,
    MalformedReply,
    OutputError,
    ProviderError,
    RateLimited,
    RetrievalError,
    ServerUnavailable,
    TrailforgeError,
)
from schemas.plan import Origin, Plan, Split
from schemas.provenance import Count, FileEntry, Manifest, Provenance, SchemaVersion, StageCount
from schemas.question import Hop, Question
from schemas.rollout import (
    DroppedSplits,
    Node,
    Rollout,
    SearchTree,
    Step,
    StopReason,
    VariationKind,
)
from schemas.trajectory import (
    ChatMessage,
    ErrorType,
    Message,
    Role,
    SftRow,
    StepPair,
    Trajectory,
    TrajectoryKind,
    TrajectoryReward,
)
from schemas.verdict import RejectedRow, Verdict

__all__ = sorted(name for name in globals() if not name.startswith("_") and name[0].isupper()) + [
    "arrow_schema",
    "check_row_count",
    "from_dict",
    "from_table",
    "iter_parquet",
    "read_parquet",
    "read_rows",
    "to_dict",
    "to_table",
    "version_of",
    "write_parquet",
]
