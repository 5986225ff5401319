"""Verification of a run of KG trajectories: fields, filters, selection, pairs and SFT rows again, from the rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from trailforge.filters import first_rejection
from trailforge.generators.kg_trajectories import EPISODE, FILTER, SEARCH
from trailforge.generators.kg_trajectories import NAME as DATASET
from trailforge.generators.kg_trajectories.config import KgRunConfig
from trailforge.generators.kg_trajectories.filters import facts_to_read, judge_kg_episode
from trailforge.generators.kg_trajectories.rows import kg_sft_row, made_of, steps_match
from trailforge.generators.kg_trajectories.selection import contrastive_pairs, select
from trailforge.pipelines.runs.intake import INPUTS
from trailforge.pipelines.runs.verify import RowChecks
from trailforge.schemas import ContrastivePair, KgTrajectory, Question, SftRow, Verdict


class KgRowChecks(RowChecks):
    """Episodes against their questions, conversations and filters; SFT rows and pairs against the episodes."""

    config: KgRunConfig

    def check(self) -> None:
        """Fill the report."""
        self.accepted.update({"read": 0, EPISODE: 0, FILTER: 0})
        for name in self.names():
            questions = {q.id: q for q in self.rows(INPUTS, name, Question)}
            self.accepted["read"] += len(questions)
            self._check_file(name, questions)
            self.count_rejected(name)
        failed = sum(c.count for line in self.manifest.stages if line.name == SEARCH for c in line.failed)
        self.accepted[SEARCH] = self.accepted["read"] - failed
        if all(line.name != EPISODE for line in self.manifest.stages):  # of an earlier version
            del self.accepted[EPISODE]
        self.check_books()

    def _check_file(self, name: str, questions: Mapping[str, Question]) -> None:
        kept: dict[str, list[KgTrajectory]] = defaultdict(list)
        for row in self.rows(DATASET, name, KgTrajectory):
            self.accepted[FILTER] += 1
            self.accepted[EPISODE] += 1
            for problem in self._problems(row, questions.get(row.question_id), kept[row.question_id]):
                self.problem(name, row.uid, problem)
            kept[row.question_id].append(row)
        self._check_sft(name)
        rejected = self._bad_episodes(name)
        for row, _ in (each for rows in rejected.values() for each in rows):
            for problem in self._field_problems(row, questions.get(row.question_id)):
                self.problem(name, row.uid, f"rejected: {problem}")
        self._check_choice(name, kept, rejected)

    def _problems(self, row: KgTrajectory, question: Question | None, before: Sequence[KgTrajectory]) -> Iterator[str]:
        """What is wrong with a selected row."""
        yield from self._field_problems(row, question)
        verdict = first_rejection(judge_kg_episode(row, before, self.config.selection.filters))
        if verdict is not None:
            yield f"filter {verdict.reason} rejects it: {verdict.detail}"
        elif [each.question for each in row.readings] != self._questions_to_read(row):
            yield "what its answer rests on was not read once more, or something else was"
        elif not steps_match(row, self.config.generator.grammar.opening(row.question)):
            yield "its steps and final answer are not those of its conversation"

    def _questions_to_read(self, row: KgTrajectory) -> list[str]:
        is_read = self.config.generator.answer_check != "off"
        return [fact.question for fact in facts_to_read(row)] if is_read else []

    def _field_problems(self, row: KgTrajectory, question: Question | None) -> Iterator[str]:
        if question is None:
            yield f"its question {row.question_id!r} is not among the inputs"
            return
        made = made_of(row, question, self.config.generator)
        different = next((name for name, value in made.items() if getattr(row, name) != value), None)
        if different:
            yield f"{different} is not what follows from its question and conversation"

    def _check_sft(self, name: str) -> None:
        made = map(kg_sft_row, self.standing(DATASET, name, KgTrajectory))
        differs, missing = "this SFT row is not what its episode gives", "this SFT row of an episode is missing"
        self.check_made("sft", name, made, SftRow, differs, missing)

    def _bad_episodes(self, name: str) -> dict[str, list[tuple[KgTrajectory, Verdict]]]:
        """The rejected episodes of a file by question, each with what is against it."""
        found: dict[str, list[tuple[KgTrajectory, Verdict]]] = defaultdict(list)
        for episode, verdict in self.rejected_episodes(name, FILTER, KgTrajectory):
            found[episode.question_id].append((episode, verdict))
            self.accepted[EPISODE] += 1
        return found

    def _check_choice(
        self,
        name: str,
        kept: Mapping[str, Sequence[KgTrajectory]],
        rejected: Mapping[str, Sequence[tuple[KgTrajectory, Verdict]]],
    ) -> None:
        """Of each question's episodes the right ones were selected, and paired."""
        pairs: list[ContrastivePair] = []
        for question_id in dict.fromkeys((*kept, *rejected)):
            good, bad = kept.get(question_id, ()), rejected.get(question_id, ())
            drawn = sorted((*good, *(row for row, _ in bad)), key=lambda row: row.sample)
            chosen = select(drawn, self.config.selection)
            if (chosen.selected, chosen.rejected) != (tuple(good), tuple(bad)):
                self.problem(name, question_id, "the filters choose others of its episodes, or for other reasons")
            pairs += contrastive_pairs(good, bad, self.config.generator.max_pairs)
        differs, missing = "this pair is not what its episodes give", "this pair of episodes is missing"
        self.check_made("pairs", name, pairs, ContrastivePair, differs, missing)
