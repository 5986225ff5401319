"""Update the fields that follow from what a person fixed in a question made of facts."""

from __future__ import annotations

from dataclasses import replace

from trailforge.filters.kg import ASKED, judge_unasked
from trailforge.generators.fixes import check_aliases, check_verdicts, remeasure
from trailforge.generators.kg_questions import EARLIER_REASONS
from trailforge.schemas import InvalidInput, KgQuestion


def refit(row: KgQuestion, old: KgQuestion) -> KgQuestion:
    """Return the fixed row with new scores of the filters that need no model. `old` is the row before the fix."""
    check_aliases(row.answer_aliases)
    if [replace(hop, question="") for hop in row.decomposition] != [
        replace(hop, question="") for hop in old.decomposition
    ]:
        raise InvalidInput("of sub-questions only the wording can be fixed: all else follows from the facts")
    verdicts = judge_unasked(row)
    check_verdicts(*verdicts)
    is_asked_anew = (row.question, row.answer_aliases) != (old.question, old.answer_aliases)
    dropped = ASKED if is_asked_anew else frozenset[str]()
    return replace(row, filters=remeasure(row.filters, verdicts, dropped, EARLIER_REASONS))
