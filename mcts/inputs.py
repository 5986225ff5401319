"""What a search is given: how much is enough, what it may spend, and who splits, rolls out, says how far it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

from trailforge.mcts.contrasts import Errors, Variation
from trailforge.schemas import Origin, Plan, SearchTree, Step, VariationKind
from trailforge.schemas.errors import check_least

OracleTurn = Literal["last", "first", "never"]
"""`last`: where the policy failed, as in the paper (section 4.1). `first`: before the policy is asked; a question that
it does not solve, with all its mends, is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRows:
    """How many rows of a kind are enough; they count when the filters keep them."""

    correct: int = 1
    retrieval: int = 1
    reasoning: int = 1
    decomposition: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """How one question is searched. Defaults follow the paper where it gives a number."""

    GONE: ClassVar[Mapping[str, str]] = {
        "oracle_first": "say oracle: first or last; the preset that had it is gold-first",
    }
    """What to write in place of fields that there were."""

    width: int = 4
    """w: splits proposed per expansion, shared over the decomposable sub-questions."""
    exploration: float = 0.6
    """Omega of Eq. 2 (section 3.1.2)."""
    max_rounds: int = 40
    """Selections per tree."""
    max_calls: int = 80
    """Model calls per tree: a round is not begun that could take more."""
    max_leaf_rollouts: int = 12
    """Rollouts of one leaf plan."""
    max_sub_questions: int = 6
    """A plan this long is not split further."""
    wanted: WantedRows = field(default_factory=WantedRows)
    """The search ends when the tree gives these rows."""
    tries: int = 4
    """Rounds spent on a kind of error that is wanted, without a row of it, before it is given up."""
    patience: int = 80
    """Calls without a new row before a question is given up."""
    errors: Errors = "sampled"
    """Where rollouts that err come from; see `mcts.contrasts.Errors`."""
    step_tries: int = 2
    """Rewordings of one query, or further draws of one answer, before they are given up."""
    agreeing_draws: int = 2
    """A prompt whose last answers agree is drawn no more once there are so many of them; see `mcts.contrasts`."""
    plan_tries: int = 2
    """Rollouts of a leaf plan that fails, once another one is known to succeed: a plan is not to be blamed for one
    unlucky rollout (section 3.1.4: "both branches have undergone multiple rollouts")."""
    oracle: OracleTurn = "last"
    """When the gold decomposition is rolled out."""
    oracle_rollouts: int = 6
    """Rollouts of the gold decomposition while there is no correct one."""
    policy_calls: int = 40
    """Calls without a right rollout after which the policy has failed: the gold decomposition's turn, where that is
    `last`, else the end of the search."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for numbers by which nothing would be searched."""
        check_least(self, 1, "width", "max_rounds", "max_calls", "max_leaf_rollouts", "max_sub_questions")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBounds:
    """The most calls that a part of a round may take, so that no budget is overshot."""

    split: int = 2
    judge: int = 2
    vary: int = 3
    """Rewordings of a query, or draws of an answer, until one differs."""
    verdict: int = 0
    """On a rollout's final answer."""

    def rollout(self, steps: int) -> int:
        """A plain one, or one whose answers are all drawn anew."""
        return steps + self.verdict

    def variation(self, steps: int) -> int:
        """One that varies a step and goes on from there."""
        return self.vary + steps + self.verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The policy's answer to "split this sub-question"."""

    splits: tuple[tuple[str, str], ...]
    """(first, second) in the order of preference; `[E]` in second stands for the answer of first."""
    malformed: int = 0
    """Splits in the reply that could not be read."""
    origin: Origin = "policy"


class Policy(Protocol):
    """Who proposes splits and judges what can be split (the paper's pi_theta)."""

    async def judge(self, sub_questions: Sequence[str]) -> Sequence[bool | None]:
        """Which of these can be divided in a meaningful way? One verdict each; None where there is none."""
        ...

    async def propose(self, sub_question: str, count: int) -> Proposal:
        """`count` different splits of one sub-question, from a single reply."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What one execution of a plan gave. The search adds number and node (`schemas.Rollout`)."""

    steps: tuple[Step, ...]
    answer: str
    reward: float
    variation: VariationKind
    varied_step: int | None
    judge_score: float | None = None


RollOut = Callable[[Plan, Variation], Awaitable[Simulation | None]]
"""None: a reply that it rests on was cut. That says nothing of the plan (r is the answer's correctness, and there is
none), so it is not backed up and no row is made of it; its number is spent, so that the plan's next rollout is another
one."""
Progress = Callable[[SearchTree], Counter[str]]
"""How many rows of each kind ("correct", and the error types) a tree gives that survive the filters."""
