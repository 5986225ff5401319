"""What an evaluation pays online: each model's calls at that model's own prices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from trailforge.inference import Meter, Prices
from trailforge.pipelines.runs import ModelConfig
from trailforge.schemas import AgentCosts, AgentEpisode, ModelUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrice:
    """The prices of a million tokens of a model, in the one currency of the evaluation."""

    model: str
    prompt: float
    completion: float
    cached: float | None = None
    """Price of prompt tokens in a server's prefix cache; None: as that of other prompt tokens."""


def prices_of(models: Iterable[ModelConfig]) -> tuple[ModelPrice, ...]:
    """Return the known prices of these models, each model once; of two models with one name, the last one's."""
    known = {each.name: each.prices for each in models if each.prices != Prices()}
    return tuple(
        ModelPrice(
            model=name,
            prompt=each.prompt_per_million,
            completion=each.completion_per_million,
            cached=each.cached_per_million,
        )
        for name, each in sorted(known.items())
    )


def dearest(*prices: Prices) -> Prices:
    """Return the highest price for each kind of token."""
    return Prices(
        prompt_per_million=max(each.prompt_per_million for each in prices),
        completion_per_million=max(each.completion_per_million for each in prices),
        cached_per_million=None
        if any(each.cached_per_million is None for each in prices)
        else max(each.cached_per_million or 0.0 for each in prices),
    )


def join_prices(before: Iterable[ModelPrice], now: Iterable[ModelPrice]) -> tuple[ModelPrice, ...]:
    """Join two lists of prices; where both price a model, the one in `now` holds."""
    return tuple({each.model: each for each in (*before, *now)}.values())


def read_prices_of_all(content: dict[str, Any]) -> dict[str, Any]:
    """Convert the JSON of an evaluation that was stored when all models shared one price: each model gets that
    price.
    """
    prompt, completion = content.pop("price_prompt", None), content.pop("price_completion", None)
    if prompt is None or completion is None:
        return content
    prices = [{"model": model, "prompt": prompt, "completion": completion} for model in content["models"]]
    return content | {"prices": prices}


def usage_of_others(meter: Meter, own: str) -> tuple[ModelUsage, ...]:
    """Return the usage of every model other than `own`, by name."""
    return tuple(
        ModelUsage(
            model=name, calls=each.calls, prompt_tokens=each.prompt_tokens, completion_tokens=each.completion_tokens
        )
        for name, each in sorted(meter.by_model().items())
        if name != own
    )


def costs_of(meter: Meter, model: str, *, context_tokens: int, seconds: float | None) -> AgentCosts:
    """Return the costs of an episode from the meter of its calls. `model` is the agent's own; `context_tokens` is what
    it was given to read; `seconds` is how long it took, None where that is not known."""
    usage = meter.usage(Prices())
    return AgentCosts(
        calls=usage.calls,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        others=usage_of_others(meter, model),
        cached_tokens=usage.cached_tokens or None,
        context_tokens=context_tokens,
        seconds=seconds,
    )


def mean_cost(known: Sequence[ModelPrice], episodes: Sequence[AgentEpisode]) -> float | None:
    """Return the mean cost of an episode; None where a model that was called has no price."""
    prices = {each.model: each for each in known}
    asked = [[_own_usage(each.model, each.costs), *each.costs.others] for each in episodes]
    if not {usage.model for usages in asked for usage in usages} <= prices.keys():
        return None
    saved = (_saved(prices[each.model], each.costs.cached_tokens or 0) for each in episodes)
    return fmean(
        sum(_cost(prices[usage.model], usage) for usage in usages) - less
        for usages, less in zip(asked, saved, strict=True)
    )


def _saved(price: ModelPrice, cached_tokens: int) -> float:
    """What tokens of the prefix cache cost less."""
    return 0.0 if price.cached is None else cached_tokens * (price.prompt - price.cached) / 1e6


def _own_usage(model: str, costs: AgentCosts) -> ModelUsage:
    return ModelUsage(
        model=model,
        calls=costs.calls - sum(each.calls for each in costs.others),
        prompt_tokens=costs.prompt_tokens - sum(each.prompt_tokens for each in costs.others),
        completion_tokens=costs.completion_tokens - sum(each.completion_tokens for each in costs.others),
    )


def _cost(price: ModelPrice, usage: ModelUsage) -> float:
    return (usage.prompt_tokens * price.prompt + usage.completion_tokens * price.completion) / 1e6
