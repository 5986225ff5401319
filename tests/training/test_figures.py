"""The figures of a training, step by step."""

from __future__ import annotations

import csv
from pathlib import Path

from trailforge.training.trl.fit import figures_by_step, write_figures

HISTORY = [
    {"step": 2, "loss": 1.0, "note": "text"},
    {"step": 1, "loss": 2.0, "reward": -1},
    {"step": 2, "reward": 0.5, "loss": 0.9},
    {"step": 2, "train_runtime": 3.0, "train_loss": 1.5},
]


def test_a_row_for_each_step() -> None:
    """In order; what comes twice, as after a resume, counts the last time."""
    assert figures_by_step(HISTORY[:3]) == [
        {"step": 1, "loss": 2.0, "reward": -1.0},
        {"step": 2, "loss": 0.9, "reward": 0.5},
    ]


def test_the_table_holds_all_figures_of_each_step(tmp_path: Path) -> None:
    """The sums of the whole training are no step's."""
    write_figures(HISTORY, tmp_path)
    rows = list(csv.DictReader((tmp_path / "curves.csv").read_text().splitlines()))
    assert rows == [{"step": "1", "loss": "2.0", "reward": "-1.0"}, {"step": "2", "loss": "0.9", "reward": "0.5"}]
    assert [path.name for path in tmp_path.iterdir()] == ["curves.csv"]


def test_without_a_step_there_is_no_table(tmp_path: Path) -> None:
    """A training that had no step left."""
    write_figures(HISTORY[3:], tmp_path)
    assert not [*tmp_path.iterdir()]
