"""The books: for every stage inputs = accepted + rejected(reason) + failed(reason)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from trailforge.schemas import Count, CountMismatch, StageCount


def stage(
    name: str,
    *,
    inputs: int,
    accepted: int,
    rejected: Iterable[str] = (),
    failed: Iterable[str] = (),
) -> StageCount:
    """A line of the books from reasons, one per item."""
    return StageCount(
        name=name,
        inputs=inputs,
        accepted=accepted,
        rejected=_counts(Counter(rejected)),
        failed=_counts(Counter(failed)),
    )


def add_up(books: Iterable[tuple[StageCount, ...]]) -> tuple[StageCount, ...]:
    """Sum the books of many items or shards, stages in the order in which they first appear."""
    inputs: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    rejected: dict[str, Counter[str]] = {}
    failed: dict[str, Counter[str]] = {}
    for book in books:
        for line in book:
            inputs[line.name] += line.inputs
            accepted[line.name] += line.accepted
            for counts, into in ((line.rejected, rejected), (line.failed, failed)):
                tally = into.setdefault(line.name, Counter())
                for count in counts:
                    tally[count.reason] += count.count
    return tuple(
        StageCount(
            name=name,
            inputs=inputs[name],
            accepted=accepted[name],
            rejected=_counts(rejected[name]),
            failed=_counts(failed[name]),
        )
        for name in inputs
    )


def check_balance(stages: Iterable[StageCount]) -> None:
    """Raise `CountMismatch` naming the first stage that does not balance."""
    for line in stages:
        if line.balance:
            raise CountMismatch(f"stage {line.name}: {line.inputs} in, {line.inputs - line.balance} accounted for")


def _counts(tally: Counter[str]) -> tuple[Count, ...]:
    return tuple(Count(reason=reason, count=tally[reason]) for reason in sorted(tally) if tally[reason])
