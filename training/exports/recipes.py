"""Which training preset the commands of an export take their numbers from."""

from __future__ import annotations

from training.config import TrainPreset, load_train_preset
from training.sets import TrainingSet

_PRESET_OF = {
    "mcts_trajectories": "msearcher",
    "document_bundles": "r-search",
    "kg_trajectories": "dynasearcher",
    "kg_questions": "dynasearcher",
}


def preset_for(training_set: TrainingSet) -> TrainPreset:
    """That of the data set which the set holds most rows for training of; of two, the first in alphabetical order."""
    counts: dict[str, int] = {}
    for count in training_set.manifest.counts:
        if count.split == "train":
            counts[count.dataset] = counts.get(count.dataset, 0) + count.rows
    return load_train_preset(_PRESET_OF[min(counts, key=lambda name: (-counts[name], name))])
