"""Views of a training set in the formats of other trainers, each with the command that starts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from trailforge.pipelines.engine.files import new_folder
from trailforge.schemas import InvalidInput
from trailforge.training.exports import openrlhf, sharegpt, slime, trl, verl
from trailforge.training.exports.common import Export, Progress
from trailforge.training.exports.recipes import preset_for
from trailforge.training.sets.files import open_set

TRAINERS: Mapping[str, Callable[[Export], str]] = MappingProxyType(
    {
        "trl": trl.write,
        "verl": verl.write,
        "openrlhf": openrlhf.write,
        "slime": slime.write,
        "sharegpt": sharegpt.write,
    }
)
"""What writes a trainer's format and returns the README."""


def export(folder: Path, to: str, out: Path, *, progress: Progress | None = None) -> Mapping[str, int]:
    """Write a training set in a trainer's format; returns rows by file.

    Raises `InvalidInput` for a folder that is no training set, a trainer that is not known, and a set that holds
    nothing the trainer takes; `OutputError` when `out` is taken. Then nothing is left behind.
    """
    if to not in TRAINERS:
        raise InvalidInput(f"no trainer {to!r}; there are {', '.join(TRAINERS)}")
    training_set = open_set(folder)
    with new_folder(out) as temporary:
        made = Export(
            training_set=training_set,
            folder=temporary,
            preset=preset_for(training_set),
            tell=progress or (lambda what, done, total: None),
        )
        made.text("README.md", TRAINERS[to](made))
        if not made.rows:
            raise InvalidInput(f"holds no rows that {to} takes", file=folder)
    return made.rows
