"""Verdicts from a model that read a selected episode once more: whether the facts behind its answer are stated, and
what else could be meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from trailforge.filters.base import count_faults
from trailforge.filters.facts import SoughtFact
from trailforge.rewards import is_never_quoted, mentions, same_answer
from trailforge.schemas import FactReading, OpenBranch, Verdict


def count_unstated(readings: Sequence[FactReading], facts: Sequence[SoughtFact]) -> Verdict:
    """Reject as `unstated_answer` when a model that was asked for a fact did not find it in what the episode had read,
    or found something else. `readings` are the model's replies, `facts` what it was asked for, with the right names.

    Score: how many facts it did not find.
    """
    names = {fact.question: fact.names for fact in facts}
    unstated = [each for each in readings if not _is_found(each.answer, names.get(each.question))]

    def describe(reading: FactReading) -> str:
        found = f"answered {reading.answer!r}" if reading.answer else "not stated"
        return f"{reading.question!r} is {found} by what it read"

    return count_faults("unstated_answer", unstated, describe)


def count_rivals(
    readings: Sequence[FactReading], facts: Sequence[SoughtFact], is_ruled_out: Callable[[str], bool]
) -> Verdict:
    """Reject as `other_answers` when a model that was asked for a fact found another answer in addition to the right
    one.

    `readings` are the model's replies, `facts` what it was asked for, with the right names. Nothing tells which answer
    to choose: one of two wives, one of three who took part. `is_ruled_out` tells whether the episode itself says why an
    answer does not fit, which settles it. Score: the number of facts with other answers.
    """
    names = {fact.question: fact.names for fact in facts}
    rivals = ((each, _rivals(each.answer, names.get(each.question))) for each in readings)
    several = [each for each, found in rivals if not all(map(is_ruled_out, found))]
    return count_faults("other_answers", several, lambda each: f"{each.question!r} is {each.answer!r} by what it read")


def count_open(branches: Sequence[OpenBranch], is_open: Callable[[str], bool]) -> Verdict:
    """Reject as `open_branch` when a model found names that fit a step of the question as well as the one the episode
    follows, and no thought says why they do not fit.

    `is_open` tells of a name whether rules confirm that: a name that nothing shows does not count. Score: the number of
    such names.
    """
    found = [each for each in {each.name: each for each in branches}.values() if is_open(each.name)]
    return count_faults("open_branch", found, lambda each: f"{each.name!r} as {each.link}: {each.why}")


def has_found(reading: FactReading, question: str, names: Sequence[str]) -> bool:
    """Tell whether a reading is of this question, and gives the answer under one of these names."""
    return reading.question == question and bool(reading.answer) and _is_found(reading.answer, names)


def _is_found(answer: str, names: Sequence[str] | None) -> bool:
    """Does a reading give the answer that goes by these names, more or less of it, or nearly? Of several values one."""
    if not answer or names is None:
        return bool(answer)
    return any(is_called(part, names) for part in _parts(answer))


def _rivals(answer: str, names: Sequence[str] | None) -> list[str]:
    """What a reading gives beside the answer that goes by these names; nothing where it does not give that."""
    if names is None or not _is_found(answer, names):
        return []
    return [part for part in _parts(answer) if not is_called(part, names)]


def _parts(answer: str) -> list[str]:
    return [part for part in map(str.strip, answer.split(";")) if part]


def is_called(part: str, names: Sequence[str]) -> bool:
    """Tell whether a text is one of these names, or nearly: part of one, or with most words in common."""
    return any(same_answer(part, name) or _is_nearly(part, name) for name in names)


def _is_nearly(read: str, name: str) -> bool:
    """Part of each other, or most words in common: "Anna Amalie of Baden", but not another Henry or another day."""
    if is_never_quoted(name):
        return False
    one, other = ({*re.findall(r"\w+", text.casefold())} for text in (read, name))
    return mentions(read, name) or mentions(name, read) or 2 * len(one & other) > len(one | other)
