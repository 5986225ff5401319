"""Make the fields anew that follow from what a person fixed in a bundle's question, and check that its evidence
supports it.
"""

from __future__ import annotations

from dataclasses import replace

from trailforge.filters import bundles
from trailforge.filters.answers import speaks_of_fact
from trailforge.generators.document_bundles import EARLIER_REASONS
from trailforge.generators.fixes import check_verdicts, remeasure
from trailforge.rewards import mentions, normalize_answer
from trailforge.schemas import BundleQuestion, InvalidInput

_JOINED = "; "
"""Between the texts of the correct options."""
_LONG = 4
"""Letters of a word that says something; shorter ones join others."""
_LEAST_SUPPORT = 0.5
"""Share of such words in an answer in own words that its evidence has."""
_MEASURED_ON_OTHERS = frozenset(
    (
        *("poor_question", "unasked_question", "half_answers", "not_answerable", "fewer_documents_suffice"),
        *("closed_book", "sibling_answer", "duplicate_question", "contaminated"),
    )
)
"""Of a bundle's question: by a model, or against other questions."""


def refit(row: BundleQuestion, old: BundleQuestion) -> BundleQuestion:
    """Return the fixed row with the answer that its options say, and the scores of the filters that ask no model. `old`
    is the row before the fix.
    """
    if row.options:
        row = _with_chosen(row, old)
    if row.answer != old.answer:  # what was said in other words was the old answer
        row = replace(
            row, aliases=(), key_facts=tuple(fact for fact in row.key_facts if speaks_of_fact(row.answer, fact))
        )
    verdicts = [bundles.bad_options(row), bundles.answer_given_away(row)]
    check_verdicts(*verdicts)
    new = _chosen(row) - _chosen(old) if row.options else {row.answer} - {old.answer}
    for answer in sorted(new):
        if not _is_supported(answer, row):
            raise InvalidInput(
                f"no evidence of the question says {answer!r}; give an answer that its documents state", field="answer"
            )
    verdicts.append(bundles.no_key_facts(row))
    return replace(row, filters=remeasure(row.filters, verdicts, _MEASURED_ON_OTHERS, EARLIER_REASONS))


def _with_chosen(row: BundleQuestion, old: BundleQuestion) -> BundleQuestion:
    """The answer of a question with options is what the correct ones say."""
    letters = [chr(ord("A") + number) for number in range(len(row.options))]
    texts = dict(zip(letters, row.options, strict=True))
    answer = _JOINED.join(texts.get(letter, "") for letter in row.correct_options)
    if row.answer not in (old.answer, answer):
        raise InvalidInput(f"the correct options say {answer!r}; fix options or correct_options", field="answer")
    if (row.options, row.correct_options) == (old.options, old.correct_options):
        return row
    return replace(row, answer=answer)


def _chosen(row: BundleQuestion) -> set[str]:
    """Texts of the correct options."""
    return {text for number, text in enumerate(row.options) if chr(ord("A") + number) in row.correct_options}


def _is_supported(answer: str, row: BundleQuestion) -> bool:
    """Does the evidence say it? A fact word for word; what is said in own words by half of these at least."""
    texts = [hop.evidence for hop in row.hops]
    if any(mentions(text, answer) for text in texts):
        return True
    words = {word for word in normalize_answer(answer).split() if len(word) >= _LONG or word.isdecimal()}
    if row.type == "factual" or not words:
        return False
    return sum(any(mentions(text, word) for text in texts) for word in words) / len(words) >= _LEAST_SUPPORT
