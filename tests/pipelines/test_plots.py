"""Figures of cards: the same bytes for the same input, and they show what they were given."""

from __future__ import annotations

from tests.support.figures import pixels
from trailforge.generators.kg_trajectories.card import draw_rewards
from trailforge.pipelines.cards import plots
from trailforge.schemas import Count, StageCount

STAGES = (
    StageCount(name="content", inputs=1200, accepted=1000, rejected=(Count(reason="too_short", count=200),)),
    StageCount(name="questions", inputs=0, accepted=0),
)


def test_funnel(texts: list[str]) -> None:
    png = plots.funnel(STAGES)
    assert png == plots.funnel(STAGES)
    assert {"content", "1,000 of 1,200", "too short 200", "questions", "0 of 0"} <= set(texts)
    assert pixels(plots.funnel(STAGES * 3))[1] > pixels(png)[1] > pixels(plots.funnel(()))[1]


def test_rewards(texts: list[str]) -> None:
    """Means are of the selected rows; a part without any is drawn empty."""
    parts = {"total": ([1.0, 2.0], [0.0]), "gain": ([-0.4], []), "recall": ([], []), "penalty": ([], [0.5])}
    png = draw_rewards(parts)
    assert png == draw_rewards(parts)
    said = {"total: 2 selected, mean 1.50", "gain: 1 selected, mean -0.40", "recall: 0 selected", "penalty: 0 selected"}
    assert said <= set(texts)
    assert pixels(draw_rewards({"total": ([], [])}))[1] < pixels(png)[1]
