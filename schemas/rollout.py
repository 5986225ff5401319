"""Records of a tree search: steps, rollouts, nodes, and the tree that holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trailforge.schemas.bundle import Passage
from trailforge.schemas.versions import Earlier, migration

VariationKind = Literal["none", "query", "answer"]
"""How a rollout differs from its base. `query`: one step's query was reworded. `answer`: one step's answer was sampled
again, or all were. `none`: the plain rollout. With a base nothing else differs; without one every answer is sampled
again."""

StopReason = Literal["satisfied", "budget", "exhausted"]
"""Why a search ended. `satisfied`: each wanted kind of row passes the filters. `budget`: calls or rounds ran out.
`exhausted`: no further round could change anything, and nothing is left to be tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One sub-question asked, searched and answered: (q_j, c_j, tau_j) of MSearcher, Eq. 9."""

    STORED_AS: ClassVar[str] = "Step"
    SCHEMA_VERSION: ClassVar[str] = "1.3"

    index: int
    """0-based position of the sub-question in its plan."""
    sub_question: str
    """The sub-question as the plan has it, with its references `#k`."""
    query: str
    """Query that was searched, with references resolved and perhaps reworded."""
    passages: tuple[Passage, ...]
    """Passages that the search returned, best first."""
    answer: str
    query_rephrased: bool = False
    answer_sample: int = 0
    """Number of the sampled answer: 0 for the first one to this prompt, k > 0 for the k-th further one."""
    is_mistake: bool = False
    """True for the step of a reflective trajectory that is later mended."""
    call_keys: tuple[str, ...] = ()
    """Ledger keys of the model calls behind this step."""
    reasoning: str = ""
    """The model's own reasoning behind the answer, where it gives any. Kept in trees, not in trajectories."""
    from_memory: bool = False
    """Whether the model says that its passages do not state the answer."""
    is_provoked: bool = False
    """Whether the mistake was provoked: the query was chosen because it loses an answer that was found, or the answer
    was sampled until it differed."""


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
    """0-based step whose query was reworded or whose answer was sampled again; None when there is none, or when all
    were."""
    steps: tuple[Step, ...]
    answer: str
    """Answer to the last sub-question of the plan, the one that no other needs."""
    reward: float
    """Reward of the rollout: 0.0 or 1.0."""
    judge_score: float | None = None
    """The judge's verdict on the answer, in [0, 1]; None when it was not asked."""
    base: int | None = None
    """Index of the rollout whose steps before `varied_step` are kept; None for a rollout that was run from the
    beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A plan in the tree, with its statistics (MSearcher, Eq. 3 and 4)."""

    id: int
    """Position in the tree's list of nodes; the root is 0."""
    parent: int | None
    plan: tuple[str, ...]
    origin: Origin
    visits: int
    """Number of rollouts at this node or below it."""
    value: float
    """Mean reward of those rollouts; 0.0 when there are none."""
    decomposable: tuple[bool, ...]
    """For each sub-question, whether it may be split further. All False marks a leaf."""
    depth: int
    """Number of edges from the root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedSplits:
    """How many proposed splits were not used, by reason."""

    malformed: int = 0
    """Number of replies, with splits or with a verdict on whether there are any, that could not be read or were cut."""
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
    """Whether the gold decomposition joined the tree."""
    dropped_splits: DroppedSplits
    rounds: int
    max_depth: int
    calls: int
    """Number of distinct model calls of this search; a call found in the ledger counts like any other."""
    prompt_tokens: int
    completion_tokens: int
    cost: float
    """Price of the calls in the currency of the configured prices; 0.0 when none are configured."""


Origin = Literal["policy", "rule", "oracle"]
"""Origin of a plan: the policy model, code rules (with or without the model choosing), or the gold decomposition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An ordered list of sub-questions (MSearcher, section 3.1.1: Q_t)."""

    STORED_AS: ClassVar[str] = "Plan"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    sub_questions: tuple[str, ...]
    """The sub-questions in order. One may refer to the answer of another as `#k`, its 1-based position."""

    def __len__(self) -> int:
        return len(self.sub_questions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """An action: one sub-question is replaced by two (MSearcher, Eq. 5)."""

    index: int
    """0-based position of the sub-question that is split."""
    first: str
    """The sub-question that is asked first; it has no placeholder `[E]`."""
    second: str
    """The sub-question that is asked second; `[E]` stands for the answer of `first`."""
