"""Bounds that are said before a run hold for what the run took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.pipelines.bundles_support import FinishedBundles
from tests.pipelines.kg_support import FREE, GUIDED, WRITTEN, FinishedKg
from trailforge.generators.document_bundles.estimate import estimate as of_bundles
from trailforge.generators.kg_questions.estimate import estimate as of_questions
from trailforge.generators.kg_trajectories.estimate import estimate as of_trajectories
from trailforge.pipelines.estimate import Estimate
from trailforge.pipelines.runs.intake import RunInputs
from trailforge.schemas import Manifest


def holds(estimate: Estimate, manifest: Manifest) -> bool:
    """Whether the run took no more, and no less than a hundredth of it: a bound that says nothing is none."""
    usage = estimate.usage
    is_enough = manifest.calls <= usage.calls and manifest.completion_tokens <= usage.completion_tokens
    return estimate.is_bound and is_enough and manifest.calls > usage.calls / 100


@pytest.mark.parametrize(("name", "config"), [("free", FREE), ("guided", GUIDED)])
def test_the_bound_of_kg_trajectories_holds(name: str, config: object, original_kg: Mapping[str, FinishedKg]) -> None:
    run = original_kg[name]
    (source,) = run.manifest.inputs[:1]
    inputs = RunInputs(dataset="kg_trajectories", files=(run.folder.parent / source.path,))
    estimate = of_trajectories(inputs, config.on_graph(run.graph))  # pyright: ignore
    assert holds(estimate, run.manifest), (estimate.usage, run.manifest)


def test_the_bound_of_kg_questions_holds(original_kg: Mapping[str, FinishedKg]) -> None:
    run = original_kg["written"]
    estimate = of_questions(RunInputs(dataset="kg_questions"), WRITTEN.on_graph(run.graph))
    assert holds(estimate, run.manifest), (estimate.usage, run.manifest)
    half = of_questions(
        RunInputs(dataset="kg_questions"), replace(WRITTEN, count=WRITTEN.count // 2).on_graph(run.graph)
    )
    assert estimate.items == run.settings.items < WRITTEN.count, "the graph gives out"
    assert half.items == WRITTEN.count // 2
    assert half.usage.calls * estimate.items == estimate.usage.calls * half.items


def test_the_bound_of_bundles_holds(original_bundles: FinishedBundles) -> None:
    run = original_bundles
    estimate = of_bundles(RunInputs(dataset="document_bundles", files=(run.source,)), run.config)
    assert holds(estimate, run.manifest), (estimate.usage, run.manifest)
    assert not of_bundles(
        RunInputs(dataset="document_bundles", files=(run.source,)), replace(run.config, questions=False)
    ).stages
