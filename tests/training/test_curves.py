"""The curves of a training: which figures, and what is drawn of them."""

from __future__ import annotations

import csv
import math
import struct
from pathlib import Path

import pytest

from trailforge.training.trl.fit import PANELS, draw_curves, figures_by_step, running_mean, write_curves

pytestmark = pytest.mark.usefixtures("drawing")
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


def test_the_table_holds_what_is_drawn(tmp_path: Path) -> None:
    """The sums of the whole training are no step's."""
    write_curves(HISTORY, tmp_path)
    rows = list(csv.DictReader((tmp_path / "curves.csv").read_text().splitlines()))
    assert rows == [{"step": "1", "loss": "2.0", "reward": "-1.0"}, {"step": "2", "loss": "0.9", "reward": "0.5"}]
    assert (tmp_path / "curves.png").read_bytes() == draw_curves(figures_by_step(HISTORY[:3]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curves.csv", "curves.png"]


def test_nothing_to_draw(tmp_path: Path) -> None:
    """A training that had no step left."""
    write_curves(HISTORY[3:], tmp_path)
    assert not [*tmp_path.iterdir()]


def test_a_panel_for_each_figure_that_is_there() -> None:
    """Three in a line; a figure that is not finite leaves a gap."""
    one = draw_curves([{"step": step, "loss": 1.0} for step in range(60)])
    names, values = list(PANELS)[:4], (1.0, math.nan, 2.0)
    many = draw_curves([{"step": step, **dict.fromkeys(names, value)} for step, value in enumerate(values)])
    heights = [struct.unpack(">I", png[20:24])[0] for png in (one, many)]
    assert heights[1] > 1.5 * heights[0]


def test_the_running_mean_does_not_lag() -> None:
    """On a straight line it is the line, but for the ends."""
    line = [float(n) for n in range(20)]
    assert running_mean(line, 4)[2:-2] == line[2:-2]
    assert running_mean(line, 4)[0] == 1.0
