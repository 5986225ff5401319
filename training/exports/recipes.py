"""Which training preset the commands of an export take their numbers from."""

from __future__ import annotations

import json

from trailforge.pipelines.datasets import load_dataset
from trailforge.training.config import TrainPreset, load_train_preset
from trailforge.training.sets.files import TrainingSet

_PRESET_IN = {
    "react": "msearcher",
    "r_search": "r-search",
    "kg_search": "dynasearcher",
    "search_r1": "ragsearch",
    "graph_r1": "ragsearch",
}
"""By the protocol that a set's questions are asked in."""


def preset_for(training_set: TrainingSet) -> TrainPreset:
    """That of the protocol in which the set asks its questions, or else of the data set which it holds most rows for
    training of; of two, the first in alphabetical order."""
    if asked := json.loads(training_set.manifest.config).get("protocol"):
        return load_train_preset(_PRESET_IN[asked])
    counts: dict[str, int] = {}
    for count in training_set.manifest.counts:
        if count.split == "train":
            counts[count.dataset] = counts.get(count.dataset, 0) + count.rows
    most = min(counts, key=lambda name: (-counts[name], name))
    tables = load_dataset(most).all_tables.values()
    return load_train_preset(_PRESET_IN[next(table.protocol for table in tables if table.protocol)])
