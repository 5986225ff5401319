"""What differs between two texts, word by word, and the parts of them that are worth showing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

Span = tuple[int, int]
"""Begin and end of a part of a text."""
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_MOST_COMPARED = 1_000_000
"""Words of one text times words of the other, from the first difference to the last; of more all counts as changed."""


def differences(old: str, new: str) -> tuple[list[Span], list[Span]]:
    """The places of the old text that are gone, and of the new one those that stand there instead, one for one.

    Where nothing is gone or nothing came, the place is empty: its begin is its end.
    """
    ours, theirs = _TOKEN.findall(old), _TOKEN.findall(new)
    shared = min(len(ours), len(theirs))
    head = next((n for n in range(shared) if ours[n] != theirs[n]), shared)
    rest = shared - head
    tail = next((n for n in range(rest) if ours[-1 - n] != theirs[-1 - n]), rest)
    middle, other = ours[head : len(ours) - tail], theirs[head : len(theirs) - tail]
    if len(middle) * len(other) > _MOST_COMPARED:
        blocks = [(0, len(middle), 0, len(other))]
    else:
        codes = SequenceMatcher(None, middle, other, autojunk=False).get_opcodes()
        blocks = [place for name, *place in codes if name != "equal"]
    starts, others = _starts(ours), _starts(theirs)
    return (
        [(starts[head + begin], starts[head + end]) for begin, end, _, _ in blocks],
        [(others[head + begin], others[head + end]) for _, _, begin, end in blocks],
    )


def windows(length: int, spans: Sequence[Span], around: int) -> list[Span]:
    """The parts of a text with so many characters around each span."""
    found: list[Span] = []
    for begin, end in spans:
        begin, end = max(0, begin - around), min(length, end + around)
        if found and begin <= found[-1][1] + around:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found


def _starts(tokens: Sequence[str]) -> list[int]:
    """Where each token begins, and where the last one ends."""
    starts = [0]
    for token in tokens:
        starts.append(starts[-1] + len(token))
    return starts
