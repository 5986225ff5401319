"""Verification of a run of MCTS trajectories: every filter, reward and tree recomputed from the rows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property

from trailforge.filters import first_rejection, judge_trajectory
from trailforge.filters.gold_hops import follows_gold
from trailforge.filters.questions import can_be_asked
from trailforge.filters.thoughts import unfounded_thoughts
from trailforge.generators.mcts_trajectories import NAME as DATASET
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.generate import CAP, over_cap
from trailforge.generators.mcts_trajectories.spans import span_problem
from trailforge.generators.mcts_trajectories.story import mismatch, rereads, sft_row, story_of
from trailforge.generators.mcts_trajectories.thoughts import DOUBTS
from trailforge.pipelines.runs.intake import INPUTS
from trailforge.pipelines.runs.verify import RowChecks
from trailforge.rewards import mcts_reward, score_by_target
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
            self._check_parts(name, row)
            is_judged_right = self.config.generator.judge.accepts(row.judge_score)
            if row.reward != score_by_target(row.final_answer, question.golds, judged_right=is_judged_right):
                self.problem(name, row.uid, "its reward is not that of its final answer")
            if row.follows_gold != follows_gold(row.steps, question):
                self.problem(name, row.uid, "whether it follows the gold decomposition is not what its steps say")
            before.append(row)
        self._check_caps(name, earlier)

    def _check_caps(self, name: str, accepted: Mapping[str, list[Trajectory]]) -> None:
        """A row is turned away for want of room only where there was none.

        Rows that the model doubted afterwards had taken theirs.
        """
        taken = {question: list(rows) for question, rows in accepted.items()}
        capped: list[Trajectory] = []
        for row in self.rows("rejected", name, RejectedRow):
            if row.reason in (CAP, *DOUBTS):
                payload = from_dict(Trajectory, json.loads(row.payload))
                rows = capped if row.reason == CAP else taken.setdefault(payload.question_id, [])
                rows.append(payload)
        for row in capped:
            if over_cap(row, taken.get(row.question_id, ()), self.config.generator.reflection).keep:
                self.problem(name, row.uid, "rejected for want of room, but its question has room for its kind")

    def _check_parts(self, name: str, row: Trajectory) -> None:
        """Spans, and whether a mistake is mended as the configuration says."""
        if not row.spans and self._is_without_spans:
            return
        if problem := span_problem(row):
            self.problem(name, row.uid, f"its spans are not those of its conversation: {problem}")
        if row.thoughts == "model":
            verdict = unfounded_thoughts(row, max_words=self.config.generator.thoughts.max_words)
            if not verdict.keep:
                self.problem(name, row.uid, f"filter {verdict.reason} rejects its thoughts: {verdict.detail}")
        story = story_of(row, self.config.generator.reasoning_rows)
        if rereads(row) != any(map(story.rereads, range(len(row.steps)))):
            self.problem(name, row.uid, "it does not search, or read again, as `generator.reasoning_rows` says")

    @cached_property
    def _is_without_spans(self) -> bool:
        """Trajectories of schema version 1.0 had none."""
        versions = {each.table: each.version for each in self.manifest.schema_versions}
        return versions.get(DATASET) == "1.0"

    def _check_trees(self, name: str, questions: Mapping[str, Question]) -> None:
        for tree in self.rows("trees", name, SearchTree):
            self.accepted["search"] += 1
            if tree.question_id in questions:
                own = self.config.retrieval.searches_paragraphs
                verdict = can_be_asked(questions[tree.question_id], own_paragraphs=own)
                if not verdict.keep:
                    self.problem(name, tree.question_id, f"filter {verdict.reason} sets it aside: {verdict.detail}")
            golds = questions[tree.question_id].golds if tree.question_id in questions else ()
            for rollout in tree.rollouts:
                is_judged_right = self.config.generator.judge.accepts(rollout.judge_score)
                if rollout.reward != max(mcts_reward(rollout.answer, golds), float(is_judged_right)):
                    self.problem(name, tree.question_id, f"reward of rollout {rollout.index} differs")
            for problem in tree_problems(tree):
                self.problem(name, tree.question_id, problem)

    def _check_sft(self, name: str) -> None:
        made = map(sft_row, self.standing(DATASET, name, Trajectory))
        differs, missing = "this SFT row is not what its trajectory gives", "this SFT row of a trajectory is missing"
        self.check_made("sft", name, made, SftRow, differs, missing)


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
