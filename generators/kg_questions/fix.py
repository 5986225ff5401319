"""What follows from the fields of a question made of facts that a person fixed."""

from __future__ import annotations

from dataclasses import replace

from trailforge.filters import kg_questions
from trailforge.generators.fixes import check_aliases, check_verdicts, measured
from trailforge.schemas import InvalidInput, KgQuestion


def refit(row: KgQuestion, old: KgQuestion) -> KgQuestion:
    """The row with the scores of the filters that ask no model."""
    check_aliases(row.answer_aliases)
    if [replace(hop, question="") for hop in row.decomposition] != [
        replace(hop, question="") for hop in old.decomposition
    ]:
        raise InvalidInput("of sub-questions only the wording can be fixed: all else follows from the facts")
    verdicts = [
        kg_questions.malformed.check(row),
        kg_questions.not_unique.check(row),
        kg_questions.shortcut.check(row),
        kg_questions.answer_in_question.check(row),
        kg_questions.bridge_named.check(row),
        kg_questions.start_missing.check(row),
        kg_questions.ungrounded_name.check(row),
    ]
    check_verdicts(*verdicts)
    is_asked_anew = (row.question, row.answer_aliases) != (old.question, old.answer_aliases)
    dropped = {kg_questions.closed_book.REASON} if is_asked_anew else set()
    return replace(row, filters=measured(row.filters, verdicts, dropped))
