"""Which rollout comes next where a plan is known to succeed, or was seen to fail: one thing is varied at a time.

A rollout that keeps another one's steps but for a single search, or a single answer, says where the two part. So a
retrieval error comes of one query put in other words, a reasoning error of one answer drawn again over the same
passages; both may break a right rollout or mend a wrong one. Everything else stands in the ledger and costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from trailforge.mcts.plan import question_of
from trailforge.mcts.tree import TreeNode
from trailforge.schemas import ErrorType, Rollout, Step, VariationKind

Supported = Callable[[Step], bool]
"""Does a passage of the step hold its answer?"""

_REWORDINGS_PER_STEP = 2
"""A query that missed twice more is not what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """What makes a rollout differ from the plain one of its plan."""

    kind: VariationKind
    step: int | None = None
    """0-based step whose query is reworded, or whose answer is drawn again; None: all answers are."""
    sample: int = 0
    """Number of the rollout among those of its plan: its draws are its own."""
    base: Rollout | None = None
    """The rollout whose steps are kept where they do not rest on the varied one; None: nothing is kept."""
    seen: tuple[str, ...] = ()
    """Queries by which the varied step was searched already."""


PLAIN = Variation(kind="none")


def whole_anew(node: TreeNode, sample: int) -> Variation:
    """Every answer drawn again: where the plain rollout was cut, there is nothing to keep."""
    return Variation(kind="answer", sample=sample)


class Contrasts:
    """The rollouts of a search so far, asked for the next variation."""

    def __init__(self, rollouts: Sequence[Rollout], is_supported: Supported) -> None:
        self._is_supported = is_supported
        self._of: dict[int, list[Rollout]] = {}
        for rollout in rollouts:
            self._of.setdefault(rollout.node, []).append(rollout)

    def repeat(self, node: TreeNode, sample: int) -> Variation:
        """The next rollout of a plan that is rolled out again, whatever came of it."""
        if not self._of.get(node.id):
            return whole_anew(node, sample) if sample else PLAIN
        if (right := self._right(node)) is None:
            return self.mend(node, sample)
        kinds = Counter(r.variation for r in self._of[node.id])
        kind: VariationKind = "query" if kinds["query"] <= kinds["answer"] else "answer"
        return self._vary(node, right, kind, self._rarest_step(node, kind, range(len(right.steps))), sample)

    def mend(self, node: TreeNode, sample: int) -> Variation:
        """Another try at a plan that failed: where an answer has no support, its query is put in other words, else an
        answer is drawn again."""
        last = self._of[node.id][-1]
        for step in last.steps:
            missed = bool(step.passages) and not self._is_supported(step)
            if missed and self._varied(node, "query")[step.index] < _REWORDINGS_PER_STEP:
                return self._vary(node, last, "query", step.index, sample)
        read = [step.index for step in last.steps if step.passages]
        return self._vary(node, last, "answer", self._rarest_step(node, "answer", read or [0]), sample)

    def next_of(self, kind: ErrorType, nodes: Collection[TreeNode]) -> tuple[TreeNode, VariationKind] | None:
        """The plan of these where a right rollout is broken next for a row of this kind; None when there is none."""
        varied: VariationKind = "query" if kind == "retrieval" else "answer"
        right = [node for node in nodes if self._right(node) is not None]
        if not right:
            return None
        return min(right, key=lambda node: (self._varied(node, varied).total(), node.id)), varied

    def break_right(self, node: TreeNode, kind: VariationKind, sample: int) -> Variation:
        """Vary one step of a right rollout: the one that was varied least, of these the last."""
        right = self._right(node)
        assert right is not None, "only plans with a right rollout are asked for"
        searched = [step.index for step in right.steps if step.passages]
        return self._vary(node, right, kind, self._rarest_step(node, kind, searched), sample)

    def _right(self, node: TreeNode) -> Rollout | None:
        """The first right rollout of a plan; one whose answers are all supported goes before."""
        right = [r for r in self._of.get(node.id, ()) if r.reward > 0]
        return next((r for r in right if all(map(self._is_supported, r.steps))), right[0] if right else None)

    def _vary(self, node: TreeNode, base: Rollout, kind: VariationKind, step: int, sample: int) -> Variation:
        seen = tuple(dict.fromkeys(self._queries(node, base, step))) if kind == "query" else ()
        return Variation(kind=kind, step=step, sample=sample, base=base, seen=seen)

    def _queries(self, node: TreeNode, base: Rollout, step: int) -> Iterator[str]:
        """By which the plan's rollouts searched for what the base's step asks."""
        asked = question_of(base.steps, base.steps[step])
        for rollout in self._of[node.id]:
            if question_of(rollout.steps, rollout.steps[step]) == asked:
                yield rollout.steps[step].query

    def _varied(self, node: TreeNode, kind: VariationKind) -> Counter[int]:
        """How often each step was varied so."""
        return Counter(step for step, how in self._variations(node) if how == kind)

    def _variations(self, node: TreeNode) -> Iterator[tuple[int, VariationKind]]:
        for rollout in self._of.get(node.id, ()):
            if rollout.varied_step is not None:
                yield rollout.varied_step, rollout.variation

    def _rarest_step(self, node: TreeNode, kind: VariationKind, steps: Collection[int]) -> int:
        counts = self._varied(node, kind)
        return min(steps, key=lambda step: (counts[step], -step))
