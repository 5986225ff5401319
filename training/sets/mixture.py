"""Decide which rows of a training set are too many for the given weights of runs or data sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from trailforge.schemas import InvalidInput
from trailforge.training.sets.config import Share
from trailforge.training.sets.order import Entry, draw_by_lot


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """A run or a file of questions that is mixed with others."""

    path: Path
    dataset: str
    origin: str
    """Where its rows say that they come from: the hash of its manifest, or of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """The weights of the mixture's parts, and the part that each run belongs to. Without weights all rows are taken."""

    weights: Mapping[str, Fraction] = field(default_factory=dict)
    part_of: Mapping[str, str] = field(default_factory=dict)
    """The part of each run or file, by its `Mixed.origin`."""


def read_mixture(mix: Sequence[Share], given: Sequence[Mixed]) -> Mixture:
    """Match the given weights with runs: a weight belongs to a run's own folder, or else to a data set, whose runs
    share it. Raises `InvalidInput` for a name that is neither, for a run without weight, and for a weight without a
    run.
    """
    if not mix:
        return Mixture()
    datasets = {each.dataset for each in given}
    paths = {each.path.resolve(): each for each in given}
    own = {share.part: paths.get(Path(share.part).resolve()) for share in mix if share.part not in datasets}
    if unknown := [part for part, found in own.items() if found is None]:
        known = ", ".join([*sorted(datasets), *(str(each.path) for each in given)])
        raise InvalidInput(f"{unknown[0]!r} is nothing that is mixed here; there are {known}", field="mix")
    part_of = {found.origin: part for part, found in own.items() if found is not None}
    if len(part_of) < len(own):
        raise InvalidInput("a run has two weights; give it one", field="mix")
    named = {share.part for share in mix} & datasets
    for each in given:
        if each.origin not in part_of and each.dataset not in named:
            raise InvalidInput(f"no weight for {each.path} ({each.dataset}); add one with --mix", field="mix")
        part_of.setdefault(each.origin, each.dataset)
    if idle := sorted(named - set(part_of.values())):
        raise InvalidInput(f"{idle[0]}: each of its runs has a weight of its own; leave this one out", field="mix")
    return Mixture(weights={share.part: Fraction(str(share.weight)) for share in mix}, part_of=part_of)


def mixed(entries: Sequence[Entry], mixture: Mixture, seed: int) -> tuple[list[Entry], list[Entry]]:
    """Split the rows into those that are kept and those that are too many. As many are kept as the weights permit
    without repeating a row. Raises `InvalidInput` for weights that leave a part none of its rows.
    """
    if not mixture.weights or not entries:
        return list(entries), []
    counts = Counter(mixture.part_of[entry.origin] for entry in entries)
    unit = min(Fraction(count) / mixture.weights[part] for part, count in counts.items())
    kept, left = [], []
    for part in sorted(counts):
        own = [entry for entry in entries if mixture.part_of[entry.origin] == part]
        drawn = sorted(own, key=lambda entry: draw_by_lot(seed, "mix", entry.uid))
        wanted = int(unit * mixture.weights[part])
        if not wanted:
            raise InvalidInput(f"{part}: by its weight none of its {counts[part]} rows would stay", field="mix")
        kept += drawn[:wanted]
        left += drawn[wanted:]
    return kept, left
