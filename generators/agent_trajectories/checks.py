"""Verification of a run of agent trajectories: fields, filters, choice, pairs and SFT rows again, from the rows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from trailforge.generators.agent_trajectories import DRAW, EPISODE, FILTER, NAME
from trailforge.generators.agent_trajectories.choice import Rejected, preference_pairs, select
from trailforge.generators.agent_trajectories.config import AgentRunConfig
from trailforge.generators.agent_trajectories.evidence import facts_to_read
from trailforge.generators.agent_trajectories.filters import KNOWN, known_from_memory
from trailforge.generators.agent_trajectories.record import AgentPair, AgentTrajectory, FromMemory
from trailforge.generators.agent_trajectories.rows import made_of, searches_match, sft_rows, with_shares
from trailforge.pipelines.runs.intake import INPUTS
from trailforge.pipelines.runs.verify import RowChecks
from trailforge.schemas import InvalidInput, Question, RejectedRow, SftRow, Verdict, from_dict


class AgentRowChecks(RowChecks):
    """Episodes against their questions, conversations and filters; SFT rows and pairs against the episodes."""

    config: AgentRunConfig

    def check(self) -> None:
        """Fill the report."""
        self.accepted.update({"read": 0, DRAW: 0, EPISODE: 0, FILTER: 0})
        for name in self.names():
            questions = {q.id: q for q in self.rows(INPUTS, name, Question)}
            self.accepted["read"] += len(questions)
            self._check_file(name, questions)
            self.count_rejected(name)
        failed = sum(c.count for line in self.manifest.stages if line.name == DRAW for c in line.failed)
        self.accepted[DRAW] += self.accepted["read"] - failed
        self.check_books()

    def _check_file(self, name: str, questions: Mapping[str, Question]) -> None:
        taken: dict[str, list[AgentTrajectory]] = defaultdict(list)
        for row in self.rows(NAME, name, AgentTrajectory):
            taken[row.question_id].append(row)
            self.accepted[FILTER] += 1
        known = self._check_known(name, questions)
        self.accepted[DRAW] -= len(known)
        rejected = self._rejected_draws(name)
        for question_id in known & {*taken, *rejected}:
            self.problem(name, question_id, "episodes were drawn on it, though the model knows it")
        for row in (*(r for rows in taken.values() for r in rows), *(r for rows in rejected.values() for r, _ in rows)):
            self.accepted[EPISODE] += 1
            for problem in self._problems(row, questions.get(row.question_id)):
                self.problem(name, row.uid, problem)
        for row in (row for rows in taken.values() for row in rows):
            if not searches_match(row):
                self.problem(name, row.uid, "its searches and answer are not those of its conversation")
            asked = facts_to_read(row) if self.config.generator.answer_check != "off" else ()
            if [each.question for each in row.readings] != [fact.question for fact in asked]:
                self.problem(name, row.uid, "what its answer rests on was not read once more, or something else was")
        self._check_choice(name, taken, rejected)
        self._check_sft(name)

    def _problems(self, row: AgentTrajectory, question: Question | None) -> Iterator[str]:
        if question is None:
            yield f"its question {row.question_id!r} is not among the inputs"
            return
        different = next((field for field, value in made_of(row, question).items() if getattr(row, field) != value), "")
        if different:
            yield f"{different} is not what follows from its question and transcript"
        generator = self.config.generator
        of_run = generator.agent_config, generator.sft_protocol, generator.sft_calls
        if (row.agent_config, row.sft_protocol, row.sft_calls) != of_run:
            yield "it is of another agent than the run's"

    def _check_sft(self, name: str) -> None:
        standing = self.standing(NAME, name, AgentTrajectory)
        made = (made for row in standing for made in sft_rows(row, data_source=NAME))
        differs, missing = "this SFT row is not what its episode gives", "this SFT row of an episode is missing"
        self.check_made("sft", name, made, SftRow, differs, missing)

    def _check_known(self, name: str, questions: Mapping[str, Question]) -> set[str]:
        """The questions that were left out as known."""
        known: set[str] = set()
        for row in self.rows("rejected", name, RejectedRow):
            if row.stage != DRAW or row.reason != KNOWN:
                continue
            known.add(row.uid)
            try:
                memory = from_dict(FromMemory, json.loads(row.payload))
            except (ValueError, TypeError, InvalidInput) as error:
                self.problem(name, row.uid, f"this rejected row holds no answers from memory ({error})")
                continue
            question = questions.get(row.uid)
            if question is None or (memory.question, memory.golds) != (question.question, question.golds):
                self.problem(name, row.uid, "these answers from memory are to another question")
            verdict = known_from_memory(memory, most=self.config.filters.max_known_share)
            told = Verdict(keep=False, reason=row.reason, score=row.score, detail=row.detail)
            if memory.draws != self.config.generator.memory.draws or verdict != told:
                self.problem(name, row.uid, "it was left out for another reason than what the model knows")
        return known

    def _rejected_draws(self, name: str) -> dict[str, list[Rejected]]:
        """The rejected draws of a file by question, each with what is against it."""
        found: dict[str, list[Rejected]] = defaultdict(list)
        for draw, verdict in self.rejected_episodes(name, FILTER, AgentTrajectory):
            found[draw.question_id].append((draw, verdict))
        return found

    def _check_choice(
        self,
        name: str,
        taken: Mapping[str, Sequence[AgentTrajectory]],
        rejected: Mapping[str, Sequence[Rejected]],
    ) -> None:
        """Of each question's draws the right ones were taken, for the shares that they have, and paired."""
        pairs: list[AgentPair] = []
        for question_id in dict.fromkeys((*taken, *rejected)):
            good, bad = taken.get(question_id, ()), rejected.get(question_id, ())
            drawn = sorted((*good, *(row for row, _ in bad)), key=lambda row: row.sample)
            if with_shares(drawn) != drawn:
                self.problem(name, question_id, "the share of its draws that are right is another one")
            if {row.memory_draws for row in drawn} != {self.config.generator.memory.draws}:
                self.problem(name, question_id, "it was asked from memory another number of times")
            if len({row.memory_answers for row in drawn}) > 1:
                self.problem(name, question_id, "its draws tell different answers from memory")
            if select(drawn, self.config.filters) != (list(good), list(bad)):
                self.problem(name, question_id, "the filters choose others of its draws, or for other reasons")
            pairs += preference_pairs(good, bad, self.config.generator.max_pairs)
        differs, missing = "this pair is not what its episodes give", "this pair of episodes is missing"
        self.check_made("pairs", name, pairs, AgentPair, differs, missing)
