"""Check what every question must satisfy, whatever file it comes from, and how many invalid rows a run accepts."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from trailforge.rows import InvalidRow
from trailforge.schemas import NOTICE, InvalidInput, Question

_LOG = logging.getLogger(__name__)
_MOST_INVALID = 0.05
"""Of a run's rows."""


_REFERENCE = re.compile(r"#(\d{1,9})")
"""Nine digits suffice to be out of range, and keep `int` from refusing a longer number."""


def check_question(question: Question, *, hops: str = "decomposition", paragraphs: str = "paragraphs") -> Question:
    """Return the question unchanged when its parts are consistent; `hops` and `paragraphs` are the fields' names in the
    file.

    Raises `InvalidInput` for two paragraphs of one id, a supporting paragraph that does not exist, a hop that refers to
    itself, to a later one or to none, and no hop at all.
    """
    ids = [paragraph.id for paragraph in question.paragraphs]
    twice = next((i for i, count in Counter(ids).items() if count > 1), None)
    if twice is not None:
        raise InvalidInput(f"two paragraphs have the id {twice}; give each its own", field=paragraphs)
    for position, hop in enumerate(question.decomposition, start=1):
        name = f"{hops}[{position - 1}]"
        for target in map(int, _REFERENCE.findall(hop.question)):
            if not 1 <= target < position:
                problem = f"hop {position} refers to #{target}, which is not an earlier hop"
                raise InvalidInput(problem, field=f"{name}.question")
        if hop.support_id is not None and hop.support_id not in ids:
            raise InvalidInput(f"supporting paragraph {hop.support_id} is not among the paragraphs", field=name)
    for position, document in enumerate(question.supporting):
        if document.id is not None and document.id not in ids:
            problem = f"supporting paragraph {document.id} is not among the paragraphs"
            raise InvalidInput(problem, field=f"supporting[{position}].id")
    if question.num_hops is not None and question.num_hops < 1:
        raise InvalidInput(f"expected at least 1, found {question.num_hops}", field="num_hops")
    return question


def distinct_aliases(aliases: Iterable[str], answer: str) -> tuple[str, ...]:
    """Return the aliases in order, without empty ones, repeats, and the answer itself."""
    return tuple(alias for alias in dict.fromkeys(aliases) if alias and alias != answer)


def say_unsearched(rows: Iterable[Question | InvalidRow], source: Path) -> Iterator[Question | InvalidRow]:
    """Yield the rows unchanged, and log once that questions bring paragraphs which this run does not search."""
    is_said = False
    for row in rows:
        if not is_said and isinstance(row, Question) and row.paragraphs:
            is_said = True
            _LOG.log(NOTICE, "%s: the questions' own paragraphs are not searched (--scope question does)", source)
        yield row


def check_invalid(invalid: Sequence[InvalidRow], read: int, *, is_any_valid: bool) -> None:
    """Raise `InvalidInput`, with the first invalid row, when more rows are invalid than a run accepts, or none is
    valid.
    """
    if not invalid or (is_any_valid and len(invalid) <= _MOST_INVALID * read):
        return
    first = invalid[0]
    raise InvalidInput(
        f"{first.problem} ({len(invalid)} of {read} rows are invalid; more than {_MOST_INVALID:.0%} stops the run)",
        file=Path(first.file),
        row=first.row,
        field=first.field,
    )
