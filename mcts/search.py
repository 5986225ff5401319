"""Monte Carlo tree search over decomposition plans: select, expand, roll out, back up (MSearcher, section 3.1).

The search knows no model and no retriever; both come in as callables. Given the same replies it makes the same tree:
rollouts of a round run at once, but are numbered and backed up in the order in which they were chosen.

The policy decomposes first and UCT decides what comes next; the gold decomposition joins where that gave no right
rollout (section 4.1), or, by `SearchConfig.oracle`, before it, or never. With sampled errors this continues until each
kind of row is there or the budget is spent. With provoked ones rounds go where rows are missing once a leaf plan has
succeeded: failed plans are tried again, right rollouts are varied in one place, plans are split further.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from trailforge.mcts.contrasts import Contrasts, FindFault, Variation, are_alike
from trailforge.mcts.expansion import Expansion
from trailforge.mcts.inputs import CallBounds, Policy, Progress, RollOut, SearchConfig, Simulation
from trailforge.mcts.plan import gold_plan, plan_problem, shared_width
from trailforge.mcts.reflection import SameAnswer
from trailforge.mcts.tree import Tree, TreeNode
from trailforge.schemas import ErrorType, Plan, Question, Rollout, SearchTree, StopReason


async def search(
    question: Question,
    *,
    policy: Policy,
    roll_out: RollOut,
    calls: Callable[[], int],
    config: SearchConfig,
    progress: Progress | None = None,
    find_fault: FindFault = lambda step: None,
    same_answer: SameAnswer = are_alike,
    bounds: CallBounds | None = None,
    parallel: int = 1,
) -> SearchTree:
    """Search one question and return the tree, without its costs, which the caller counts.

    `policy` splits questions, `roll_out` executes a plan, `calls` returns how many model calls the search has made,
    `find_fault` says what is known to be wrong with a step, and `bounds` how many calls each part may take. `progress`
    counts the rows that a tree gives; without it the search ends with its budget, or when nothing is left to try.
    `parallel` leaves are selected a round, kept apart by virtual loss: 1 but for the end of a run, since more cost
    solved questions per call.
    """
    tree, bounds = Tree(question.question, decomposable=True, origin="policy"), bounds or CallBounds()
    expansion = Expansion(policy=policy, config=config, bounds=bounds, tree=tree)
    return await _Search(
        question, roll_out, calls, config, progress, find_fault, same_answer, bounds, parallel, tree, expansion
    ).run()


_Target = tuple[TreeNode, Variation]


@dataclass(slots=True)
class _Search:
    question: Question
    roll_out: RollOut
    calls: Callable[[], int]
    config: SearchConfig
    progress: Progress | None
    find_fault: FindFault
    same_answer: SameAnswer
    bounds: CallBounds
    parallel: int
    tree: Tree
    expansion: Expansion
    rollouts: list[Rollout] = field(default_factory=list)
    tries: Counter[str] = field(default_factory=Counter)
    oracle: TreeNode | None = None
    rounds: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    rows_at: int = -1
    grown_at: int = 0
    """Calls that were made when the last new row came, or the first right rollout, or the gold decomposition."""

    async def run(self) -> SearchTree:
        # A question of several hops, known or with no verdict, is worth the try.
        if len(self.question.decomposition) < 2 and self.left() >= self.bounds.judge:
            self.tree.root.decomposable = tuple(await self.expansion.judge([self.question.question], unknown=True))
        stop: StopReason | None = None
        while stop is None:
            stop = await (self.look_for_contrasts() if self.has_correct_rollout() else self.look_for_an_answer())
        return self.record(stop)

    async def look_for_an_answer(self) -> StopReason | None:
        """A round while no leaf plan has succeeded: the policy's turn, then the gold decomposition's."""
        gold = gold_plan(self.question.decomposition)
        has_oracle = self.config.oracle != "never" and self.oracle is None and plan_problem(gold) is None
        if self.config.oracle == "first" and (self.oracle is not None or (has_oracle and self.rounds == 0)):
            return await self.try_gold(gold, "exhausted")
        kept = self.bounds.rollout(len(gold)) + self.bounds.variation(len(gold)) if has_oracle else 0
        budget = min(self.left() - kept, self.config.policy_calls - self.calls())
        if self.rounds < self.config.max_rounds and (selected := self.select(budget)):
            await self.simulate(selected)
            return None
        return await self.try_gold(gold, "budget" if self.tree.select(self.config.exploration) else "exhausted")

    async def try_gold(self, gold: Plan, why: StopReason) -> StopReason | None:
        """Roll the gold decomposition out, or what its last rollout got wrong anew; `why` the search ends without."""
        if self.oracle is None and self.left() >= self.bounds.rollout(len(gold)):
            self.add_oracle()
        oracle = self.oracle or (self.tree.find(gold) if len(gold) else None)
        if oracle is None or oracle.repeats >= min(self.config.oracle_rollouts, self.config.max_leaf_rollouts):
            return why
        if self.is_out_of_patience():
            return "exhausted"
        if self.left() < self.cost_of_repeat(oracle):
            return "budget"
        contrasts, is_sampled = self.contrasts(), self.config.errors == "sampled"
        repeat = contrasts.mend if oracle.own_rollouts and not is_sampled else contrasts.repeat
        again = repeat(oracle, oracle.repeats)
        if again is None:
            return why
        await self.roll_out_all([(oracle, again)])
        return None

    async def look_for_contrasts(self) -> StopReason | None:
        """A round when a leaf plan has succeeded: the cheapest that may bring what is missing."""
        missing = self.missing()
        if not missing:
            return "satisfied"
        if self.rounds >= self.config.max_rounds:
            return "budget"
        if self.is_out_of_patience():
            return "exhausted"
        if self.config.errors == "sampled":
            if selected := self.select(self.left()):
                await self.simulate(selected)
                return None
            return self.why_it_ends()
        if targets := self.plans_to_mend():
            self.rounds += 1
            await self.roll_out_all(targets)
            return None
        if self.config.oracle == "first" and self.oracle and self.progress and not self.rows["correct"]:
            return "exhausted"
        missing.sort(key=lambda kind: self.tries[kind])
        for kind in missing:
            if self.tries[kind] < self.config.tries and await self.try_for(kind):
                self.tries[kind] += 1
                return None
        return self.why_it_ends()

    def why_it_ends(self) -> StopReason:
        """Where there was nothing to be tried: was it for want of calls?"""
        longest = max(len(node.plan) for node in self.tree.nodes)
        return "budget" if self.left() < self.bounds.variation(longest) else "exhausted"

    async def try_for(self, kind: ErrorType | Literal["correct"]) -> bool:
        """A round for one kind of row: another plan, or a right rollout with one query reworded or one answer drawn
        again. False when there is none left to try."""
        if kind in ("correct", "decomposition"):
            if selected := self.select(self.left(), only_splits=True):
                await self.simulate(selected)
            return bool(selected)
        room = [node for node in self.leaf_plans() if self.may_be_varied(node)]
        target = self.contrasts().break_right(room, "query" if kind == "retrieval" else "answer")
        if target is not None:
            self.rounds += 1
            await self.roll_out_all([target])
        return target is not None

    def plans_to_mend(self) -> list[_Target]:
        """Leaf plans that failed and were not tried often enough: what mends one is a pair, what does not blames it.
        While there is no correct row, those that came through on an answer that cannot stand go before."""
        contrasts, budget = self.contrasts(), self.left()
        plans = [node for node in self.leaf_plans() if self.may_be_varied(node) and node.own_rollouts > 0]
        failed = [node for node in plans if node.value == 0 and node.repeats < self.config.plan_tries]
        faulty = [node for node in plans if not self.rows["correct"] and contrasts.is_faulty(node)]
        targets: list[_Target] = []
        for node in (*faulty, *failed):
            variation = contrasts.mend(node, node.repeats)
            cost = self.bounds.variation(len(node.plan))
            if variation is not None and cost <= budget and len(targets) < self.parallel:
                targets.append((node, variation))
                budget -= cost
        return targets

    def may_be_varied(self, node: TreeNode) -> bool:
        return not node.closed and self.left() >= self.bounds.variation(len(node.plan))

    def missing(self) -> list[ErrorType | Literal["correct"]]:
        """Kinds of rows that the tree does not give yet."""
        if self.progress is not None and self.rows_at != len(self.rollouts):
            rows = self.progress(self.record("budget"))
            if rows.total() > self.rows.total() or self.rows_at < 0:
                self.grown_at = self.calls()
            self.rows, self.rows_at = rows, len(self.rollouts)
        kinds: tuple[ErrorType | Literal["correct"], ...] = ("reasoning", "retrieval", "decomposition", "correct")
        return [kind for kind in kinds if self.rows[kind] < getattr(self.config.wanted, kind)]

    def is_out_of_patience(self) -> bool:
        return self.calls() - self.grown_at >= self.config.patience

    def left(self) -> int:
        """Calls that the search may still make."""
        return self.config.max_calls - self.calls()

    def contrasts(self) -> Contrasts:
        config = self.config
        return Contrasts(
            self.rollouts,
            self.find_fault,
            config.step_tries,
            errors=config.errors,
            agreeing_draws=config.agreeing_draws,
            same_answer=self.same_answer,
        )

    def cost_of_repeat(self, node: TreeNode) -> int:
        steps = len(node.plan)
        return self.bounds.variation(steps) if node.own_rollouts else self.bounds.rollout(steps)

    def select(self, budget: int, *, only_splits: bool = False) -> list[TreeNode]:
        """Up to `parallel` leaves that the budget allows, told apart by virtual loss."""
        chosen: list[TreeNode] = []
        while len(chosen) < self.parallel:
            node = self.tree.select(self.config.exploration, only_splits=only_splits)
            if node is None:
                break
            if node.is_leaf_plan:
                budget -= self.cost_of_repeat(node)
            else:
                shares = shared_width(self.config.width, node.decomposable)
                budget -= len(shares) * self.bounds.split + self.bounds.judge + self.bounds.rollout(len(node.plan) + 1)
            is_begun = node.is_leaf_plan and node.repeats + node.pending >= self.config.max_leaf_rollouts
            if budget < 0 or is_begun:
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
        proposals = await asyncio.gather(*(self.expansion.propose(node) for node in selected))
        budget = self.left() - self.bounds.judge
        budget -= sum(self.cost_of_repeat(node) for node in selected if node.is_leaf_plan)
        targets, undecided = list[TreeNode](), []
        for node, proposed in zip(selected, proposals, strict=True):
            self.tree.mark_pending(node, -1)
            node.expanding = False
            growth = self.expansion.expand(node, proposed, budget)
            budget -= sum(self.bounds.rollout(len(child.plan)) for child, _ in growth.undecided)
            targets += [self.instead_of(node) if target is node else target for target in growth.targets]
            undecided += growth.undecided
        await self.roll_out_all(self.repeats_of(targets), self.expansion.judge_halves(undecided))

    def instead_of(self, node: TreeNode) -> TreeNode:
        """The gold decomposition for the root, which is its own leaf plan where the policy cannot split it."""
        return (self.oracle or self.add_oracle() or node) if node.parent is None else node

    def repeats_of(self, nodes: Sequence[TreeNode]) -> list[_Target]:
        """The next rollout of each plan; one that would bring nothing new is closed."""
        contrasts, begun = self.contrasts(), Counter[int]()
        targets: list[_Target] = []
        for node in nodes:
            if (again := contrasts.repeat(node, node.repeats + begun[node.id])) is None:
                self.tree.close(node)
            else:
                targets.append((node, again))
                begun[node.id] += 1
        return targets

    async def roll_out_all(self, targets: list[_Target], *judgements: Awaitable[None]) -> None:
        """Roll out all targets at once, while the judgements are awaited; number and back up in their order."""
        rollouts = asyncio.gather(*(self.roll_out(node.plan, variation) for node, variation in targets))
        simulations, _ = await asyncio.gather(rollouts, asyncio.gather(*judgements))
        for (node, variation), simulation in zip(targets, simulations, strict=True):
            if simulation is None:
                node.cut_rollouts += 1
            else:
                self.keep(node, simulation, variation.base)
            if node.is_leaf_plan and node.repeats >= self.config.max_leaf_rollouts:
                self.tree.close(node)

    def keep(self, node: TreeNode, simulation: Simulation, base: Rollout | None) -> None:
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
                base=base.index if base else None,
                judge_score=simulation.judge_score,
            )
        )
        self.tree.backpropagate(node, simulation.reward)

    def leaf_plans(self) -> list[TreeNode]:
        return [node for node in self.tree.nodes if node.is_leaf_plan]

    def has_correct_rollout(self) -> bool:
        """Has a leaf plan succeeded?"""
        leaves = {node.id for node in self.leaf_plans()}
        return any(r.reward > 0 and r.node in leaves for r in self.rollouts)

    def add_oracle(self) -> TreeNode | None:
        """The gold decomposition as a child of the root; None when there is none, or it is there already."""
        plan = gold_plan(self.question.decomposition)
        if self.config.oracle == "never" or plan_problem(plan) is not None or not self.tree.reserve(plan):
            return None
        self.oracle = self.tree.add_child(self.tree.root, plan, (False,) * len(plan), "oracle")
        self.grown_at = self.calls()
        return self.oracle

    def record(self, stop: StopReason) -> SearchTree:
        return SearchTree(
            question_id=self.question.id,
            question=self.question.question,
            answer=self.question.answer,
            answer_aliases=self.question.answer_aliases,
            nodes=self.tree.records(),
            rollouts=tuple(self.rollouts),
            stop_reason=stop,
            oracle_used=self.oracle is not None,
            dropped_splits=self.expansion.dropped_splits,
            rounds=self.rounds,
            max_depth=self.tree.max_depth,
            calls=0,
            prompt_tokens=0,
            completion_tokens=0,
            cost=0.0,
        )
