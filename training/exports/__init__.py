"""Views of a training set in the formats of other trainers, each with the command that starts the trainer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from trailforge.doors import lazy_names
from trailforge.evaluation import is_evaluation
from trailforge.pipelines.engine import new_folder
from trailforge.protocols import REACT
from trailforge.protocols.browse import BROWSE, asking_of
from trailforge.schemas import InvalidInput, RlRow
from trailforge.training.chat_marks import CHATML, Frame, frame_of
from trailforge.training.config import TrainPreset, load_train_preset
from trailforge.training.exports import messages, slime, trl, verl
from trailforge.training.exports.common import DEVICES, Export, Progress, has_native
from trailforge.training.exports.episodes import export_episodes
from trailforge.training.sets.files import SPLITS, TrainingSet, open_set
from trailforge.training.sets.runs import table_of
from trailforge.training.weights import load_tokenizer

if TYPE_CHECKING:
    from trailforge.training.exports.verl import VerlFiles as VerlFiles
    from trailforge.training.exports.verl import VerlOptions as VerlOptions
    from trailforge.training.exports.verl import start as start
else:
    __getattr__, __dir__ = lazy_names(__name__)


TRAINERS: Mapping[str, Callable[[Export], str]] = MappingProxyType(
    {
        "trl": trl.write,
        "verl": verl.write,
        "openrlhf": messages.write_openrlhf,
        "slime": slime.write,
        "sharegpt": messages.write_sharegpt,
        "openai": messages.write_openai,
    }
)
"""For each trainer, by name, the function that writes its format and returns the README."""


def export(
    folder: Path,
    to: str,
    out: Path,
    *,
    base_model: str | None = None,
    devices: int = DEVICES,
    progress: Progress | None = None,
) -> Mapping[str, int]:
    """Write a training set, or the episodes of an evaluation's research agents, in a trainer's format; returns the
    number of rows by file.

    `base_model` is a model by name or folder, whose chat marks are then written around the turns, as `train sft` would
    use them. `devices` is the number of devices of the node that the commands are for. Raises `InvalidInput` for a
    folder that is no training set, a trainer that is unknown or cannot train in the model's marks, a set whose loss
    leaves out parts of turns, and one that has nothing the trainer takes; `OutputError` when `out` exists. Then nothing
    is left behind.
    """
    if is_evaluation(folder):
        return export_episodes(folder, to, out)
    if to not in TRAINERS:
        raise InvalidInput(f"no trainer {to!r}; there are {', '.join(TRAINERS)}")
    training_set = open_set(folder)
    _check_masks(training_set, to)
    is_native = has_native(training_set)
    if is_native and to not in _NATIVE:
        raise InvalidInput(
            f"the set has native tool calls, which {to} does not take from here; take --to {', '.join(_NATIVE)}, or "
            "make it with `training-set --writings tags`",
            file=folder,
        )
    if to in _NO_BROWSE:
        _check_questions(training_set, to)
    frame = _frame_of(base_model, to) if base_model and not is_native else CHATML
    preset = preset_for(training_set)
    if preset.sft.batch_size % devices:
        problem = (
            f"the preset {preset.name}'s batch of {preset.sft.batch_size} cannot be parted among {devices} devices"
        )
        raise InvalidInput(problem, field="devices")
    with new_folder(out) as temporary:
        made = Export(
            training_set=training_set,
            folder=temporary,
            preset=preset,
            tell=progress or (lambda what, done, total: None),
            is_native=is_native,
            base_model=base_model or "",
            frame=frame,
            devices=devices,
        )
        made.text("README.md", TRAINERS[to](made))
        if not made.rows:
            raise InvalidInput(
                f"holds no rows that {to} takes; make a set with other tables, or export to another trainer",
                file=folder,
            )
    return made.rows


_NATIVE = ("trl", "verl", "openai", "sharegpt")
"""Trainers that take native tool calls."""
_NO_BROWSE = ("openrlhf", "slime")
"""Trainers whose agents make no native calls."""
_CHATML_ALONE = {
    "openrlhf": "its agent is given prompts as text, which are read in ChatML",
    "slime": "its masks of whole conversations are for ChatML (`--loss-mask-type`)",
    "sharegpt": "LLaMA-Factory's own templates drop or trim what an agent wrote, and take no other as a file",
}
"""Why a trainer cannot train in the marks of other models."""


def _frame_of(base_model: str, to: str) -> Frame:
    """As `train sft` would use it. Raises `InvalidInput` where this trainer cannot."""
    frame = frame_of(load_tokenizer(base_model))
    if frame != CHATML and to in _CHATML_ALONE:
        raise InvalidInput(
            f"{base_model} has marks of its own, in which {to} cannot train: {_CHATML_ALONE[to]}; take `--to trl`, or "
            "`trailforge train sft`",
            field="base_model",
        )
    return frame


def _check_questions(training_set: TrainingSet, to: str) -> None:
    """Research agents are sampled in a model's own chat template, which these trainers do not hand over."""
    for split in SPLITS:
        for row in training_set.rows("rl", split, RlRow):
            if row.reward_model.ground_truth.protocol == BROWSE:
                raise InvalidInput(
                    f"asks questions in {BROWSE}, in which {to} cannot train; take --to verl, or `trailforge train rl`",
                    file=training_set.folder,
                    field="protocol",
                )


def _check_masks(training_set: TrainingSet, to: str) -> None:
    """All these trainers read whether the loss is taken on a turn, and none on which of its characters."""
    if training_set.masks_mistakes and any(training_set.row_count("sft", split) for split in SPLITS):
        raise InvalidInput(
            f"mistakes are masked within turns, and {to} takes the loss on whole turns; train on this set with "
            "`trailforge train sft`, or make it with `--mistakes train`",
            file=training_set.folder,
            field="mistakes",
        )


def preset_for(training_set: TrainingSet) -> TrainPreset:
    """Load the training preset of the protocol in which the set's questions are asked. Where the set has several, it is
    that of the data set with most rows for training; of two equal ones, the first by name.
    """
    protocol = json.loads(training_set.manifest.config).get("protocol")
    if not protocol:
        counts: Counter[str] = Counter()
        for count in training_set.manifest.counts:
            if count.split == "train":
                counts[count.dataset] += count.rows
        dataset = min(counts, key=lambda name: (-counts[name], name))
        questions = table_of(dataset, "questions")
        protocol = questions[1].protocol if questions else REACT.name
    return load_train_preset(asking_of(protocol).training)
