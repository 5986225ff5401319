"""A run's configuration: a preset with what a person says on top. Loads neither Prefect nor Beam."""

from __future__ import annotations

from dataclasses import replace

from inference import Caps, ledger_url
from pipelines.config import MctsRunConfig, run_config
from presets import load_preset
from schemas import to_dict


def configured(
    preset: str, model: str | None, model_name: str | None, seed: int, caps: Caps | None = None
) -> MctsRunConfig:
    """A preset with what the command line says on top, and the ledger that the environment may name."""
    config = run_config(load_preset(preset), source=f"preset {preset}")
    changes = {k: v for k, v in (("url", model), ("name", model_name)) if v is not None}
    given = {name: cap for name, cap in to_dict(caps or Caps()).items() if cap is not None}
    return replace(
        config,
        model=replace(config.model, **changes),
        caps=replace(config.caps, **given),
        ledger=ledger_url(config.ledger),
        seed=seed,
    )
