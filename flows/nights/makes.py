"""Read which data sets a night makes, each from the window's documents or from the questions of another one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trailforge.pipelines import dataset_names, load_dataset
from trailforge.schemas import InvalidInput, from_dict

OF_DOCUMENTS = "documents"
"""Input of an entry that is made from the documents of the window."""
PARAMETERS = ("kg", "benchmarks")
"""Names of a night's parameters that entries may take or need."""
_NAME = re.compile(r"[a-z][a-z0-9_-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDataSet:
    """One data set that every window makes."""

    folder: str
    """Name of the run's folder, in the window's folder."""
    dataset: str
    preset: str
    input: str = OF_DOCUMENTS
    """The entry's input: `documents`, or the folder of an earlier entry, whose questions are asked."""
    takes: tuple[str, ...] = ()
    """Names of the night's parameters that the data set is given."""
    needs: tuple[str, ...] = ()
    """Names of parameters, as in `takes`, without which the data set is left out."""
    scope: str = ""
    """What the data set's flow searches, where a flow can be told; empty: as the preset says."""
    config_hash: str = ""
    """Hash of the configuration that preset and parameters gave when the window was begun; empty where the data set
    is left out."""


def read_makes(content: Mapping[str, Any], *, source: str) -> tuple[PlannedDataSet, ...]:
    """Read the list of data sets in a night's preset. Raises `InvalidInput` naming an entry that no night can make. All
    questions of a window come from one entry.
    """
    entries = content.get("makes")
    if not isinstance(entries, list) or not entries or set(content) != {"makes"}:
        raise InvalidInput("expected one list `makes` of data sets", file=source, field="makes")
    makes: list[PlannedDataSet] = []
    for number, entry in enumerate(entries):
        try:
            make = from_dict(PlannedDataSet, entry)
            _check(make, makes)
        except InvalidInput as error:
            where = f"makes[{number}]" + (f".{error.field}" if error.field else "")
            raise InvalidInput(error.problem, file=source, field=where) from error
        makes.append(make)
    return tuple(makes)


def _check(make: PlannedDataSet, before: list[PlannedDataSet]) -> None:
    if make.config_hash:
        raise InvalidInput("is computed and cannot be given; leave it out", field="config_hash")
    if not _NAME.fullmatch(make.folder) or make.folder in {OF_DOCUMENTS, *(each.folder for each in before)}:
        raise InvalidInput(f"{make.folder!r}: expected a name of its own, of small letters", field="folder")
    if make.dataset not in dataset_names():
        raise InvalidInput(f"no data set {make.dataset!r}; there are {', '.join(dataset_names())}", field="dataset")
    if load_dataset(make.dataset).files is None:
        raise InvalidInput(
            f"{make.dataset} takes no input file, and so nothing of a window; leave it out", field="dataset"
        )
    for name in ("takes", "needs"):
        if unknown := sorted(set(getattr(make, name)) - set(PARAMETERS)):
            raise InvalidInput(f"no parameter {unknown[0]!r}; there are {', '.join(PARAMETERS)}", field=name)
    if make.input == OF_DOCUMENTS:
        return
    givers = [each.folder for each in before if load_dataset(each.dataset).ask_elsewhere]
    if make.input not in givers:
        known = ", ".join((OF_DOCUMENTS, *givers))
        raise InvalidInput(
            f"no entry before this one makes questions of {make.input!r}; there are {known}", field="input"
        )
    asked = {each.input for each in before} - {OF_DOCUMENTS}
    if asked and make.input not in asked:
        raise InvalidInput(
            f"the questions of a window come from one entry, here {min(asked)}; name that one", field="input"
        )
