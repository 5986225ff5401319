"""What a search makes: steps, rollouts, nodes, and the tree that holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trailforge.schemas.bundle import Passage
from trailforge.schemas.versions import Earlier, migration

VariationKind = Literal["none", "query", "answer"]
"""What makes a rollout another one. `query`: one step's query was put in other words. `answer`: one step's answer was
drawn again, or all were. `none`: the plain rollout. With a base nothing else differs; without one every answer is drawn
again."""

StopReason = Literal["satisfied", "budget", "exhausted"]
"""`satisfied`: each wanted kind of row survives the filters. `budget`: calls or rounds ran out.
`exhausted`: nothing is left that a further round could change, or that is to be tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One sub-question asked, searched and answered: (q_j, c_j, tau_j) of MSearcher, Eq. 9."""

    STORED_AS: ClassVar[str] = "Step"
    SCHEMA_VERSION: ClassVar[str] = "1.3"

    index: int
    """0-based position of the sub-question in its plan."""
    sub_question: str
    """As it stands in the plan, with its `#k`."""
    query: str
    """What was searched: references resolved, perhaps rephrased."""
    passages: tuple[Passage, ...]
    """Best first."""
    answer: str
    query_rephrased: bool = False
    answer_sample: int = 0
    """0: the first answer drawn for this prompt; k > 0: the k-th further sample."""
    is_mistake: bool = False
    """True for the step of a reflective trajectory that is later mended."""
    call_keys: tuple[str, ...] = ()
    """Ledger keys of the model calls behind this step."""
    reasoning: str = ""
    """The model's own thoughts behind the answer, where it has any. Kept in trees, not in trajectories."""
    from_memory: bool = False
    """By the model's own word its passages do not say the answer."""
    is_provoked: bool = False
    """Its query was searched because it loses an answer that was found, or its answer was drawn until it differed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One execution of a plan (MSearcher, section 3.1.3). Steps are in the order they were run."""

    STORED_AS: ClassVar[str] = "Rollout"
    SCHEMA_VERSION: ClassVar[str] = "1.1"

    index: int
    """Position in the tree's list of rollouts."""
    node: int
    """Id of the node whose plan was run."""
    variation: VariationKind
    varied_step: int | None
    """0-based step whose query was put in other words, or whose answer was drawn again; None: none, or all."""
    steps: tuple[Step, ...]
    answer: str
    """The answer of the plan's sink."""
    reward: float
    """0.0 or 1.0."""
    judge_score: float | None = None
    """The judge's verdict on the answer, in [0, 1]; None when it was not asked."""
    base: int | None = None
    """Index of the rollout whose steps before `varied_step` are kept; None for one that was run from the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A plan in the tree with its statistics (MSearcher, Eq. 3 and 4)."""

    id: int
    """Position in the tree's list of nodes; the root is 0."""
    parent: int | None
    plan: tuple[str, ...]
    origin: Origin
    visits: int
    """Rollouts at this node or below it."""
    value: float
    """Mean reward of those rollouts; 0.0 when there are none."""
    decomposable: tuple[bool, ...]
    """Per sub-question: may it be split further? All False: a leaf plan."""
    depth: int
    """Edges from the root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedSplits:
    """How many proposed splits were not used, by reason."""

    malformed: int = 0
    """Replies, with splits or with a verdict on whether there are any, that could not be read or were cut."""
    identical: int = 0
    no_progress: int = 0
    invalid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTree:
    """The whole search of one question: one row of `trees/`."""

    STORED_AS: ClassVar[str] = "SearchTree"
    SCHEMA_VERSION: ClassVar[str] = "1.3"
    EARLIER: ClassVar[Earlier] = {"1.0": migration(), "1.1": migration(), "1.2": migration()}

    question_id: str
    question: str
    answer: str
    answer_aliases: tuple[str, ...]
    nodes: tuple[Node, ...]
    rollouts: tuple[Rollout, ...]
    stop_reason: StopReason
    oracle_used: bool
    """True when the gold decomposition joined the tree."""
    dropped_splits: DroppedSplits
    rounds: int
    max_depth: int
    calls: int
    """Distinct model calls of this search; a call found in the ledger counts like any other."""
    prompt_tokens: int
    completion_tokens: int
    cost: float
    """In the currency of the configured prices; 0.0 when none are configured."""


Origin = Literal["policy", "rule", "oracle"]
"""Who made a plan: the policy model, code rules (with or without the model choosing), or the gold decomposition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An ordered list of sub-questions (MSearcher, section 3.1.1: Q_t)."""

    STORED_AS: ClassVar[str] = "Plan"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    sub_questions: tuple[str, ...]
    """A sub-question may refer to the answer of another one as `#k`, its 1-based position."""

    def __len__(self) -> int:
        return len(self.sub_questions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """An action: one sub-question is replaced by two (MSearcher, Eq. 5)."""

    index: int
    """0-based position of the sub-question that is split."""
    first: str
    """Asked first; without the placeholder `[E]`."""
    second: str
    """Asked second; `[E]` stands for the answer of `first`."""
