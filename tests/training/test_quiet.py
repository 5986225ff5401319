"""What our trainings print is about the training, not about names that libraries use among themselves."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.training.tiny import preset, sft_rows, training_set
from trailforge.training.trl.offline import train_sft

pytest.importorskip("trl")


def test_no_name_that_is_given_up_is_told_of(tmp_path: Path, tiny_model: Path) -> None:
    rows = training_set(tmp_path / "set", sft=sft_rows(copies=2))
    settings: dict[str, Any] = {"epochs": 1, "gradient_checkpointing": True}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        train_sft(rows, preset(sft=settings), tmp_path / "out", base_model=str(tiny_model), max_steps=1)
    assert [str(each.message) for each in told if issubclass(each.category, FutureWarning)] == []
