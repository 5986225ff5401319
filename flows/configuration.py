"""Configure a run: a preset, with the command line's options over it. Neither Prefect nor Beam is loaded for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from trailforge.inference import Caps, split_urls
from trailforge.inference.ledgers import ledger_url
from trailforge.inference.packaged import PACKAGED_MODELS
from trailforge.inference.provider import check_server_url
from trailforge.pipelines import DataSet, dataset_names, load_dataset, resolve
from trailforge.pipelines.runs import (
    EMBEDDED,
    RunConfig,
    RunInputs,
    Settings,
    read_manifest,
    read_settings,
    run_configuration,
)
from trailforge.pipelines.runs.config import read_config
from trailforge.pipelines.runs.intake import config_of
from trailforge.presets import datasets_of, load_preset
from trailforge.schemas import InvalidInput, Manifest, Question, to_dict

C = TypeVar("C", bound=RunConfig)


def configured_for_all(preset: str, model: str | None, model_name: str | None) -> dict[str, RunConfig]:
    """Return the configuration, as `configuration_of` makes it, of each data set that a preset is for, by the data
    set's name.
    """
    return {name: configuration_of(load_dataset(name), preset, model, model_name) for name in datasets_for(preset)}


def datasets_for(preset: str) -> list[str]:
    """Return the data sets that a preset names or, where it names none, those whose configuration it fits. Where it
    fits none, raises the `InvalidInput` of `read_config` for the data set that knows most of its sections.
    """
    if named := datasets_of(preset):
        return named
    problems: dict[str, InvalidInput] = {}
    for dataset in dataset_names():
        try:
            read_config(resolve(load_dataset(dataset).config), load_preset(preset, dataset), source=f"preset {preset}")
        except InvalidInput as error:
            problems[dataset] = error
    if len(problems) == len(dataset_names()):
        raise problems[max(dataset_names(), key=lambda name: len(_sections(preset, name)))]
    return [dataset for dataset in dataset_names() if dataset not in problems]


def _sections(preset: str, dataset: str) -> set[str]:
    """Of a preset, those that the configuration of a data set has."""
    return {each.name for each in fields(resolve(load_dataset(dataset).config))} & load_preset(preset, dataset).keys()


def configuration_of(
    dataset: DataSet,
    preset: str,
    model: str | None = None,
    model_name: str | None = None,
    *,
    seed: int = 0,
    caps: Caps | None = None,
) -> Any:
    """Return a run's configuration, of the class `DataSet.config`: the preset, the command line's options over it, and
    the ledger that the environment may name. Raises `InvalidInput` for a preset that does not exist or is not for this
    data set, and for an impossible model.
    """
    content = load_preset(preset, dataset.name)  # before the class, whose room may take a second to load
    config = read_config(resolve(dataset.config), content, source=f"preset {preset}")
    _check_model(config.model.url if model is None else model, model_name)
    changes = {k: v for k, v in (("url", model), ("name", model_name)) if v is not None}
    given = {name: cap for name, cap in to_dict(caps or Caps()).items() if cap is not None}
    return replace(
        config,
        model=replace(config.model, **changes),
        caps=replace(config.caps, **given),
        ledger=ledger_url(config.ledger),
        seed=seed,
    )


def _check_model(url: str, name: str | None) -> None:
    """Raise `InvalidInput` for what is neither URLs nor the embedded model, and for another name of that."""
    check_server_url(url, "--model")
    if url != EMBEDDED and not all("://" in each for each in split_urls(url)):
        raise InvalidInput(f"{url!r} is no URL, nor {EMBEDDED!r}", field="--model")
    if url == EMBEDDED and name not in (None, *PACKAGED_MODELS):
        problem = f"the embedded model is called {', '.join(PACKAGED_MODELS)}; {name!r} wants a server, by --model URL"
        raise InvalidInput(problem, field="--model-name")


def _by_quotas(config: C, inputs: RunInputs, demand: Path) -> tuple[C, RunInputs]:
    """A run by quotas, but for those of another back end than it searches."""
    from trailforge.pipelines.sources import read_demand

    if not load_dataset(inputs.dataset).takes_demand:
        raise InvalidInput("asks for questions, and this run neither takes nor makes any; leave it out", field="demand")
    searches, asked = getattr(config, "retrieval", None), read_demand(demand)
    if searches is not None:
        asked = asked.over(searches.kind)
        if not asked.quotas:
            raise InvalidInput(
                f"has no quota for the back end {searches.kind} of this run; add one, or search by another",
                file=demand,
                field="backend",
            )
    return replace(config, demand=asked.hash), replace(inputs, demand=asked)


def leave_out(
    config: C,
    inputs: RunInputs,
    verdicts: Sequence[Path],
    audited: Path | None,
    tell: Callable[[str], None],
    *,
    demand: Path | None = None,
) -> tuple[C, RunInputs]:
    """Configure a run to skip sources that people rejected, questions that an audit found unanswerable, and questions
    that no quota asks for. `verdicts` are folders of curated runs, or their logs; `audited` is the folder of an audit,
    and `demand` a file of quotas, None for none. `tell` receives a line on rejections that are known by id alone.

    Returned are the configuration, with the hashes of audit and demand, and the inputs. Raises what `read_audited` and
    `read_demand` raise, and `InvalidInput` for a data set that is not made of questions.
    """
    if demand is not None:
        config, inputs = _by_quotas(config, inputs, demand)
    if audited is not None:
        from trailforge.pipelines.sources import read_audited

        if load_dataset(inputs.dataset).inputs.record is not Question:
            raise InvalidInput("sets questions aside, and this run takes none; leave it out", field="audited")
        inputs = replace(inputs, audited=read_audited(audited))
        config = replace(config, audited=inputs.audited.hash)
    if verdicts:
        from trailforge.curation import refusals

        inputs = replace(inputs, refused=refusals(verdicts))
        if count := inputs.refused.by_id_alone:
            tell(
                f"{count:,} rejections do not tell the text of what was rejected, and hold for all of its id; "
                "their run tells it: give its folder to --verdicts"
            )
    return config, inputs


def find_begun_as(dataset: DataSet, earlier: Settings | None, config: RunConfig) -> str:
    """Return the configuration hash under which the run in the folder was begun, when a run with `config` continues it
    under another configuration: as the second half of a run that was stopped early on purpose. Empty in all other
    cases. `earlier` are the settings of the run in the folder; None where it holds none.
    """
    if earlier is None or dataset.goes_on is None or earlier.dataset != dataset.name:
        return ""
    if earlier.config_hash == config.hash:
        return earlier.begun_as
    is_second_half = resolve(dataset.goes_on)(config, run_configuration(dataset, earlier))
    return earlier.config_hash if is_second_half else ""


def with_redo(out: Path, config: C, is_asked: bool) -> C:
    """Return the configuration with the number of times that cut replies were asked for again: as the folder's run
    says, and one more if that is asked now. A run that was stopped while asking again keeps the number.
    """
    earlier = read_settings(out)
    if earlier is None:
        if is_asked:
            raise InvalidInput("holds no run, so there are no replies to ask for anew; leave out --redo", file=out)
        return config
    number = config_of(earlier).get("redo", 0)
    begins = is_asked and (number == 0 or manifest_of(out, earlier) is not None)
    return replace(config, redo=number + begins)


def manifest_of(out: Path, settings: Settings) -> Manifest | None:
    """Return the manifest of the run with these settings if it is finished, else None. Raises what `read_manifest`
    raises.
    """
    manifest = read_manifest(out)
    return manifest if manifest is not None and manifest.run_id == settings.run_id else None
