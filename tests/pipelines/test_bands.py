"""Figures of finished runs against their bands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.bundles_support import FinishedBundles
from tests.pipelines.kg_support import FinishedKg
from tests.pipelines.support import FinishedRun
from trailforge.flows.nights.bands import Band, figures_of, find_breaches, outside, outside_of_window, read_bands
from trailforge.presets import declared_datasets, load_bands
from trailforge.schemas import Count, InvalidInput, Manifest, StageCount

MANIFEST = Manifest(
    run_id="r", dataset="mcts_trajectories", schema_versions=(), config_hash="c", inputs=(), files=(), model="m",
    stages=(
        StageCount(name="search", inputs=10, accepted=9, failed=(Count(reason="context_overflow", count=1),)),
        StageCount(name="filter", inputs=40, accepted=10, rejected=(Count(reason="length", count=30),)),
        StageCount(name="idle", inputs=0, accepted=0),
    ),
    calls=200, prompt_tokens=1, completion_tokens=1, cut_replies=20, cost=5.0, seconds=60.0,
    calls_per_accepted_row=20.0, cost_per_accepted_row=0.5, trailforge_version="0",
)  # fmt: skip


def bands(**figures: dict[str, float]) -> Any:
    content = {"mcts_trajectories": {name.replace("__", "."): band for name, band in figures.items()}}
    return read_bands(content, source="bands.yaml", datasets=tuple(declared_datasets()))


def test_figures_are_shares_of_a_stage_and_what_an_accepted_row_took() -> None:
    assert figures_of(MANIFEST) == {
        "calls_per_accepted_row": 20.0, "cost_per_accepted_row": 0.5, "cut_replies": 0.1,
        "search.accepted": 0.9, "search.failed": 0.1, "filter.accepted": 0.25, "filter.failed": 0.0,
    }  # fmt: skip


def test_a_figure_outside_is_named_with_its_band() -> None:
    found = outside(MANIFEST, bands(filter__accepted={"least": 0.3}, search__accepted={"least": 0.9, "most": 1.0}))
    assert [breach.line for breach in found] == ["mcts_trajectories: filter.accepted is 0.25, should be at least 0.3"]
    found = outside(MANIFEST, bands(cost_per_accepted_row={"least": 0.01, "most": 0.4}))
    assert found[0].line.endswith("cost_per_accepted_row is 0.5, should be at least 0.01 and at most 0.4")
    assert outside(replace(MANIFEST, dataset="kg_trajectories"), bands(cut_replies={"most": 0})) == []


def test_a_figure_that_is_not_there_is_outside() -> None:
    nothing = replace(MANIFEST, calls_per_accepted_row=None)
    found = outside(nothing, bands(calls_per_accepted_row={"most": 99}, idle__accepted={"least": 0.0}))
    assert [breach.value for breach in found] == [None, None] and "is not there" in found[0].line


@pytest.mark.parametrize(
    ("documents", "questions", "figures"),
    [(5, 0, ["questions"]), (0, 0, ["documents"]), (5, 2, []), (9, 0, ["documents", "questions"])],
)
def test_a_night_that_yields_nothing_is_told_once(documents: int, questions: int, figures: list[str]) -> None:
    held = {"window": {"questions": Band(least=1), "documents": Band(least=1, most=8)}}
    found = outside_of_window(documents=documents, questions=questions, bands=held)
    assert sorted(breach.figure for breach in found) == figures
    house = read_bands(load_bands("nightly"), source="nightly", datasets=tuple(declared_datasets()))
    assert len(outside_of_window(documents=documents, questions=questions, bands=house)) == (questions == 0)
    only = {"window": {"questions": Band(least=1)}}
    assert len(outside_of_window(documents=documents, questions=questions, bands=only)) == (questions == 0)


@given(value=st.floats(0, 10), least=st.none() | st.floats(0, 10), most=st.none() | st.floats(0, 10))
def test_outside_is_what_is_below_least_or_above_most(value: float, least: float | None, most: float | None) -> None:
    held = {"window": {"documents": Band(least=least, most=most)}}
    is_outside = (least is not None and value < least) or (most is not None and value > most)
    assert bool(find_breaches("window", {"documents": value}, held)) == is_outside


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"musique": {}}, "field 'musique': no data set; there are window, .*document_bundles"),
        ({"window": []}, "field 'window': expected a mapping"),
        ({"window": {"cost": {"most": 1}}}, "'window.cost': no figure has this name; there are documents, questions"),
        (
            {"kg_trajectories": {"filter": {"most": 1}}},
            "'kg_trajectories.filter': no figure has this name; there are ca",
        ),
        (
            {"kg_trajectories": {"filter.kept": {"most": 1}}},
            "no figure has this name; .* STAGE.accepted and STAGE.failed",
        ),
        ({"window": {"documents": {"max": 1}}}, "'window.documents': expected numbers as least and most"),
        ({"window": {"documents": 3}}, "expected numbers as least and most"),
        ({"window": {"documents": {}}}, "without any bound"),
        ({"window": {"documents": {"least": 2, "most": 1}}}, "least is more than most"),
    ],
)
def test_a_file_that_says_nothing_sensible_is_refused_by_field(content: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        read_bands(content, source="bands.yaml", datasets=tuple(declared_datasets()))
    assert caught.value.file == "bands.yaml"


def test_the_bands_of_the_house_are_of_stages_that_runs_have(
    original_run: FinishedRun, original_bundles: FinishedBundles, original_kg: Mapping[str, FinishedKg]
) -> None:
    house = read_bands(load_bands("nightly"), source="nightly", datasets=tuple(declared_datasets()))
    manifests = [original_run.manifest, original_bundles.manifest, original_kg["free"].manifest]
    assert {"window", *(manifest.dataset for manifest in manifests)} == set(house)
    for manifest in manifests:
        assert set(house[manifest.dataset]) <= set(figures_of(manifest))
    with pytest.raises(InvalidInput, match="there are nightly"):
        load_bands("nope")
