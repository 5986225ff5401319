"""Inputs of a search: how many rows are enough, what it may spend, and the callables that split, roll out and
report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

from trailforge.mcts.contrasts import Errors, Variation
from trailforge.schemas import Origin, Plan, SearchTree, Step, VariationKind, check_least

OracleTurn = Literal["last", "first", "never"]
"""When the gold decomposition is rolled out. `last`: where the policy failed, as in the paper (section 4.1). `first`:
before the policy is asked; a question that it does not solve, with all its corrections, is given up. `never`: not at
all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRows:
    """Number of rows of each kind that are enough; only rows that pass the filters count."""

    correct: int = 1
    retrieval: int = 1
    reasoning: int = 1
    decomposition: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """Settings of the search of one question. Defaults follow the paper where it gives a number."""

    GONE: ClassVar[Mapping[str, str]] = {
        "oracle_first": "say oracle: first or last; the preset that had it is gold-first",
    }
    """Fields of earlier versions, each with what to write in its place."""

    width: int = 4
    """Number of splits proposed in an expansion (w), shared over the decomposable sub-questions."""
    exploration: float = 0.6
    """Weight of exploration, omega of Eq. 2 (section 3.1.2)."""
    max_rounds: int = 40
    """Largest number of selections in one tree."""
    max_calls: int = 80
    """Largest number of model calls for one tree: a round that could exceed it is not begun."""
    max_leaf_rollouts: int = 12
    """Largest number of rollouts of one leaf plan."""
    max_sub_questions: int = 6
    """Number of sub-questions from which on a plan is not split further."""
    wanted: WantedRows = field(default_factory=WantedRows)
    """Rows with which the search ends."""
    tries: int = 4
    """Rounds spent without a row on a wanted kind of error before it is given up."""
    patience: int = 80
    """Number of calls without a new row after which a question is given up."""
    errors: Errors = "sampled"
    """Origin of rollouts with errors; see `mcts.contrasts.Errors`."""
    step_tries: int = 2
    """Number of rewordings of one query, or of further samples of one answer, before they are given up."""
    agreeing_draws: int = 2
    """Number of last answers that must agree before a prompt is sampled no more; see `mcts.contrasts`."""
    plan_tries: int = 2
    """Number of rollouts of a leaf plan that fails, once another one is known to succeed: one unlucky rollout must not
    condemn a plan (section 3.1.4: "both branches have undergone multiple rollouts")."""
    oracle: OracleTurn = "last"
    """When the gold decomposition is rolled out."""
    oracle_rollouts: int = 6
    """Number of rollouts of the gold decomposition while there is no correct one."""
    policy_calls: int = 40
    """Number of calls without a right rollout after which the policy has failed: then comes the gold decomposition,
    where `oracle` is `last`, else the end of the search."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for numbers by which nothing would be searched."""
        check_least(self, 1, "width", "max_rounds", "max_calls", "max_leaf_rollouts", "max_sub_questions")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBounds:
    """Upper bounds on the model calls of each part of a round of the search, by which no budget is exceeded."""

    split: int = 2
    judge: int = 2
    vary: int = 3
    """Calls for rewordings of a query, or samples of an answer, until one differs."""
    verdict: int = 0
    """Calls for the verdict on a rollout's final answer."""

    def rollout(self, steps: int) -> int:
        """Return the largest number of calls of a rollout that draws every answer."""
        return steps + self.verdict

    def variation(self, steps: int) -> int:
        """Return the largest number of calls of a rollout that varies one step and continues from there."""
        return self.vary + steps + self.verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The policy's reply to a request to split a sub-question."""

    splits: tuple[tuple[str, str], ...]
    """Pairs (first, second) in the order of preference; `[E]` in second stands for the answer of first."""
    malformed: int = 0
    """Number of splits in the reply that could not be read."""
    origin: Origin = "policy"


class Policy(Protocol):
    """Interface that proposes splits and judges what can be split (the paper's pi_theta)."""

    async def judge(self, sub_questions: Sequence[str]) -> Sequence[bool | None]:
        """Return for each sub-question whether it can be divided in a meaningful way; None where there is no
        verdict."""
        ...

    async def propose(self, sub_question: str, count: int) -> Proposal:
        """Return up to `count` different splits of one sub-question, from a single reply."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """Result of one execution of a plan; with its number and the plan's node the search makes a `schemas.Rollout` of
    it.
    """

    steps: tuple[Step, ...]
    answer: str
    reward: float
    variation: VariationKind
    varied_step: int | None
    judge_score: float | None = None


RollOut = Callable[[Plan, Variation], Awaitable[Simulation | None]]
"""A function that executes a plan. It returns None when a reply that the rollout depends on was cut. That gives no
evidence on the plan (r is the answer's correctness, and there is no answer), so nothing is backed up and no row is
made; the rollout's number is used up, so that the plan's next rollout is another one."""
Progress = Callable[[SearchTree], Counter[str]]
"""A function that returns how many rows of each kind ("correct", and the error types) a tree gives that pass the
filters."""
