"""Which training preset the commands of an export take their numbers from."""

from __future__ import annotations

import json

from trailforge.protocols import PROTOCOLS
from trailforge.training.config import TrainPreset, load_train_preset
from trailforge.training.sets.files import TrainingSet

_PRESET_OF = {
    "mcts_trajectories": "msearcher",
    "document_bundles": "r-search",
    "kg_trajectories": "dynasearcher",
    "kg_questions": "dynasearcher",
}


def preset_for(training_set: TrainingSet) -> TrainPreset:
    """That of the protocol in which the set asks its questions, or else of the data set which it holds most rows for
    training of; of two, the first in alphabetical order."""
    if asked := json.loads(training_set.manifest.config).get("protocol"):
        return load_train_preset(PROTOCOLS[asked].training)
    counts: dict[str, int] = {}
    for count in training_set.manifest.counts:
        if count.split == "train":
            counts[count.dataset] = counts.get(count.dataset, 0) + count.rows
    return load_train_preset(_PRESET_OF[min(counts, key=lambda name: (-counts[name], name))])
