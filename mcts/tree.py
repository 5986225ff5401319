"""The search tree: plans with visits and values, selection by UCT, and backpropagation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from trailforge.mcts.plan import plan_key
from trailforge.schemas import Node, Origin, Plan


@dataclass(slots=True)
class TreeNode:
    """A plan during the search; the part of it that is stored is `schemas.Node`."""

    id: int
    parent: int | None
    plan: Plan
    origin: Origin
    decomposable: tuple[bool, ...]
    depth: int
    """Number of edges from the root."""
    visits: int = 0
    """Number of rollouts at this node or below (N)."""
    value: float = 0.0
    """Mean reward of the rollouts at this node or below (V)."""
    own_rollouts: int = 0
    """Number of rollouts of this very plan."""
    cut_rollouts: int = 0
    """Number of rollouts of this plan with a cut reply, which count for nothing else."""
    pending: int = 0
    """Number of selections under way through this node, its virtual losses."""
    expanding: bool = False
    closed: bool = False
    """Whether there is nothing left to learn here, so that selection passes the node by."""
    children: list[int] = field(default_factory=list)
    is_split: bool = False
    """Whether the policy's splits of this plan are among the children; a child that is the gold decomposition does not
    count."""

    @property
    def is_leaf_plan(self) -> bool:
        """Tell whether no sub-question can be split further."""
        return not any(self.decomposable)

    @property
    def is_passed(self) -> bool:
        """Tell whether selection goes on from here to a child instead of ending at this node."""
        return bool(self.children) and (self.is_split or self.is_leaf_plan)

    @property
    def repeats(self) -> int:
        """Return the number of rollouts of this plan that were begun, which is the number of the next one."""
        return self.own_rollouts + self.cut_rollouts


class Tree:
    """The nodes of one search. Node 0 is the root: the undivided question."""

    def __init__(self, question: str, *, decomposable: bool, origin: Origin) -> None:
        root = TreeNode(0, None, Plan(sub_questions=(question,)), origin, (decomposable,), depth=0)
        self.nodes: list[TreeNode] = [root]
        self._plans = {plan_key(root.plan)}

    @property
    def root(self) -> TreeNode:
        """Return the node of the undivided question."""
        return self.nodes[0]

    @property
    def max_depth(self) -> int:
        """Return the number of splits on the longest path."""
        return max(node.depth for node in self.nodes)

    def reserve(self, plan: Plan) -> bool:
        """Claim a plan for a future node. Returns False when a node of the tree, at any place, has or has claimed an
        equal plan.
        """
        key = plan_key(plan)
        if key in self._plans:
            return False
        self._plans.add(key)
        return True

    def find(self, plan: Plan) -> TreeNode | None:
        """Return the leaf plan that equals this plan, if the tree has it."""
        key = plan_key(plan)
        return next((node for node in self.nodes if node.is_leaf_plan and plan_key(node.plan) == key), None)

    def add_child(self, parent: TreeNode, plan: Plan, decomposable: tuple[bool, ...], origin: Origin) -> TreeNode:
        """Attach a plan, for which `reserve` was called, as a new node below `parent`, and return the node."""
        child = TreeNode(len(self.nodes), parent.id, plan, origin, decomposable, depth=parent.depth + 1)
        self.nodes.append(child)
        parent.children.append(child.id)
        parent.is_split |= origin != "oracle"
        for ancestor in self.path_to_root(parent):
            ancestor.closed = False
        return child

    def path_to_root(self, node: TreeNode) -> Iterator[TreeNode]:
        """Yield the node, its parent, and so on up to the root."""
        yield node
        while node.parent is not None:
            node = self.nodes[node.parent]
            yield node

    def backpropagate(self, node: TreeNode, reward: float) -> None:
        """Update N <- N + 1 and V <- running mean, up to the root (MSearcher, Eq. 3)."""
        node.own_rollouts += 1
        for ancestor in self.path_to_root(node):
            ancestor.visits += 1
            ancestor.value += (reward - ancestor.value) / ancestor.visits

    def uct(self, node: TreeNode, exploration: float) -> float:
        """Return V + w * sqrt(2 ln N(parent) / N) (MSearcher, Eq. 2). Pending selections count as visits with reward
        0."""
        assert node.parent is not None, "the root is never compared"
        visits = node.visits + node.pending
        if visits == 0:
            return math.inf
        parent = self.nodes[node.parent]
        value = node.value * node.visits / visits
        return value + exploration * math.sqrt(2 * math.log(max(1, parent.visits + parent.pending)) / visits)

    def select(self, exploration: float, *, only_splits: bool = False) -> TreeNode | None:
        """Descend by highest UCT to a node that was not split; the oldest child wins ties. Returns None when all nodes
        are closed. `only_splits` skips plans that cannot be split.
        """
        node = self.root
        if not self._open(node, only_splits):
            return None
        while node.is_passed:
            children = [self.nodes[i] for i in node.children if self._open(self.nodes[i], only_splits)]
            node = max(children, key=lambda child: self.uct(child, exploration))
        return node

    def mark_pending(self, node: TreeNode, sign: int) -> None:
        """Add (+1) or remove (-1) a virtual loss on the path to the root."""
        for ancestor in self.path_to_root(node):
            ancestor.pending += sign

    def close(self, node: TreeNode) -> None:
        """Mark a node as having nothing left to learn, and so every ancestor whose children are all closed."""
        node.closed = True
        for ancestor in self.path_to_root(node):
            if ancestor.is_passed and all(self.nodes[i].closed for i in ancestor.children):
                ancestor.closed = True

    def records(self) -> tuple[Node, ...]:
        """Return the tree's nodes as records to be stored."""
        return tuple(
            Node(
                id=node.id,
                parent=node.parent,
                plan=node.plan.sub_questions,
                origin=node.origin,
                visits=node.visits,
                value=node.value,
                decomposable=node.decomposable,
                depth=node.depth,
            )
            for node in self.nodes
        )

    def _open(self, node: TreeNode, only_splits: bool) -> bool:
        """Can a selection end at or below this node? Not while its own expansion is under way."""
        if node.closed or node.expanding or (only_splits and not node.children and node.is_leaf_plan):
            return False
        return not node.is_passed or any(self._open(self.nodes[i], only_splits) for i in node.children)
