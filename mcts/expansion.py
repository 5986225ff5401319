"""Expand a plan of the tree: the policy splits it, and judges which sub-questions can be split further (section
3.1.1).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from trailforge.mcts.inputs import CallBounds, Policy, Proposal, SearchConfig
from trailforge.mcts.plan import apply_split, plan_problem, renumbered, shared_width, split_problem
from trailforge.mcts.tree import Tree, TreeNode
from trailforge.schemas import DroppedSplits, Plan, Split


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The result of expanding a plan: which nodes are rolled out now, and which new ones still have to be judged."""

    targets: list[TreeNode]
    """Nodes to be rolled out now."""
    undecided: list[tuple[TreeNode, Split]] = field(default_factory=list)
    """New nodes whose sub-questions are not judged yet, with the split that made each."""


@dataclass(slots=True, kw_only=True)
class Expansion:
    """Proposes and judges splits in one search, by asking the policy."""

    policy: Policy
    config: SearchConfig
    bounds: CallBounds
    tree: Tree
    dropped: Counter[str] = field(default_factory=Counter)
    """Number of splits that were not used, by reason."""
    judged: dict[str, bool] = field(default_factory=dict)

    @property
    def dropped_splits(self) -> DroppedSplits:
        """Return how many proposed splits were not used, by reason, as the tree's record holds them."""
        return DroppedSplits(**self.dropped)

    async def propose(self, node: TreeNode) -> list[tuple[int, Proposal]]:
        """Ask the policy to split each sub-question of a plan that can be split, one reply each; return each reply with
        the position (from 0) of its sub-question.
        """
        shares = shared_width(self.config.width, node.decomposable)
        replies = await asyncio.gather(*(self.policy.propose(node.plan.sub_questions[i], n) for i, n in shares.items()))
        return list(zip(shares, replies, strict=True))

    def expand(self, node: TreeNode, proposals: list[tuple[int, Proposal]], budget: int) -> Growth:
        """Attach the usable splits of `propose` as child plans, as many as `budget` model calls can roll out and judge.

        A leaf plan is rolled out again instead. A plan whose splits only lead to plans that the tree already has is
        closed. One that cannot be split after all becomes a leaf plan.
        """
        if node.is_leaf_plan:
            return Growth(targets=[node])
        duplicates = self.dropped["identical"]
        children: list[tuple[TreeNode, Split]] = []
        for index, proposal in proposals:
            self.dropped["malformed"] += proposal.malformed
            for first, second in proposal.splits:
                if budget < self.bounds.rollout(len(node.plan) + 1):
                    break
                split = Split(index=index, first=first.strip(), second=second.strip())
                if (plan := self.usable(node, split)) is not None:
                    unknown = (False,) * len(plan)
                    children.append((self.tree.add_child(node, plan, unknown, proposal.origin), split))
                    budget -= self.bounds.rollout(len(plan))
        if children:
            return Growth(targets=[child for child, _ in children], undecided=children)
        if self.dropped["identical"] > duplicates or budget < self.bounds.rollout(len(node.plan) + 1):
            self.tree.close(node)
            return Growth(targets=[])
        node.decomposable = (False,) * len(node.plan)
        return Growth(targets=[node])

    def usable(self, node: TreeNode, split: Split) -> Plan | None:
        """Return the plan that a split makes of the node's plan, now reserved in the tree; None where the split cannot
        be used, after counting why.
        """
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

    async def judge_halves(self, grown: Sequence[tuple[TreeNode, Split]]) -> None:
        """Set for new plans, each given with the split that made it, which of their sub-questions can be split: the
        parent plan's verdicts are kept, and the two new sub-questions are judged once.
        """
        grown = [(child, split) for child, split in grown if len(child.plan) < self.config.max_sub_questions]
        halves = [child.plan.sub_questions[split.index : split.index + 2] for child, split in grown]
        verdicts = iter(await self.judge([half for pair in halves for half in pair]))
        for child, split in grown:
            assert child.parent is not None, "the root has no split"
            inherited = self.tree.nodes[child.parent].decomposable
            new = (next(verdicts), next(verdicts))
            child.decomposable = (*inherited[: split.index], *new, *inherited[split.index + 1 :])

    async def judge(self, sub_questions: Sequence[str], *, unknown: bool = False) -> list[bool]:
        """Return which sub-questions can be split. Those that were not judged before are judged in one request; two
        that differ only in the numbers of their references `#k` count as one. Where the policy gives no verdict, that
        is counted, and the verdict is `unknown`.
        """
        meanings = [renumbered(sub_question) for sub_question in sub_questions]
        if new := [meaning for meaning in dict.fromkeys(meanings) if meaning not in self.judged]:
            for meaning, verdict in zip(new, await self.policy.judge(new), strict=True):
                self.dropped["malformed"] += verdict is None
                self.judged[meaning] = unknown if verdict is None else verdict
        return [self.judged[meaning] for meaning in meanings]
