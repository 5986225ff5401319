"""Verdicts from a model that was asked once more whether what was read states the facts behind an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trailforge.filters.base import count_faults
from trailforge.filters.facts import SoughtFact
from trailforge.rewards import is_never_quoted, mentions, same_answer
from trailforge.schemas import FactReading, Verdict


def count_unstated(readings: Sequence[FactReading], facts: Sequence[SoughtFact]) -> Verdict:
    """Reject as `unstated_answer` when a model that was asked for a fact did not find it.

    Score: how many facts it did not find. A fact for which it found something else rejects, too.
    """
    names = {fact.question: fact.names for fact in facts}
    unstated = [each for each in readings if not _is_found(each.answer, names.get(each.question))]

    def describe(reading: FactReading) -> str:
        found = f"answered {reading.answer!r}" if reading.answer else "not stated"
        return f"{reading.question!r} is {found} by what it read"

    return count_faults("unstated_answer", unstated, describe)


def count_rivals(readings: Sequence[FactReading], facts: Sequence[SoughtFact]) -> Verdict:
    """Reject as `other_answers` when a model that was asked for a fact found another answer, too.

    Score: how many such facts there are. Nothing tells which of them to choose: one of two wives, one of three who took
    part.
    """
    names = {fact.question: fact.names for fact in facts}
    several = [each for each in readings if _rivals(each.answer, names.get(each.question))]
    return count_faults("other_answers", several, lambda each: f"{each.question!r} is {each.answer!r} by what it read")


def _is_found(answer: str, names: Sequence[str] | None) -> bool:
    """Does a reading give the answer that goes by these names, more or less of it, or nearly? Of several values one."""
    if not answer or names is None:
        return bool(answer)
    return any(_is_called(part, names) for part in _parts(answer))


def _rivals(answer: str, names: Sequence[str] | None) -> list[str]:
    """What a reading gives beside the answer that goes by these names; nothing where it does not give that."""
    if names is None or not _is_found(answer, names):
        return []
    return [part for part in _parts(answer) if not _is_called(part, names)]


def _parts(answer: str) -> list[str]:
    return [part for part in map(str.strip, answer.split(";")) if part]


def _is_called(part: str, names: Sequence[str]) -> bool:
    return any(same_answer(part, name) or _is_nearly(part, name) for name in names)


def _is_nearly(read: str, name: str) -> bool:
    """Part of each other, or most words in common: "Anna Amalie of Baden", but not another Henry or another day."""
    if is_never_quoted(name):
        return False
    one, other = ({*re.findall(r"\w+", text.casefold())} for text in (read, name))
    return mentions(read, name) or mentions(name, read) or 2 * len(one & other) > len(one | other)
