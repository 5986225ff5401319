"""Estimate what a run would cost before it begins: the result of a data set's `estimate`, and functions to
compute it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from trailforge.inference import Prices, Usage
from trailforge.pipelines.runs.intake import RunInputs
from trailforge.pipelines.sources import InvalidRow, read_questions
from trailforge.pipelines.sources.checks import check_invalid
from trailforge.schemas import NOTICE, InvalidInput, Question, count_tokens

_LOG = logging.getLogger(__name__)
_MOST_SAMPLED = 200
_PASSAGE_TOKENS = 140
"""Of 100 words, as in the usual corpora, where the questions bring none."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEstimate:
    """The expected use of the calls for one purpose, summed over all items."""

    stage: str
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The calls, tokens, cost and rows that a run would take."""

    items: int
    unit: str
    """What the items are called."""
    sampled: int
    """Number of items that the estimate rests on."""
    stages: tuple[StageEstimate, ...]
    is_bound: bool = False
    """The run makes at most these calls with at most these completions, and mostly far less; else it is what is to be
    expected. Prompts are reckoned by the lengths in the sample either way."""
    rests_on: str = ""
    """What a person should know of how the estimate was reckoned."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Expected accepted rows by kind; empty where they are not reckoned."""

    @property
    def usage(self) -> Usage:
        """Return the usage summed over all stages."""
        return sum((line.usage for line in self.stages), start=Usage())


def sample(rows: Iterable[T], limit: int | None, seed: int, source: Path) -> tuple[list[T], int]:
    """Draw a random sample of the first `limit` rows, and count how many rows there are. Raises `InvalidInput` when
    there are none.
    """
    chosen: list[T] = []
    total, rng = 0, random.Random(seed)
    for row in islice(rows, limit):
        total += 1
        if len(chosen) < _MOST_SAMPLED:
            chosen.append(row)
        elif (place := rng.randrange(total)) < _MOST_SAMPLED:
            chosen[place] = row
    if not chosen:
        raise InvalidInput("holds nothing to make data of; give a file with rows", file=source)
    return chosen, total


def sample_valid(rows: Iterable[T | InvalidRow], inputs: RunInputs, seed: int, record: type[T]) -> tuple[list[T], int]:
    """Sample as `sample` does from the valid rows of a run's files, checked as the run checks them and without those
    that earlier decisions of people or an audit leave out. How many are invalid is logged. Raises `InvalidInput` for
    files that the run would not take.
    """
    invalid, counts = list[InvalidRow](), {"read": 0, "valid": 0}

    def valid() -> Iterator[T]:
        for row in rows:
            counts["read"] += 1
            if isinstance(row, record):
                counts["valid"] += 1
                if inputs.left_out(row) is None:
                    yield row
            elif isinstance(row, InvalidRow):
                invalid.append(row)

    try:
        chosen = sample(valid(), inputs.limit, seed, inputs.files[0])
    finally:
        check_invalid(invalid, counts["read"], is_any_valid=counts["valid"] > 0)
    if invalid:
        first = invalid[0]
        error = InvalidInput(first.problem, file=first.file, row=first.row, field=first.field)
        _LOG.log(NOTICE, "%d of %d rows are invalid and left out; the first: %s", len(invalid), counts["read"], error)
    return chosen


def sample_questions(
    inputs: RunInputs, seed: int, *, needs_paragraphs: bool = False, needs_decomposition: bool = False
) -> tuple[list[Question], int]:
    """Sample as `sample_valid` does from the questions of a run's one file. `needs_paragraphs` and
    `needs_decomposition` say that the run cannot use a question without these.
    """
    (source,) = inputs.files
    rows = read_questions(
        source,
        column_map=inputs.options.get("column_map"),
        needs_paragraphs=needs_paragraphs,
        needs_decomposition=needs_decomposition,
    )
    return sample_valid(rows, inputs, seed, Question)


def tokens_of_passages(questions: Sequence[Question]) -> float:
    """Return the mean number of tokens of a passage that a search over these questions finds, estimated from the
    passages they bring along.
    """
    passages = [paragraph.text for question in questions for paragraph in question.paragraphs]
    return mean_tokens(passages) if passages else _PASSAGE_TOKENS


def stage_estimate(
    stage: str, calls: float, prompt: float, completion: float, prices: Prices, *, cached: float = 0.0
) -> StageEstimate:
    """Return the estimate of a stage with `calls` calls, each with these mean numbers of prompt and completion tokens.
    `cached` is the mean number of prompt tokens of a call that a server has in its prefix cache.
    """
    usage = Usage(
        calls=round(calls),
        prompt_tokens=round(calls * prompt),
        completion_tokens=round(calls * completion),
        cached_tokens=round(calls * cached),
    )
    return StageEstimate(stage=stage, usage=replace(usage, cost=prices.cost(usage)))


def mean_tokens(texts: Sequence[str]) -> float:
    """Return the mean number of tokens of some texts; 0 when there are none."""
    return sum(map(count_tokens, texts)) / max(1, len(texts))
