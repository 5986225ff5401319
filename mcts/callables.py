"""What a search is given: who splits, who rolls out, who says how far it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from trailforge.mcts.contrasts import Variation
from trailforge.schemas import Origin, Plan, SearchTree, Step, VariationKind


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
