"""A run's configuration: a preset with what a person says on top. Loads neither Prefect nor Beam."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trailforge.inference import Caps, ledger_url
from trailforge.pipelines.dataset import DataSet, resolve
from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.runs.config import RunConfig, read_config
from trailforge.presets import datasets_of, load_preset
from trailforge.schemas import to_dict


def configured_for_all(preset: str, model: str | None, model_name: str | None) -> dict[str, RunConfig]:
    """`configuration_of` each data set that a preset is for, by its name."""
    return {name: configuration_of(load_dataset(name), preset, model, model_name) for name in datasets_of(preset)}


def configuration_of(
    dataset: DataSet,
    preset: str,
    model: str | None = None,
    model_name: str | None = None,
    *,
    seed: int = 0,
    caps: Caps | None = None,
) -> Any:
    """A preset with what the command line says on top, and the ledger that the environment may name.

    Of the class `DataSet.config`. Raises `InvalidInput` for a preset that is not there, or not for this data set.
    """
    content = load_preset(preset, dataset.name)  # before the class, whose room may take a second to load
    config = read_config(resolve(dataset.config), content, source=f"preset {preset}")
    changes = {k: v for k, v in (("url", model), ("name", model_name)) if v is not None}
    given = {name: cap for name, cap in to_dict(caps or Caps()).items() if cap is not None}
    return replace(
        config,
        model=replace(config.model, **changes),
        caps=replace(config.caps, **given),
        ledger=ledger_url(config.ledger),
        seed=seed,
    )
