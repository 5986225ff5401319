"""Verification of a run of questions made of a graph: rows from their paths, and every filter that asks no model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from filters.kg_questions import (
    answer_in_question,
    bridge_named,
    malformed,
    not_unique,
    shortcut,
    start_missing,
    ungrounded_name,
)
from generators.kg_questions import made_of
from pipelines.intake import INPUTS
from pipelines.kg_config import KgQuestionRunConfig
from pipelines.kg_questions import FILTER, WRITE
from pipelines.row_checks import RowChecks
from pipelines.stages import kg_selection as selection
from schemas import FactChain, KgQuestion

_FILTERS = (malformed, not_unique, shortcut, answer_in_question, bridge_named, start_missing, ungrounded_name)


class KgQuestionRowChecks(RowChecks):
    """Questions against their paths and their filters, the selection against the candidates.

    Memory holds the questions.
    """

    config: KgQuestionRunConfig

    def check(self) -> None:
        """Fill the report."""
        self.accepted.update({"read": 0, FILTER: 0, selection.NAME: 0})
        candidates: list[KgQuestion] = []
        for name in self.names():
            paths = {path.id: path for path in self.rows(INPUTS, name, FactChain)}
            self.accepted["read"] += len(paths)
            for row in self.rows(selection.CANDIDATES, name, KgQuestion):
                self.accepted[FILTER] += 1
                candidates.append(row)
                for problem in self._problems(row, paths):
                    self.problem(name, row.uid, problem)
            self.count_rejected(name)
        failed = sum(c.count for line in self.manifest.stages if line.name == WRITE for c in line.failed)
        self.accepted[WRITE] = self.accepted["read"] - failed
        self._check_selection(candidates)
        self.check_books()

    def _problems(self, row: KgQuestion, paths: Mapping[str, FactChain]) -> Iterator[str]:
        if paths.get(row.chain.id) != row.chain:
            yield f"its facts are not those of path {row.chain.id}"
            return
        different = next((name for name, value in made_of(row).items() if getattr(row, name) != value), None)
        if different:
            yield f"{different} is not what follows from its facts"
            return
        for each in _FILTERS:
            verdict = each.check(row)
            if not verdict.keep:
                yield f"filter {verdict.reason} rejects it: {verdict.detail}"
        failed = [score.name for score in row.filters if not score.passed]
        if failed:
            yield f"its row says that {failed[0]} rejects it"

    def _check_selection(self, candidates: list[KgQuestion]) -> None:
        """The selected questions are the candidates that ask what none before them asks."""
        found = [row for name in self.names() for row in self.rows(selection.TABLE, name, KgQuestion)]
        self.accepted[selection.NAME] = len(found)
        expected, _ = selection.sift(candidates)
        by_uid = {row.uid: row for row in expected}
        for row in found:
            if by_uid.get(row.uid) != row:
                self.problem(selection.TABLE, row.uid, "it is not what the filters left in `candidates/`")
        if len(found) == len(expected) and [row.uid for row in found] != [row.uid for row in expected]:
            self.problem(selection.TABLE, "order", "the rows are not in the order of their paths")
        path = self.folder / selection.JSONL
        lines = path.read_text(encoding="utf-8") if path.exists() else ""
        if lines != "".join(map(selection.line_of, found)):
            self.problem(selection.JSONL, "rows", "they are not those of `kg_questions/`")
