"""Verify a run of questions made from a graph: make the rows from their paths again, and apply again every filter that
needs no model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from trailforge.filters.kg import judge_unasked, names_of
from trailforge.generators import select_stage
from trailforge.generators.kg_questions import FILTER, WRITE, selection
from trailforge.generators.kg_questions.config import KgQuestionRunConfig
from trailforge.generators.kg_questions.generate import derive_fields, with_scores
from trailforge.pipelines import INPUTS
from trailforge.pipelines.runs import RowChecks
from trailforge.schemas import FactChain, InvalidInput, KgQuestion, RejectedRow, from_payload


class KgQuestionRowChecks(RowChecks):
    """Compares a run's questions with their paths and filters, and the selected ones with the candidates. Memory holds
    all questions.
    """

    config: KgQuestionRunConfig

    def check(self) -> None:
        """Check the run and add what is found to the report."""
        self.accepted.update({"read": 0, FILTER: 0, select_stage.NAME: 0})
        candidates: list[KgQuestion] = []
        for name in self.names():
            paths = {path.id: path for path in self.rows(INPUTS, name, FactChain)}
            self.accepted["read"] += len(paths)
            for row in self.rows(select_stage.CANDIDATES, name, KgQuestion):
                self.accepted[FILTER] += 1
                candidates.append(row)
                for problem in (*self._problems(row, paths), *_against(row, None)):
                    self.problem(name, row.uid, problem)
            self._check_rejected(name, paths)
            self.count_rejected(name)
        failed = sum(c.count for line in self.manifest.stages if line.name == WRITE for c in line.failed)
        self.accepted[WRITE] = self.accepted["read"] - failed
        self._check_selection(candidates)
        self.check_books()

    def _problems(self, row: KgQuestion, paths: Mapping[str, FactChain]) -> Iterator[str]:
        """What a question says otherwise than its path and its filters, kept or rejected."""
        if paths.get(row.chain.id) != row.chain:
            yield f"its facts are not those of path {row.chain.id}"
            return
        if len(row.decomposition) != len(row.chain.found):
            yield f"{len(row.decomposition)} sub-questions for {len(row.chain.found)} findings"
            return
        made = derive_fields(row) | {"as_of": self.config.as_of, "writer": self.config.writer.kind}
        different = next((name for name, value in made.items() if getattr(row, name) != value), None)
        if different:
            yield f"{different} is not what follows from its facts and the run's configuration"
            return
        verdicts = judge_unasked(row)
        measured = with_scores(row, verdicts, ()).filters
        for score, stored in zip(measured, row.filters, strict=False):
            if score != stored:
                what = "keeps it" if score.passed else f"rejects it: {score.reason}"
                yield f"filter {score.name} {what}, with {score.score:g}; its row says {stored.score:g}"
        names = [score.name for score in measured] + names_of(row, self.config.filters)
        if [score.name for score in row.filters] != names:
            yield "its scores are not those of the filters that it went through"

    def _check_rejected(self, name: str, paths: Mapping[str, FactChain]) -> None:
        """Questions that the filters rejected, in the file of their path."""
        for rejected in self.rows("rejected", name, RejectedRow):
            if rejected.stage != FILTER:
                continue
            try:
                row = from_payload(KgQuestion, json.loads(rejected.payload))
            except (ValueError, TypeError, InvalidInput) as error:
                self.problem(name, rejected.uid, f"this rejected row holds no question ({error})")
                continue
            for problem in (*self._problems(row, paths), *_against(row, rejected.reason)):
                self.problem(name, rejected.uid, f"rejected: {problem}")

    def _check_selection(self, candidates: list[KgQuestion]) -> None:
        """The selected questions are the candidates that ask what none before them asks."""
        found = [row for name in self.names() for row in self.rows(selection.TABLE, name, KgQuestion)]
        self.accepted[select_stage.NAME] = len(found)
        expected, twins = selection.select_distinct(candidates)
        by_uid = {row.uid: row for row in expected}
        for row in found:
            if by_uid.get(row.uid) != row:
                self.problem(selection.TABLE, row.uid, "it is not what the filters left in `candidates/`")
        if len(found) == len(expected) and [row.uid for row in found] != [row.uid for row in expected]:
            self.problem(selection.TABLE, "order", "the rows are not in the order of their paths")
        rejected = self.rows("rejected", f"{select_stage.REJECTED}.parquet", RejectedRow)
        if [(row.uid, row.detail) for row in rejected] != [(row.uid, verdict.detail) for row, verdict in twins]:
            self.problem(select_stage.REJECTED, "duplicates", "they are not those among the candidates")
        path = self.folder / selection.JSONL
        lines = path.read_text(encoding="utf-8") if path.exists() else ""
        standing = (row for name in self.names() for row in self.stored_rows(selection.TABLE, name, KgQuestion))
        if lines != "".join(map(selection.line_of, standing)):
            self.problem(selection.JSONL, "rows", "they are not those of `kg_questions/`")


def _against(row: KgQuestion, reason: str | None) -> Iterator[str]:
    """A problem when what its scores have against a question is not this."""
    found = next((score.name for score in row.filters if not score.passed), None)
    if found != reason:
        yield f"its row says that {found or 'no filter'} rejects it"
