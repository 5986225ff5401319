"""Verification of a run of MCTS trajectories: every filter, reward and tree recomputed from the rows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping

from trailforge.filters import first_rejection, judge_trajectory
from trailforge.filters.gold_hops import follows_gold
from trailforge.generators.mcts_trajectories import NAME as DATASET
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.sift import CAP, over_cap
from trailforge.generators.mcts_trajectories.story import mismatch, sft_row
from trailforge.pipelines.runs.intake import INPUTS
from trailforge.pipelines.runs.verify import RowChecks
from trailforge.rewards import mcts_reward, score_answer
from trailforge.schemas import Question, RejectedRow, SearchTree, SftRow, Trajectory, from_dict


class MctsRowChecks(RowChecks):
    """Trajectories against their filters and rewards, trees against their rollouts, SFT rows against both."""

    config: MctsRunConfig

    def check(self) -> None:
        """Fill the report."""
        self.accepted.update(read=0, search=0, filter=0)
        for name in self.names():
            questions = {q.id: q for q in self.rows(INPUTS, name, Question)}
            self.accepted["read"] += len(questions)
            self._check_trajectories(name, questions)
            self._check_trees(name, questions)
            self._check_sft(name)
            self.count_rejected(name)
        self.check_books()

    def _check_trajectories(self, name: str, questions: Mapping[str, Question]) -> None:
        earlier: dict[str, list[Trajectory]] = defaultdict(list)
        for row in self.rows(DATASET, name, Trajectory):
            self.accepted["filter"] += 1
            question = questions.get(row.question_id)
            if question is None:
                self.problem(name, row.uid, f"its question {row.question_id!r} is not among the inputs")
                continue
            before = earlier[row.question_id]
            verdicts = judge_trajectory(row, question, before, self.config.filters)
            verdict = first_rejection([*verdicts, over_cap(row, before, self.config.generator.reflection)])
            if verdict is not None:
                self.problem(name, row.uid, f"filter {verdict.reason} rejects it: {verdict.detail}")
            if problem := mismatch(row):
                self.problem(name, row.uid, f"its conversation is not that of its fields: {problem}")
            is_judged_right = self.config.generator.judge.accepts(row.judge_score)
            if row.reward != score_answer(row.final_answer, question.golds, judged_right=is_judged_right):
                self.problem(name, row.uid, "its reward is not that of its final answer")
            if row.follows_gold != follows_gold(row.steps, question):
                self.problem(name, row.uid, "whether it follows the gold decomposition is not what its steps say")
            before.append(row)
        self._check_caps(name, earlier)

    def _check_caps(self, name: str, accepted: Mapping[str, list[Trajectory]]) -> None:
        """A row is turned away for want of room only where there is none."""
        for row in self.rows("rejected", name, RejectedRow):
            if row.reason == CAP:
                payload = from_dict(Trajectory, json.loads(row.payload))
                if over_cap(payload, accepted.get(payload.question_id, ()), self.config.generator.reflection).keep:
                    self.problem(name, row.uid, "rejected for want of room, but its question has room for its kind")

    def _check_trees(self, name: str, questions: Mapping[str, Question]) -> None:
        for tree in self.rows("trees", name, SearchTree):
            self.accepted["search"] += 1
            golds = questions[tree.question_id].golds if tree.question_id in questions else ()
            for rollout in tree.rollouts:
                is_judged_right = self.config.generator.judge.accepts(rollout.judge_score)
                if rollout.reward != max(mcts_reward(rollout.answer, golds), float(is_judged_right)):
                    self.problem(name, tree.question_id, f"reward of rollout {rollout.index} differs")
            for problem in tree_problems(tree):
                self.problem(name, tree.question_id, problem)

    def _check_sft(self, name: str) -> None:
        expected = {row.uid: sft_row(row) for row in self.standing(DATASET, name, Trajectory)}
        for row in self.rows("sft", name, SftRow):
            if row != expected.pop(row.uid, None):
                self.problem(name, row.uid, "this SFT row is not what its trajectory gives")
        for uid in expected:
            self.problem(name, uid, "this SFT row of a trajectory is missing")


def tree_problems(tree: SearchTree) -> list[str]:
    """Visits that do not add up, values that are not the mean of their rollouts."""
    problems = []
    rewards: dict[int, list[float]] = defaultdict(list)
    for rollout in tree.rollouts:
        at: int | None = rollout.node
        while at is not None:
            rewards[at].append(rollout.reward)
            at = tree.nodes[at].parent
    for node in tree.nodes:
        below = rewards[node.id]
        mean = sum(below) / len(below) if below else 0.0
        if node.visits != len(below) or abs(node.value - mean) > 1e-9:
            problems.append(
                f"node {node.id}: {node.visits} visits of value {node.value}, its rollouts say {len(below)}, {mean}"
            )
    return problems
