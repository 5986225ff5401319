"""Verification: sums again, conversations again."""

from __future__ import annotations

from toy_sums.rows import Sum
from toy_sums.work import added, rows_for_sft
from trailforge.pipelines.runs import RowChecks
from trailforge.schemas import Question, SftRow, Verdict


class SumChecks(RowChecks):
    """Each row from its question."""

    def check(self) -> None:
        """Fill the report."""
        questions: dict[str, Question] = {}
        self.accepted.update(read=0, add=0, sign=0)
        for name in self.names():
            found = {row.id: row for row in self.rows("inputs", name, Question)}
            questions |= found
            self.accepted["read"] += len(found)
            self.accepted["add"] += sum(1 for _ in self.rows("drafts", name, Sum))
            self.count_rejected(name)
        for name in self.names():
            for row in self.rows("sums", name, Sum):
                self.accepted["sign"] += 1
                draft = added(questions[row.question_id], self.config)
                if isinstance(draft, Verdict) or draft.answer != row.answer:
                    self.problem(name, row.uid, "its answer is no sum")
            standing = {row.uid: row for row in self.stored_rows("sums", name, Sum)}
            for row in self.rows("sft", name, SftRow):
                if row not in rows_for_sft(standing[row.trajectory_uid], self.config):
                    self.problem(name, row.uid, "this SFT row is not what its sum gives")
        self.check_books()
