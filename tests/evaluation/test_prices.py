"""What models cost: each its own prices, in tables and under caps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.agent_episodes import COSTS
from tests.support.evaluations import evaluation, play_cell
from trailforge.evaluation.builds import check_writer, choose_writer
from trailforge.evaluation.folder import read_evaluation, write_evaluation
from trailforge.evaluation.prices import ModelPrice, join_prices, mean_cost, prices_of, read_prices_of_all
from trailforge.inference import Caps, Prices
from trailforge.inference.provider.parameters import Parameters
from trailforge.pipelines.runs.config import ModelConfig
from trailforge.retrieval.backends import load_backend
from trailforge.schemas import InvalidInput, to_dict
from trailforge.schemas.agent_episode import AgentEpisode, ModelUsage

LOCAL = ModelConfig(
    name="mine",
    url="http://here/v1",
    reasoning="inline",
    extra_body='{"top_k": 20}',
    parameters=Parameters(omit=("seed",)),
    prompt_price_per_million=1.0,
    completion_price_per_million=4.0,
)
BUILDER = ModelConfig(
    name="mini", url="http://there/v1", prompt_price_per_million=10.0, completion_price_per_million=20.0
)
SERVED = ("http://here/v1", "mine")


def chosen(named: str | None, builder: ModelConfig | None = None, caps: Caps | None = None) -> ModelConfig:
    writer = choose_writer(named, builder, LOCAL, SERVED, Path("out"), caps or Caps())
    assert writer is not None
    return writer.model


def test_another_model_has_none_of_the_evaluated_ones_prices_and_ways() -> None:
    assert chosen("http://other/v1#big") == ModelConfig(name="big", url="http://other/v1")
    assert chosen("http://other/v1#big", BUILDER) == ModelConfig(name="big", url="http://other/v1")


def test_the_same_model_elsewhere_is_asked_as_it_is() -> None:
    assert chosen(None) == LOCAL and chosen(None, BUILDER) == BUILDER
    assert chosen("http://other/v1#mine") == replace(LOCAL, url="http://other/v1")
    assert chosen("http://other/v1#mini", BUILDER) == replace(BUILDER, url="http://other/v1")


def test_a_cap_on_cost_wants_the_prices_of_who_is_asked() -> None:
    def check(named: str | None, caps: Caps, name: str = "hippo_rag") -> None:
        writer = choose_writer(named, BUILDER, LOCAL, SERVED, Path("out"), caps)
        check_writer(writer, name, load_backend(name).config())

    with pytest.raises(
        InvalidInput, match=r"caps nothing of what big is asked: .*builder: .*prompt_price_per_million"
    ) as error:
        check("http://other/v1#big", Caps(max_cost=3.0))
    assert error.value.field == "--max-cost" and "\n" not in str(error.value)
    check("http://other/v1#big", Caps(max_calls=3))
    check(None, Caps(max_cost=3.0))
    check("http://other/v1#big", Caps(max_cost=3.0), "hippo_rag_plain")  # asks nobody


def test_under_a_cap_on_cost_all_tokens_count_at_the_dearer_prices() -> None:
    """Which of the ledger's tokens are whose is not kept: the cap holds all the same, and may be early."""
    writer = choose_writer(None, BUILDER, LOCAL, SERVED, Path("out"), Caps(max_cost=3.0))
    assert writer is not None and writer.capped_at == Prices(prompt_per_million=10.0, completion_per_million=20.0)
    assert writer.client.prices == writer.capped_at and writer.prices == BUILDER.prices
    own = choose_writer(None, None, LOCAL, SERVED, Path("out"), Caps(max_cost=3.0))
    assert own is not None and own.capped_at == LOCAL.prices


def episode(model: str, prompt: int, completion: int, *others: ModelUsage) -> AgentEpisode:
    costs = replace(COSTS, prompt_tokens=prompt, completion_tokens=completion, others=others)
    return replace(play_cell("search_o1", "dense", 1, (0,))[0], model=model, costs=costs)


def test_calls_of_searches_cost_what_their_model_costs() -> None:
    searching = ModelUsage(model="mini", calls=2, prompt_tokens=1_000_000, completion_tokens=500_000)
    rows = [episode("mine", 3_000_000, 1_000_000, searching), episode("mine", 1_000_000, 0)]
    known = prices_of([LOCAL, BUILDER])
    assert mean_cost(known, rows) == pytest.approx(((2 * 1 + 0.5 * 4) + (1 * 10 + 0.5 * 20) + 1) / 2)
    assert mean_cost(prices_of([LOCAL, ModelConfig(name="mini")]), rows) is None, "nobody knows what that costs"
    assert mean_cost(prices_of([LOCAL]), rows[1:]) == 1.0
    assert mean_cost((), rows) is None


def test_a_models_prices_are_no_other_models() -> None:
    old = (ModelPrice(model="a", prompt=1, completion=2), ModelPrice(model="b", prompt=3, completion=4))
    new = (ModelPrice(model="b", prompt=5, completion=6),)
    assert join_prices(old, new) == (old[0], new[0])
    assert prices_of([LOCAL, BUILDER, ModelConfig()]) == (
        ModelPrice(model="mine", prompt=1, completion=4),
        ModelPrice(model="mini", prompt=10, completion=20),
    )


def test_a_price_that_was_one_for_all_models_is_that_of_each(tmp_path: Path) -> None:
    write_evaluation(tmp_path, evaluation(models=("a", "b"), prices=()))
    stored = to_dict(read_evaluation(tmp_path))
    del stored["prices"]
    read = read_prices_of_all({**stored, "price_prompt": 1.0, "price_completion": 2.0})["prices"]
    assert read == [{"model": name, "prompt": 1.0, "completion": 2.0} for name in ("a", "b")]
    assert "prices" not in read_prices_of_all({**stored, "price_prompt": None, "price_completion": None})
