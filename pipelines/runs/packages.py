"""Find the optional packages that a run imports, so that a missing one is reported before any input is read."""

from __future__ import annotations

from trailforge.pipelines.dataset import DataSet, resolve
from trailforge.pipelines.runs.config import EMBEDDED, RunConfig
from trailforge.pipelines.runs.intake import RunInputs

_EVERY_RUN = ("apache_beam", "matplotlib", "openai")
"""The engine, the figures of the card, the client."""


def needed_packages(dataset: DataSet, config: RunConfig, inputs: RunInputs) -> tuple[str, ...]:
    """Return the optional modules that a run imports. `config` is the preset's, before `DataSet.configure`. Raises what
    `DataSet.packages` raises, and `DataSet.configure` where the inputs decide which stages run.
    """
    found = [*_EVERY_RUN, *(resolve(dataset.packages)(config, inputs) if dataset.packages else ())]
    if config.ledger:
        found.append("asyncpg")
    if config.model.url == EMBEDDED and _asks_model(dataset, config, inputs):
        found.append("xllamacpp")
    return tuple(dict.fromkeys(found))


def _asks_model(dataset: DataSet, config: RunConfig, inputs: RunInputs) -> bool:
    if dataset.configure is not None and any(stage.is_wanted for stage in dataset.stages):
        config = resolve(dataset.configure)(config, inputs)
    wanted = (stage for stage in dataset.stages if stage.is_wanted is None or resolve(stage.is_wanted)(config))
    return any(stage.asks_model for stage in wanted)
