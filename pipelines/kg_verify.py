"""Verification of a run of KG trajectories: filters, rewards and SFT rows again, from the rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from filters import first_rejection
from filters.kg import judge_kg_episode
from generators.kg_trajectories import reward_of
from generators.textualize import kg_sft_row
from pipelines.intake import INPUTS
from pipelines.kg_config import KgRunConfig
from pipelines.kg_trajectories import DATASET, FILTER, SEARCH
from pipelines.row_checks import RowChecks
from schemas import ContrastivePair, KgTrajectory, Question, SftRow


class KgRowChecks(RowChecks):
    """Episodes against their filters and rewards, SFT rows and pairs against the episodes."""

    config: KgRunConfig

    def check(self) -> None:
        """Fill the report."""
        self.accepted.update({"read": 0, FILTER: 0})
        for name in self.names():
            questions = {q.id: q for q in self.rows(INPUTS, name, Question)}
            self.accepted["read"] += len(questions)
            self._check_episodes(name, questions)
            self.count_rejected(name)
        failed = sum(c.count for line in self.manifest.stages if line.name == SEARCH for c in line.failed)
        self.accepted[SEARCH] = self.accepted["read"] - failed
        self.check_books()

    def _check_episodes(self, name: str, questions: Mapping[str, Question]) -> None:
        earlier: dict[str, list[KgTrajectory]] = defaultdict(list)
        expected: dict[str, SftRow] = {}
        for row in self.rows(DATASET, name, KgTrajectory):
            self.accepted[FILTER] += 1
            expected[row.uid] = kg_sft_row(row)
            if row.question_id not in questions:
                self.problem(name, row.uid, f"its question {row.question_id!r} is not among the inputs")
            before = earlier[row.question_id]
            verdict = first_rejection(judge_kg_episode(row, before, self.config.selection.filters))
            if verdict is not None:
                self.problem(name, row.uid, f"filter {verdict.reason} rejects it: {verdict.detail}")
            if row.reward != reward_of(row, self.config.generator.constants):
                self.problem(name, row.uid, "its reward is not that of its conversation")
            before.append(row)
        for pair in self.rows("pairs", name, ContrastivePair):
            if pair.good_uid not in expected:
                self.problem(name, pair.uid, f"its good episode {pair.good_uid} is not there")
        for row in self.rows("sft", name, SftRow):
            if row != expected.pop(row.uid, None):
                self.problem(name, row.uid, "this SFT row is not what its episode gives")
        for uid in expected:
            self.problem(name, uid, "this SFT row of an episode is missing")
