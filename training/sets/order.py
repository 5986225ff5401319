"""Which rows are held out, which are left out for the mixture, and in what order the others are learnt."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from trailforge.rewards.text import normalize_answer
from trailforge.schemas import InvalidInput
from trailforge.training.sets.config import Order, Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What has to be known of a row to place it: so the rows themselves need not be in memory."""

    number: int
    """By which the row is found again."""
    uid: str
    dataset: str
    key: str
    """Its question's `question_key`."""
    stage: int
    """Of the curriculum, from 1."""
    difficulty: float
    """Orders the rows of a data set within a stage."""
    tokens: int


def question_key(question: str) -> str:
    """The same for questions that differ in case, punctuation, articles or white space alone; options do not count."""
    first = question.strip().split("\n")[0]
    return normalize_answer(first) or " ".join(question.casefold().split())


def held_out(trained: Collection[str], others: Collection[str], share: float, seed: int) -> set[str]:
    """Keys of the questions for validation: the same share of those with an SFT row and of those without.

    At least one of each, unless there is only one.
    """
    found: set[str] = set()
    for keys in (set(trained), set(others) - set(trained)):
        ordered = sorted(keys, key=lambda key: _draw(seed, "split", key))
        wanted = max(1, round(share * len(ordered))) if share else 0
        found.update(ordered[: max(0, min(wanted, len(ordered) - 1))])
    return found


def mixed(entries: Sequence[Entry], mix: Sequence[Share], seed: int) -> tuple[list[Entry], list[Entry]]:
    """Rows that stay, and those that are too many of their data set. Raises `InvalidInput` for one without weight."""
    if not mix or not entries:
        return list(entries), []
    counts = Counter(entry.dataset for entry in entries)
    weights = {share.dataset: Fraction(str(share.weight)) for share in mix if counts[share.dataset]}
    if missing := sorted(counts.keys() - weights.keys()):
        raise InvalidInput(f"no weight for {', '.join(missing)}", field="mix")
    unit = min(Fraction(counts[name]) / weight for name, weight in weights.items())
    kept, left = [], []
    for name in sorted(counts):
        ordered = sorted((e for e in entries if e.dataset == name), key=lambda e: _draw(seed, "mix", e.uid))
        wanted = int(unit * weights[name])
        kept += ordered[:wanted]
        left += ordered[wanted:]
    return kept, left


def ordered(entries: Sequence[Entry], order: Order, seed: int) -> list[Entry]:
    """Rows in the order of learning.

    `curriculum`: stage by stage, in each from easy to hard; data sets, whose difficulties do not compare, run through
    a stage side by side. Rows that are as hard stand in a random order.
    """
    drawn = sorted(entries, key=lambda entry: (_draw(seed, "order", entry.uid), entry.uid))
    if order == "shuffled":
        return drawn
    groups: Mapping[tuple[int, str], list[Entry]] = defaultdict(list)
    for entry in drawn:
        groups[entry.stage, entry.dataset].append(entry)
    placed = [
        (stage, Fraction(2 * position + 1, 2 * len(group)), dataset, position, entry)
        for (stage, dataset), group in groups.items()
        for position, entry in enumerate(sorted(group, key=lambda entry: entry.difficulty))
    ]
    return [entry for *_, entry in sorted(placed, key=lambda place: place[:4])]


def _draw(seed: int, purpose: str, name: str) -> bytes:
    """A random number that depends on nothing but its name."""
    return hashlib.sha256(f"{seed}\0{purpose}\0{name}".encode()).digest()
