"""Count the items of a run: for every stage, inputs = accepted + rejected(reason) + failed(reason)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain

from trailforge.schemas import Count, CountMismatch, StageCount


def stage(
    name: str,
    *,
    inputs: int,
    accepted: int,
    rejected: Iterable[str] = (),
    failed: Iterable[str] = (),
) -> StageCount:
    """Return the counts of a stage called `name`; `rejected` and `failed` have one reason for each item that was
    rejected or failed.
    """
    return StageCount(
        name=name,
        inputs=inputs,
        accepted=accepted,
        rejected=_counts(Counter(rejected)),
        failed=_counts(Counter(failed)),
    )


def add_up(books: Iterable[tuple[StageCount, ...]]) -> tuple[StageCount, ...]:
    """Sum the counts of many items or shards; stages come in the order in which they first appear."""
    lines: dict[str, list[StageCount]] = {}
    for book in books:
        for line in book:
            lines.setdefault(line.name, []).append(line)
    return tuple(
        StageCount(
            name=name,
            inputs=sum(line.inputs for line in of_stage),
            accepted=sum(line.accepted for line in of_stage),
            rejected=_counts(_tally(line.rejected for line in of_stage)),
            failed=_counts(_tally(line.failed for line in of_stage)),
        )
        for name, of_stage in lines.items()
    )


def check_balance(stages: Iterable[StageCount]) -> None:
    """Raise `CountMismatch` naming the first stage whose counts do not add up."""
    for line in stages:
        if line.balance:
            raise CountMismatch(
                f"stage {line.name}: {line.inputs} in, {line.inputs - line.balance} accounted for; report this"
            )


def _tally(counts: Iterable[tuple[Count, ...]]) -> Counter[str]:
    tally: Counter[str] = Counter()
    for each in chain.from_iterable(counts):
        tally[each.reason] += each.count
    return tally


def _counts(tally: Counter[str]) -> tuple[Count, ...]:
    return tuple(Count(reason=reason, count=tally[reason]) for reason in sorted(tally) if tally[reason])
