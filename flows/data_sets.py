"""Make the Prefect flow of any data set on demand: `data_sets.mcts_trajectories` is the flow of `mcts-trajectories`.

A flow is made of what its data set declares, when its name is asked for; so a deployment names
`flows/data_sets.py:<data set>` and a data set of another package has one, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_type_hints

from prefect import Flow, flow

from trailforge.flows.execute import RunRequest, execute
from trailforge.flows.prefect_driver import PrefectDriver
from trailforge.pipelines import DataSet, RunOption, dataset_names, load_dataset
from trailforge.schemas import Manifest

_OF_EVERY_RUN = [each for each in fields(RunRequest) if each.name not in ("dataset", "files", "options")]


def __getattr__(name: str) -> Flow[..., Manifest]:
    """The flow of a data set, as an attribute of this module: Prefect finds flows that way."""
    if name not in dataset_names():
        raise AttributeError(f"no data set {name!r}; there are {', '.join(dataset_names())}")
    return flow_of(name)


@cache
def flow_of(name: str) -> Flow[..., Manifest]:
    """Return the Prefect flow of a data set. Its parameters are the data set's options and the fields of `RunRequest`.
    Raises `InvalidInput` for a data set that is not installed.
    """
    dataset = load_dataset(name)

    def make(**given: Any) -> Manifest:
        files, options = dataset.read({each: given.pop(each) for each in dataset.given})
        return execute(RunRequest(dataset=name, files=files, options=options, **given), PrefectDriver())

    make.__name__ = name
    make.__doc__ = _describe(dataset)
    make.__signature__ = inspect.Signature(list(_parameters(dataset)))  # pyright: ignore[reportFunctionMemberAccess]
    return flow(name=dataset.command)(make)


def _describe(dataset: DataSet) -> str:
    """What it does, and each parameter in the form in which Prefect shows it beside its field."""
    lines = [f"    {name}: {option.help}" for name, option in dataset.given.items()]
    return "\n".join([dataset.about, *(["", "Args:", *lines] if lines else [])])


def _parameters(dataset: DataSet) -> Iterator[inspect.Parameter]:
    for name, option in dataset.given.items():
        is_needed = option is dataset.files
        default = inspect.Parameter.empty if is_needed else False if option.takes is bool else None
        yield inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_annotate(option, is_needed)
        )
    types = get_type_hints(RunRequest)
    for each in _OF_EVERY_RUN:
        if each.name == "limit" and dataset.files is None:
            continue
        default = inspect.Parameter.empty if each.default is MISSING else each.default
        if each.name == "preset":
            default = dataset.preset
        yield inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=types[each.name])


def _annotate(option: RunOption, is_needed: bool) -> Any:
    takes: Any = Literal[option.words] if option.words else option.takes
    if is_needed and takes is str:
        takes = str | Path  # of a file
    if option.many:
        takes = list[takes]
    return takes if is_needed or takes is bool else takes | None
