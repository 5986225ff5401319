"""The rehearsal: near what was measured, the same every time, and in proportion."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.world import question
from trailforge.generators.mcts_trajectories.estimate import rehearse
from trailforge.generators.mcts_trajectories.generate import GeneratorConfig
from trailforge.inference import Prices, Usage
from trailforge.mcts.inputs import SearchConfig, WantedRows
from trailforge.pipelines.estimate import StageEstimate, count_tokens
from trailforge.schemas import Question

QUESTIONS = [question(n, 2 + n % 2) for n in range(12)]
PRICES = Prices(prompt_per_million=1.0, completion_per_million=4.0)


async def estimates(config: GeneratorConfig | None = None, **changes: int) -> list[StageEstimate]:
    return await rehearse(QUESTIONS, config or GeneratorConfig(), PRICES, **{"total": 12} | changes)


def total(lines: list[StageEstimate]) -> Usage:
    return sum((line.usage for line in lines), start=Usage())


@pytest.fixture(scope="module")
def whole() -> list[StageEstimate]:
    """`estimates`, made once."""
    return asyncio.run(estimates())


def test_every_stage_of_the_production_preset_is_there_and_has_its_cost(whole: list[StageEstimate]) -> None:
    assert [line.stage for line in whole] == ["judge", "split", "rephrase", "answer"]
    for line in whole:
        usage = line.usage
        assert usage.calls > 0 and usage.prompt_tokens > 20 * usage.calls
        assert usage.cost == pytest.approx((usage.prompt_tokens + 4 * usage.completion_tokens) / 1e6)


async def test_a_sample_stands_for_all_and_always_says_the_same(whole: list[StageEstimate]) -> None:
    assert total(await estimates(total=1200)).calls == pytest.approx(100 * total(whole).calls)
    assert await estimates() == whole


async def test_a_shorter_search_is_estimated_as_cheaper(whole: list[StageEstimate]) -> None:
    few = WantedRows(correct=1, retrieval=0, reasoning=0, decomposition=0)
    short = GeneratorConfig(search=SearchConfig(wanted=few, max_calls=30, oracle_rollouts=2))
    assert total(await estimates(short)).calls < 0.8 * total(whole).calls


async def test_questions_without_paragraphs_are_estimated_with_usual_ones() -> None:
    bare = [Question(id=q.id, question=q.question, answer=q.answer) for q in QUESTIONS]
    lines = await rehearse(bare, GeneratorConfig(), PRICES, total=12)
    assert total(lines).prompt_tokens > 0


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("Who directed Metropolis?", 6), ("born in 1890.", 7), ("Ünïcode\nlines", 4)]
)
def test_tokens_are_counted_by_words_digits_and_marks(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


async def test_the_demo_comes_out_as_it_was_measured() -> None:
    """A run with the embedded model: 808 calls, 211,494 prompt tokens, 3,770 others."""
    from trailforge.generators.mcts_trajectories.config import MctsRunConfig
    from trailforge.generators.mcts_trajectories.estimate import estimate
    from trailforge.pipelines.runs.config import read_config
    from trailforge.pipelines.runs.intake import RunInputs
    from trailforge.presets import load_preset

    source = Path(__file__).parents[2] / "sample_data" / "musique_style_questions.jsonl"
    config = read_config(MctsRunConfig, load_preset("demo", "mcts_trajectories"), source="demo")
    estimated = await asyncio.to_thread(estimate, RunInputs(dataset="mcts_trajectories", files=(source,)), config)
    usage = sum((line.usage for line in estimated.stages), start=Usage())
    assert estimated.items == estimated.sampled == 36
    assert usage.calls == pytest.approx(808, rel=0.2)
    assert usage.prompt_tokens == pytest.approx(211_494, rel=0.2)
    assert usage.completion_tokens == pytest.approx(3_770, rel=0.25)
