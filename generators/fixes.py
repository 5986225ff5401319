"""Steps by which several data sets update a row after a person fixed one of its fields; see `Table.refit`.

A new question, answer or alias is put in every place where the row has it. What was searched for and found stays as it
was. Scores of filters that ask a model, or know the other rows, were measured on the row as it was: those are dropped,
the others measured again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from trailforge.rewards import normalize_answer
from trailforge.schemas import FilterScore, InvalidInput, Verdict


def check_verdicts(*verdicts: Verdict) -> None:
    """Raise `InvalidInput` for the first verdict that rejects the fixed row."""
    for verdict in verdicts:
        if not verdict.keep:
            raise InvalidInput(
                f"filter {verdict.reason} rejects it then: {verdict.detail}; give another value, or reject the row"
            )


def check_aliases(aliases: Iterable[str]) -> None:
    """Raise `InvalidInput` for an alias that consists of articles and punctuation alone."""
    if not all(any(map(str.isalnum, normalize_answer(alias))) for alias in aliases):
        raise InvalidInput("says nothing once articles and punctuation are taken away", field="answer_aliases")


def remeasure(
    scores: Sequence[FilterScore], verdicts: Sequence[Verdict], dropped: AbstractSet[str], earlier: Mapping[str, str]
) -> tuple[FilterScore, ...]:
    """Return the scores of a fixed row that are still valid: those that `verdicts` measures anew replaced, those named
    in `dropped` removed, the others as they are. `earlier` maps the data set's old names of filters to today's, since
    older rows have scores under these.
    """
    anew = {each.reason: FilterScore(name=each.reason, score=each.score, passed=each.keep) for each in verdicts}
    known = [replace(score, name=earlier.get(score.name, score.name)) for score in scores]
    return tuple(anew.get(score.name, score) for score in known if score.name not in dropped)
