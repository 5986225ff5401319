"""A run's configuration: a preset with what a person says on top. Loads neither Prefect nor Beam."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TypeVar

from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.kg_questions.config import KgQuestionRunConfig
from trailforge.generators.kg_trajectories.config import KgRunConfig
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.inference import Caps, ledger_url
from trailforge.pipelines.runs.config import RunConfig, read_config
from trailforge.presets import datasets_of, load_preset
from trailforge.schemas import InvalidInput, to_dict

CONFIGS: dict[str, type[RunConfig]] = {
    "mcts_trajectories": MctsRunConfig,
    "document_bundles": BundleRunConfig,
    "kg_trajectories": KgRunConfig,
    "kg_questions": KgQuestionRunConfig,
}
"""By data set."""
C = TypeVar("C", bound=RunConfig)


def configured(
    preset: str, model: str | None, model_name: str | None, seed: int, caps: Caps | None = None
) -> MctsRunConfig:
    """`configuration_of` MCTS trajectories."""
    return configuration_of(MctsRunConfig, "mcts_trajectories", preset, model, model_name, seed, caps)


def configured_for_all(preset: str, model: str | None, model_name: str | None) -> dict[str, RunConfig]:
    """`configuration_of` each data set that a preset is for, by its name."""
    return {
        dataset: configuration_of(CONFIGS[dataset], dataset, preset, model, model_name, 0)
        for dataset in datasets_for(preset)
    }


def datasets_for(preset: str) -> list[str]:
    """The data sets that a preset names; of one that names none, those whose configuration it is.

    Raises `InvalidInput` as `read_config` where it is nobody's, by the data set that knows most of its sections.
    """
    if named := datasets_of(preset):
        return named
    problems: dict[str, InvalidInput] = {}
    for dataset, record in CONFIGS.items():
        try:
            read_config(record, load_preset(preset, dataset), source=f"preset {preset}")
        except InvalidInput as error:
            problems[dataset] = error
    if len(problems) == len(CONFIGS):
        raise problems[max(CONFIGS, key=lambda name: len(_sections(preset, name)))]
    return [dataset for dataset in CONFIGS if dataset not in problems]


def _sections(preset: str, dataset: str) -> set[str]:
    """Of a preset, those that the configuration of a data set has."""
    return {each.name for each in fields(CONFIGS[dataset])} & load_preset(preset, dataset).keys()


def configuration_of(
    record: type[C],
    dataset: str,
    preset: str,
    model: str | None,
    model_name: str | None,
    seed: int,
    caps: Caps | None = None,
) -> C:
    """A preset with what the command line says on top, and the ledger that the environment may name."""
    config = read_config(record, load_preset(preset, dataset), source=f"preset {preset}")
    changes = {k: v for k, v in (("url", model), ("name", model_name)) if v is not None}
    given = {name: cap for name, cap in to_dict(caps or Caps()).items() if cap is not None}
    return replace(
        config,
        model=replace(config.model, **changes),
        caps=replace(config.caps, **given),
        ledger=ledger_url(config.ledger),
        seed=seed,
    )
