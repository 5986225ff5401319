"""The list of what a night makes: the shipped one is for real data sets, and a wrong entry is named."""

from __future__ import annotations

from typing import Any

import pytest

from trailforge.flows.nights.makes import OF_DOCUMENTS, PlannedDataSet, read_makes
from trailforge.presets import load_night, preset_names
from trailforge.schemas import InvalidInput

BUNDLES = {"folder": "bundles", "dataset": "document_bundles", "preset": "r-search"}
MCTS = {"folder": "mcts", "dataset": "mcts_trajectories", "preset": "msearcher", "input": "bundles"}


def read(*entries: Any) -> tuple[PlannedDataSet, ...]:
    return read_makes({"makes": list(entries)}, source="night.yaml")


@pytest.mark.parametrize(("night", "more"), [("nightly", []), ("agent-trajectories", [("agents", "bundles")])])
def test_a_shipped_night_names_data_sets_and_presets_that_there_are(night: str, more: list[tuple[str, str]]) -> None:
    makes = read_makes(load_night(night), source=night)
    assert [(make.folder, make.input) for make in makes] == [
        ("bundles", OF_DOCUMENTS), ("mcts", "bundles"), ("kg", "bundles"), *more
    ]  # fmt: skip
    assert all(make.preset in preset_names(make.dataset) for make in makes)


@pytest.mark.parametrize(
    ("entries", "field", "problem"),
    [
        ((), "makes", "expected one list"),
        ((BUNDLES | {"dataset": "films"},), "makes[0].dataset", "no data set 'films'; there are .*document_bundles"),
        ((BUNDLES, MCTS | {"folder": "bundles"}), "makes[1].folder", "expected a name of its own"),
        ((BUNDLES | {"folder": "../x"},), "makes[0].folder", "expected a name of its own"),
        ((BUNDLES | {"takes": ["moon"]},), "makes[0].takes", "no parameter 'moon'"),
        ((MCTS,), "makes[0].input", "no entry before this one makes questions of 'bundles'"),
        ((BUNDLES, MCTS, MCTS | {"folder": "kg", "input": "mcts"}), "makes[2].input", "there are documents, bundles"),
        (
            (BUNDLES, BUNDLES | {"folder": "more"}, MCTS, MCTS | {"folder": "kg", "input": "more"}),
            "makes[3].input",
            "come from one entry, here bundles",
        ),
        ((BUNDLES | {"config_hash": "x"},), "makes[0].config_hash", "is computed and cannot be given"),
        ((BUNDLES | {"colour": 1},), "makes[0].colour", "unknown field"),
        (("bundles",), "makes[0].PlannedDataSet", "expected an object"),
    ],
)
def test_an_entry_that_no_night_can_make_is_named(entries: tuple[Any, ...], field: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as caught:
        read(*entries)
    assert (caught.value.field, caught.value.file) == (field, "night.yaml")
