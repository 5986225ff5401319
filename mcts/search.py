"""Monte Carlo tree search over decomposition plans: select, expand, roll out, back up (MSearcher, section 3.1).

The search knows no model and no retriever; both come in as callables. Given the same replies it makes the same tree:
rollouts of a round run at once, but are numbered and backed up in the order in which they were chosen.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from trailforge.mcts.plan import apply_split, gold_plan, plan_problem, shared_width, split_problem
from trailforge.mcts.tree import Tree, TreeNode
from trailforge.schemas import (
    DroppedSplits,
    Origin,
    Plan,
    Question,
    Rollout,
    SearchTree,
    Split,
    Step,
    StopReason,
    VariationKind,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """How one question is searched. Defaults follow the paper where it gives a number."""

    width: int = 4
    """w: splits proposed per expansion, shared over the decomposable sub-questions."""
    exploration: float = 0.6
    """Omega of Eq. 2 (section 3.1.2)."""
    max_rounds: int = 24
    """Selections per tree."""
    max_calls: int = 160
    """Model calls per tree; a round that has begun is finished."""
    max_leaf_rollouts: int = 8
    """Rollouts of one leaf plan."""
    max_sub_questions: int = 6
    """A plan this long is not split further."""
    wanted_correct: int = 2
    """Stop when one leaf plan has this many correct rollouts …"""
    wanted_wrong: int = 2
    """… and this many wrong ones."""
    enough_correct: int = 6
    """Stop anyway when this many rollouts of leaf plans are correct."""
    oracle_rollouts: int = 6
    """Rollouts of the gold decomposition when the search ended with no correct one; 0: no oracle fallback."""
    confirmed_failures: int = 2
    """At the end, so many leaf plans that were rolled out once, and wrongly, are rolled out again: a plan is not to be
    blamed for one unlucky rollout (section 3.1.4: "both branches have undergone multiple rollouts")."""


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

    async def is_decomposable(self, sub_question: str) -> bool | None:
        """Can this sub-question be divided in a meaningful way? None: there is no verdict."""
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


RollOut = Callable[[Plan, int, bool], Awaitable[Simulation | None]]
"""(plan, repeat, anew) -> simulation. Repeat 0 is the plain rollout; every further number varies it in its own way.
None: a reply that it rests on was cut. That says nothing of the plan (r is the answer's correctness, and there is
none), so it is not backed up and no row is made of it; its number is spent, so that the plan's next rollout is another
one. `anew`: the plan's plain rollout was cut, so no other may rest on its answers."""


async def search(
    question: Question,
    *,
    policy: Policy,
    roll_out: RollOut,
    calls: Callable[[], int],
    config: SearchConfig,
    parallel: int = 1,
) -> SearchTree:
    """Search one question and return the tree, without its costs (the caller counts those).

    `calls` says how many model calls the search has made. `parallel` leaves are selected a round, kept apart by
    virtual loss: 1 but for the tail of a run, since it costs solved questions per call.
    """
    return await _Search(question, policy, roll_out, calls, config, parallel).run()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Growth:
    """What an expansion leads to."""

    targets: list[TreeNode]
    """To be rolled out now."""
    undecided: list[tuple[TreeNode, Split]] = field(default_factory=list)
    """New nodes whose sub-questions nobody has judged yet, with the split that made them."""


class _Search:
    """The state of one search."""

    def __init__(
        self,
        question: Question,
        policy: Policy,
        roll_out: RollOut,
        calls: Callable[[], int],
        config: SearchConfig,
        parallel: int,
    ) -> None:
        self.question, self.policy, self.roll_out = question, policy, roll_out
        self.calls, self.config, self.parallel = calls, config, parallel
        self.rollouts: list[Rollout] = []
        self.dropped: Counter[str] = Counter()
        self.judged: dict[str, bool] = {}
        self.oracle_used = False
        self.rounds = 0

    async def run(self) -> SearchTree:
        whole = self.question.question
        # Questions come to be split: without a verdict the root is worth the try.
        self.tree = Tree(whole, decomposable=await self.judge(whole, unknown=True), origin="policy")
        while (stop := self.stop_reason()) is None:
            await self.simulate(self.select())
        if self.has_no_correct_rollout():
            stop = await self.fall_back_on_oracle() or stop
        await self.confirm_failures()
        return self.record(stop)

    def select(self) -> list[TreeNode]:
        """Up to `parallel` leaves, told apart by virtual loss."""
        chosen: list[TreeNode] = []
        while len(chosen) < self.parallel:
            node = self.tree.select(self.config.exploration)
            if node is None:
                break
            node.expanding = not node.is_leaf_plan
            self.tree.mark_pending(node, +1)
            chosen.append(node)
        return chosen

    async def simulate(self, selected: list[TreeNode]) -> None:
        """One round: expand what can be expanded, roll out every new plan (or the leaf again), back up.

        New plans are rolled out while their sub-questions are judged: a plan is rolled out whatever the verdict.
        """
        self.rounds += 1
        proposals = await asyncio.gather(*(self.propose(node) for node in selected))
        growths = [self.expand(node, proposed) for node, proposed in zip(selected, proposals, strict=True)]
        targets = [node for growth in growths for node in growth.targets]
        judgements = (self.judge_halves(child, split) for growth in growths for child, split in growth.undecided)
        await self.roll_out_all(targets, *judgements)

    async def propose(self, node: TreeNode) -> list[tuple[int, Proposal]]:
        """Ask for splits of each decomposable sub-question, one reply each."""
        shares = shared_width(self.config.width, node.decomposable)
        replies = await asyncio.gather(*(self.policy.propose(node.plan.sub_questions[i], n) for i, n in shares.items()))
        return list(zip(shares, replies, strict=True))

    def expand(self, node: TreeNode, proposals: list[tuple[int, Proposal]]) -> _Growth:
        """Attach the usable splits as children.

        A leaf plan is rolled out again. A plan whose splits only lead to plans that the tree has is closed. One that
        cannot be split after all becomes a leaf plan; at the root the gold decomposition takes its place.
        """
        self.tree.mark_pending(node, -1)
        node.expanding = False
        if node.is_leaf_plan:
            return _Growth(targets=[node])
        duplicates = self.dropped["identical"]
        children: list[tuple[TreeNode, Split]] = []
        for index, proposal in proposals:
            self.dropped["malformed"] += proposal.malformed
            for first, second in proposal.splits:
                split = Split(index=index, first=first.strip(), second=second.strip())
                if (plan := self.usable(node, split)) is not None:
                    unknown = (False,) * len(plan)
                    children.append((self.tree.add_child(node, plan, unknown, proposal.origin), split))
        if children:
            return _Growth(targets=[child for child, _ in children], undecided=children)
        if self.dropped["identical"] > duplicates:
            self.tree.close(node)
            return _Growth(targets=[])
        node.decomposable = (False,) * len(node.plan)
        oracle = self.add_oracle() if node.parent is None else None
        return _Growth(targets=[oracle or node])

    def usable(self, node: TreeNode, split: Split) -> Plan | None:
        """The refined plan, now reserved in the tree, or None with the reason counted."""
        reason = split_problem(node.plan.sub_questions[split.index], split)
        if reason is None:
            plan = apply_split(node.plan, split)
            if plan_problem(plan) is not None:
                reason = "invalid"
            elif self.tree.reserve(plan):
                return plan
            else:
                reason = "identical"
        self.dropped[reason] += 1
        return None

    async def judge_halves(self, child: TreeNode, split: Split) -> None:
        """Decide what of a new plan can be split: the parent's verdicts, with the two new sub-questions judged once."""
        if len(child.plan) >= self.config.max_sub_questions:
            return
        assert child.parent is not None, "the root has no split"
        inherited = self.tree.nodes[child.parent].decomposable
        new = child.plan.sub_questions[split.index : split.index + 2]
        verdicts = await asyncio.gather(*(self.judge(sub_question) for sub_question in new))
        child.decomposable = (*inherited[: split.index], *verdicts, *inherited[split.index + 1 :])

    async def judge(self, sub_question: str, *, unknown: bool = False) -> bool:
        """Is it decomposable? Asked once per wording. Without a verdict, which is counted, it is `unknown`."""
        if sub_question not in self.judged:
            verdict = await self.policy.is_decomposable(sub_question)
            self.dropped["malformed"] += verdict is None
            self.judged[sub_question] = unknown if verdict is None else verdict
        return self.judged[sub_question]

    async def roll_out_all(self, targets: list[TreeNode], *judgements: Awaitable[None]) -> None:
        """Roll out all targets at once, while the judgements are awaited; number and back up in their order."""
        planned: Counter[int] = Counter()
        repeats = []
        for node in targets:
            repeats.append(node.repeats + planned[node.id])
            planned[node.id] += 1
        begun = [(n.plan, r, n.plain_is_cut) for n, r in zip(targets, repeats, strict=True)]
        rollouts = asyncio.gather(*(self.roll_out(*each) for each in begun))
        simulations, _ = await asyncio.gather(rollouts, asyncio.gather(*judgements))
        for node, repeat, simulation in zip(targets, repeats, simulations, strict=True):
            if simulation is None:
                node.cut_rollouts += 1
                node.plain_is_cut = node.plain_is_cut or repeat == 0
            else:
                self.keep(node, simulation)
            if node.is_leaf_plan and node.repeats >= self.config.max_leaf_rollouts:
                self.tree.close(node)

    def keep(self, node: TreeNode, simulation: Simulation) -> None:
        """Number a rollout and back it up."""
        self.rollouts.append(
            Rollout(
                index=len(self.rollouts),
                node=node.id,
                variation=simulation.variation,
                varied_step=simulation.varied_step,
                steps=simulation.steps,
                answer=simulation.answer,
                reward=simulation.reward,
                judge_score=simulation.judge_score,
            )
        )
        self.tree.backpropagate(node, simulation.reward)

    def stop_reason(self) -> StopReason | None:
        """Why the search ends now; None to go on."""
        if self.is_satisfied():
            return "satisfied"
        if self.rounds >= self.config.max_rounds or self.calls() >= self.config.max_calls:
            return "budget"
        return None if self.tree.select(self.config.exploration) else "exhausted"

    def is_satisfied(self) -> bool:
        """Does the tree have what its rows need: correct and wrong rollouts of the same leaf plan?"""
        correct = Counter(r.node for r in self.leaf_rollouts() if r.reward > 0)
        wrong = Counter(r.node for r in self.leaf_rollouts() if r.reward == 0)
        wanted = self.config
        contrasted = any(
            count >= wanted.wanted_correct and wrong[node] >= wanted.wanted_wrong for node, count in correct.items()
        )
        return contrasted or correct.total() >= wanted.enough_correct

    def leaf_rollouts(self) -> list[Rollout]:
        return [r for r in self.rollouts if self.tree.nodes[r.node].is_leaf_plan]

    def has_no_correct_rollout(self) -> bool:
        return not any(r.reward > 0 for r in self.leaf_rollouts())

    def add_oracle(self) -> TreeNode | None:
        """The gold decomposition as a child of the root; None when there is none, or it is there already."""
        plan = gold_plan(self.question.decomposition)
        if not self.config.oracle_rollouts or plan_problem(plan) is not None:
            return None
        if not self.tree.reserve(plan):
            return None
        self.oracle_used = True
        return self.tree.add_child(self.tree.root, plan, (False,) * len(plan), "oracle")

    async def fall_back_on_oracle(self) -> StopReason | None:
        """Roll out the gold decomposition until it has what rows need (section 4.1: golden reference)."""
        oracle = self.add_oracle()
        if oracle is None:
            return None
        while oracle.repeats < self.config.oracle_rollouts and not self.is_satisfied():
            left = self.config.oracle_rollouts - oracle.repeats
            await self.roll_out_all([oracle] * min(self.config.width, left))
        return "satisfied" if self.is_satisfied() else None

    async def confirm_failures(self) -> None:
        """Roll out failed leaf plans once more, if there is a correct rollout to contrast them with."""
        if self.has_no_correct_rollout():
            return
        failed = [n for n in self.tree.nodes if n.is_leaf_plan and n.own_rollouts == 1 and n.value == 0]
        await self.roll_out_all(failed[: self.config.confirmed_failures])

    def record(self, stop: StopReason) -> SearchTree:
        return SearchTree(
            question_id=self.question.id,
            question=self.question.question,
            answer=self.question.answer,
            answer_aliases=self.question.answer_aliases,
            nodes=self.tree.records(),
            rollouts=tuple(self.rollouts),
            stop_reason=stop,
            oracle_used=self.oracle_used,
            dropped_splits=DroppedSplits(**self.dropped),
            rounds=self.rounds,
            max_depth=self.tree.max_depth,
            calls=0,
            prompt_tokens=0,
            completion_tokens=0,
            cost=0.0,
        )
