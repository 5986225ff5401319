"""When a search has enough, and what it may spend until then."""

from __future__ import annotations

from dataclasses import dataclass, field


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
    step_tries: int = 2
    """Rewordings of one query that missed its answer, or draws of one answer, before they are given up."""
    plan_tries: int = 2
    """Rollouts of a leaf plan that fails, once another one is known to succeed: a plan is not to be blamed for one
    unlucky rollout (section 3.1.4: "both branches have undergone multiple rollouts")."""
    oracle_rollouts: int = 6
    """Rollouts of the gold decomposition while there is no correct one; 0: it is never rolled out."""
    oracle_first: bool = False
    """The gold decomposition is rolled out before the policy is asked; a question that it does not solve, with all its
    mends, is given up. False: it comes last, as in the paper (section 4.1)."""


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
