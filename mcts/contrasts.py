"""Choose which rollout (execution) of a plan comes next: the plan as a whole, sampled again, or one step of a rollout,
varied.

A sampled rollout keeps nothing: each answer is the model's, drawn again, and one query may be in other words, which are
searched whatever they find. So its errors are those that an agent makes.

A varied rollout keeps another one's steps but for a single search, or a single answer, and so says where the two part.
A retrieval error comes of one query put in other words, a reasoning error of one answer drawn again over the same
passages; both may break a right rollout, which provokes an error, or mend a wrong one. The calls of kept steps are not
made again: their replies are stored, and cost nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal

from trailforge.mcts.plan import normalized, question_of
from trailforge.mcts.reflection import SameAnswer
from trailforge.mcts.tree import TreeNode
from trailforge.schemas import Passage, Rollout, Step, VariationKind

Errors = Literal["sampled", "provoked"]
"""Origin of rollouts with errors. `sampled`: plans are rolled out again as a whole, and every rollout counts.
`provoked`: right rollouts are varied until they err, and wrong ones where their error is known."""
Fault = Literal["missed", "misread"]
"""Why an answer cannot stand: its passages do not state it (`missed`), or they state another one (`misread`)."""
FindFault = Callable[[Step], Fault | None]
"""A function that finds what is known to be wrong with a step before the rollout's outcome is known; None for
nothing."""


_Prompt = tuple[str, tuple[str, ...]]


class DrawnAnswers:
    """The model's answers to the prompts of a search so far, which tell when a prompt need not be asked again.

    A model that gave an answer twice mostly gives it a third time: such a call costs and teaches nothing. So a prompt,
    which is a question over passages, is settled while its last `enough` draws agree. This depends on the rollouts'
    numbers, not on the order of replies.
    """

    def __init__(self, rollouts: Iterable[Rollout], enough: int, same_answer: SameAnswer) -> None:
        """`enough`: as `mcts.inputs.SearchConfig.agreeing_draws`."""
        self._enough, self._same_answer = enough, same_answer
        self._drawn: dict[_Prompt, dict[object, Step]] = {}
        for rollout in rollouts:
            for step in rollout.steps:
                # One call may stand behind the steps of several rollouts: it is one draw.
                draw = step.call_keys[-1] if step.call_keys else (step.answer_sample, step.answer)
                prompt = _prompt(question_of(rollout.steps, step), step.passages)
                self._drawn.setdefault(prompt, {}).setdefault(draw, step)

    def settled(self, question: str, passages: Sequence[Passage]) -> Step | None:
        """Return the first step among the last answers to a question over these passages that agree; None while fewer
        than `enough` of them agree.
        """
        agreeing = self._agreeing(question, passages)
        return agreeing[-1] if len(agreeing) >= self._enough else None

    def room(self, question: str, passages: Sequence[Passage]) -> int:
        """Return how often the model still has to answer a question over these passages until `enough` answers agree,
        if every further one agrees with the last; 0 when they do already.
        """
        return max(0, self._enough - len(self._agreeing(question, passages)))

    def would_repeat(self, rollout: Rollout) -> bool:
        """Tell whether another rollout with the same queries would draw no new answer, and so repeat this one, since
        the answers to all its prompts are settled.
        """
        for step in (step for step in rollout.steps if step.passages):
            known = self.settled(question_of(rollout.steps, step), step.passages)
            if known is None or not self._agree(known, step):
                return False
        return True

    def _agreeing(self, question: str, passages: Sequence[Passage]) -> list[Step]:
        """The last draws that agree, the last one first."""
        drawn = list(self._drawn.get(_prompt(question, passages), {}).values())
        return list(takewhile(lambda step: self._agree(step, drawn[-1]), reversed(drawn)))

    def _agree(self, left: Step, right: Step) -> bool:
        return left.answer == right.answer or self._same_answer(left.answer, right.answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """How a rollout differs from the first rollout of its plan, which searches by the sub-questions and draws each
    answer once.
    """

    kind: VariationKind
    step: int | None = None
    """0-based step whose query is reworded, or whose answer is sampled again; None: all answers are."""
    sample: int = 0
    """Number of the rollout among those of its plan, which gives it samples of its own."""
    base: Rollout | None = None
    """Rollout whose steps are kept where they do not depend on the varied one; None: nothing is kept."""
    seen: tuple[str, ...] = ()
    """Queries by which the varied step was searched before."""
    read: tuple[frozenset[str], ...] = ()
    """Ids of the passages that each query of `seen` found."""
    misses: bool = False
    """Whether a reworded query is searched only if its passages do not hold the base's answer."""
    draws: DrawnAnswers | None = None
    """Answers drawn before, which tell what need not be drawn again; None: everything may be."""


PLAIN = Variation(kind="none")


def are_alike(left: str, right: str) -> bool:
    """Tell whether two answers are the same but for case and punctuation."""
    return normalized(left) == normalized(right)


class Contrasts:
    """The rollouts of a search so far, from which the next variation is chosen."""

    def __init__(
        self,
        rollouts: Sequence[Rollout],
        find_fault: FindFault,
        step_tries: int,
        *,
        errors: Errors = "provoked",
        agreeing_draws: int = 2,
        same_answer: SameAnswer = are_alike,
    ) -> None:
        """`step_tries`, `errors` and `agreeing_draws`: as in `mcts.inputs.SearchConfig`."""
        self._find_fault, self._step_tries, self._errors = find_fault, step_tries, errors
        self._draws = DrawnAnswers(rollouts, agreeing_draws, same_answer)
        self._of: dict[int, list[Rollout]] = {}
        for rollout in rollouts:
            self._of.setdefault(rollout.node, []).append(rollout)

    def repeat(self, node: TreeNode, sample: int) -> Variation | None:
        """Return how a plan's next rollout, its number `sample` from 0, differs from those before it, whatever came of
        them; None when it would find nothing new.
        """
        if not self._of.get(node.id):  # the plain one was cut, if there was one: there is nothing to keep
            return self._anew(sample) if sample else PLAIN
        if self._errors == "sampled":
            return self._sampled(node, sample)
        if (right := self._right(node)) is None:
            return self.mend(node, sample) or self._sampled(node, sample)
        kinds = Counter(r.variation for r in self._of[node.id])
        kind: VariationKind = "query" if kinds["query"] <= kinds["answer"] else "answer"
        return self._vary(node, right, kind, self._rarest_step(node, kind, range(len(right.steps))), sample)

    def mend(self, node: TreeNode, sample: int) -> Variation | None:
        """Return another try, number `sample` of the plan's rollouts, at a plan that failed or that succeeded over a
        faulty answer; None when all was tried.

        The first answer in which `find_fault` sees a fault is corrected, since later steps depend on it: where its
        passage was missed, by rewording the query; where it was misread, by sampling the answer again. Where no answer
        is faulty, one of them is sampled again, earlier steps first.
        """
        tried = self._of[node.id]
        base = max(reversed([r for r in tried if r.reward > 0] or tried), key=self._sound_steps)
        place, fault = self._first_fault(base)
        if place is not None and fault == "missed":
            is_left = self._varied(node, "query")[place] < self._step_tries
            return self._vary(node, base, "query", place, sample) if is_left else None
        read = [step.index for step in base.steps if step.passages] if place is None else [place]
        steps = [step for step in read if self._may_be_drawn(node, base, step)]
        return self._vary(node, base, "answer", self._rarest_step(node, "answer", steps), sample) if steps else None

    def is_faulty(self, node: TreeNode) -> bool:
        """Tell whether the plan succeeds, but only over an answer in which `find_fault` sees a fault."""
        right = self._right(node)
        return right is not None and self._first_fault(right)[0] is not None

    def break_right(self, nodes: Collection[TreeNode], kind: VariationKind) -> tuple[TreeNode, Variation] | None:
        """Return a plan and a variation of its right rollout that may provoke an error: the step that was varied least
        by this `kind` (its query reworded, or its answer drawn again); None when each was varied often enough.

        Of equals, early steps are preferred, since an agent that goes wrong there has to continue after the correction,
        and the model's own plans to the gold decomposition. A query is reworded once: of several wordings one that
        loses the answer is searched, and where none does, others will not either.
        """
        found = []
        for node in nodes:
            right, varied = self._right(node), self._varied(node, kind)
            if right is None:
                continue
            for step in (step.index for step in right.steps if step.passages):
                is_left = varied[step] < 1 if kind == "query" else self._may_be_drawn(node, right, step)
                found += [(varied[step], node.origin == "oracle", node.id, step, node, right)] * is_left
        if not found:
            return None
        *_, step, node, right = min(found, key=lambda each: each[:4])
        variation = self._vary(node, right, kind, step, node.repeats)
        return node, replace(variation, misses=kind == "query")

    def _sampled(self, node: TreeNode, sample: int) -> Variation | None:
        """The whole plan once more, with its own queries or with one of them in other words, in turn; None when each
        was tried and each prompt is settled."""
        tried = self._of[node.id]
        varied = self._varied(node, "query")
        steps = [s.index for s in tried[0].steps if s.passages and varied[s.index] < self._step_tries]
        is_new = not any(r.variation != "query" and self._draws.would_repeat(r) for r in tried)
        if is_new and (not steps or varied.total() >= len(tried) - varied.total() - 1):
            return self._anew(sample)
        if not steps:
            return None
        step = self._rarest_step(node, "query", steps)
        seen = [step_of.query for rollout in tried for step_of in rollout.steps if step_of.index == step]
        return Variation(kind="query", step=step, sample=sample, seen=tuple(dict.fromkeys(seen)), draws=self._draws)

    def _anew(self, sample: int) -> Variation:
        """Every answer drawn again."""
        return Variation(kind="answer", sample=sample, draws=self._draws)

    def _may_be_drawn(self, node: TreeNode, base: Rollout, step: int) -> bool:
        """Is a step's answer neither settled nor drawn again often enough?"""
        of_base = base.steps[step]
        is_open = self._draws.room(question_of(base.steps, of_base), of_base.passages) > 0
        return is_open and self._varied(node, "answer")[step] < self._step_tries

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
        searched = list(self._searched(node, base, step)) if kind == "query" else []
        return Variation(
            kind=kind,
            step=step,
            sample=sample,
            base=base,
            seen=tuple(dict.fromkeys(each.query for each in searched)),
            read=tuple(dict.fromkeys(frozenset(p.id for p in each.passages) for each in searched)),
            draws=self._draws,
        )

    def _searched(self, node: TreeNode, base: Rollout, step: int) -> Iterator[Step]:
        """The steps of the plan's rollouts that searched for what the base's step asks."""
        asked = question_of(base.steps, base.steps[step])
        for rollout in self._of[node.id]:
            if question_of(rollout.steps, rollout.steps[step]) == asked:
                yield rollout.steps[step]

    def _varied(self, node: TreeNode, kind: VariationKind) -> Counter[int]:
        rollouts = [each for each in self._of.get(node.id, ()) if each.variation == kind]
        return Counter(each.varied_step for each in rollouts if each.varied_step is not None)

    def _rarest_step(self, node: TreeNode, kind: VariationKind, steps: Collection[int]) -> int:
        counts = self._varied(node, kind)
        return min(steps, key=lambda step: (counts[step], step))


def _prompt(question: str, passages: Sequence[Passage]) -> _Prompt:
    return question, tuple(passage.id for passage in passages)
