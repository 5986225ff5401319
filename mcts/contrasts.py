"""Which rollout comes next where a plan is known to succeed, or was seen to fail: one thing is varied at a time.

A rollout that keeps another one's steps but for a single search, or a single answer, says where the two part. So a
retrieval error comes of one query put in other words, a reasoning error of one answer drawn again over the same
passages; both may break a right rollout or mend a wrong one. Everything else stands in the ledger and costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trailforge.mcts.plan import question_of
from trailforge.mcts.tree import TreeNode
from trailforge.schemas import Rollout, Step, VariationKind

Fault = Literal["missed", "misread"]
"""Why an answer cannot stand: its passages do not say it, or they say another one."""
FindFault = Callable[[Step], Fault | None]
"""What is known to be wrong with a step, before anybody knows what comes of it."""


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
    misses: bool = False
    """For a reworded query: search it only if its passages do not hold the base's answer."""


PLAIN = Variation(kind="none")


def whole_anew(node: TreeNode, sample: int) -> Variation:
    """Every answer drawn again: where the plain rollout was cut, there is nothing to keep."""
    return Variation(kind="answer", sample=sample)


class Contrasts:
    """The rollouts of a search so far, asked for the next variation."""

    def __init__(self, rollouts: Sequence[Rollout], find_fault: FindFault, step_tries: int) -> None:
        """`step_tries`: as in `mcts.inputs.SearchConfig`."""
        self._find_fault, self._step_tries = find_fault, step_tries
        self._of: dict[int, list[Rollout]] = {}
        for rollout in rollouts:
            self._of.setdefault(rollout.node, []).append(rollout)

    def repeat(self, node: TreeNode, sample: int) -> Variation:
        """The next rollout of a plan that is rolled out again, whatever came of it."""
        if not self._of.get(node.id):
            return whole_anew(node, sample) if sample else PLAIN
        if (right := self._right(node)) is None:
            return self.mend(node, sample) or whole_anew(node, sample)
        kinds = Counter(r.variation for r in self._of[node.id])
        kind: VariationKind = "query" if kinds["query"] <= kinds["answer"] else "answer"
        return self._vary(node, right, kind, self._rarest_step(node, kind, range(len(right.steps))), sample)

    def mend(self, node: TreeNode, sample: int) -> Variation | None:
        """Another try at a plan that failed, or came through on an answer that cannot stand; None when all was tried.

        The first such answer is mended, for what follows rests on it: where it was missed, by other words of the query;
        where it was misread, by drawing it again. Where each answer stands, one of them is drawn again.
        """
        tried = self._of[node.id]
        base = max(reversed([r for r in tried if r.reward > 0] or tried), key=self._sound_steps)
        place, fault = self._first_fault(base)
        if place is not None and fault == "missed":
            is_left = self._varied(node, "query")[place] < self._step_tries
            return self._vary(node, base, "query", place, sample) if is_left else None
        read = [step.index for step in base.steps if step.passages] if place is None else [place]
        step = self._rarest_step(node, "answer", read or [0])
        is_left = self._varied(node, "answer")[step] < self._step_tries
        return self._vary(node, base, "answer", step, sample) if is_left else None

    def is_faulty(self, node: TreeNode) -> bool:
        """Does the plan come through, but never by answers that can all stand?"""
        right = self._right(node)
        return right is not None and self._first_fault(right)[0] is not None

    def break_right(self, nodes: Collection[TreeNode], kind: VariationKind) -> tuple[TreeNode, Variation] | None:
        """The step of a right rollout that was varied least so, of these the last; None when each was often enough.

        A query is put in other words once: of several wordings one that loses the answer is searched, and where none
        does, others will not either.
        """
        most = 1 if kind == "query" else self._step_tries
        found = []
        for node in nodes:
            right, varied = self._right(node), self._varied(node, kind)
            searched = [step.index for step in right.steps if step.passages] if right else []
            found += [(varied[step], node.id, -step, node, right) for step in searched if varied[step] < most]
        if not found:
            return None
        *_, step, node, right = min(found, key=lambda each: each[:3])
        variation = self._vary(node, right, kind, -step, node.repeats)
        return node, replace(variation, misses=kind == "query")

    def _right(self, node: TreeNode) -> Rollout | None:
        """The right rollout of a plan whose answers stand furthest; of several the first."""
        right = [r for r in self._of.get(node.id, ()) if r.reward > 0]
        return max(right, key=self._sound_steps, default=None)

    def _first_fault(self, rollout: Rollout) -> tuple[int, Fault] | tuple[None, None]:
        """The first step that has one, among those that searched."""
        for step in rollout.steps:
            if step.passages and (fault := self._find_fault(step)):
                return step.index, fault
        return None, None

    def _sound_steps(self, rollout: Rollout) -> int:
        """How many steps come before the first fault."""
        place, _ = self._first_fault(rollout)
        return len(rollout.steps) if place is None else place

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
        rollouts = [each for each in self._of.get(node.id, ()) if each.variation == kind]
        return Counter(each.varied_step for each in rollouts if each.varied_step is not None)

    def _rarest_step(self, node: TreeNode, kind: VariationKind, steps: Collection[int]) -> int:
        counts = self._varied(node, kind)
        return min(steps, key=lambda step: (counts[step], -step))
