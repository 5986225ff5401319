"""A run's configuration: a preset with what a person says on top. Loads neither Prefect nor Beam."""

from __future__ import annotations

from dataclasses import replace

from inference import ledger_url
from pipelines.config import MctsRunConfig, run_config
from presets import load_preset


def configured(preset: str, model: str | None, model_name: str | None, seed: int) -> MctsRunConfig:
    """A preset with what the command line says on top, and the ledger that the environment may name."""
    config = run_config(load_preset(preset), source=f"preset {preset}")
    changes = {k: v for k, v in (("url", model), ("name", model_name)) if v is not None}
    return replace(config, model=replace(config.model, **changes), ledger=ledger_url(config.ledger), seed=seed)
