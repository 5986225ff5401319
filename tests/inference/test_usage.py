"""Usage: what is counted, and what it costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.inference import Meter, Prices, Reply, Usage
from trailforge.schemas import CallCount

PRICES = Prices(prompt_per_million=2.0, completion_per_million=10.0)


def reply(key: str, prompt: int, completion: int, *, from_ledger: bool = False) -> Reply:
    return Reply(
        text="x",
        finish_reason="stop",
        prompt_tokens=prompt,
        completion_tokens=completion,
        key=key,
        from_ledger=from_ledger,
    )


def metered(*replies: Reply) -> Meter:
    meter = Meter()
    for each in replies:
        meter.add(each)
    return meter


def test_an_empty_meter_has_used_nothing() -> None:
    assert Meter().usage(PRICES) == Usage()


def test_distinct_calls_add_up() -> None:
    usage = metered(reply("a", 100, 10), reply("b", 1, 2)).usage(PRICES)
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens) == (2, 101, 12)


def test_a_call_that_is_seen_again_counts_once() -> None:
    meter = metered(reply("a", 100, 10), reply("b", 1, 2), reply("a", 100, 10), reply("a", 100, 10))
    assert meter.calls == 2
    assert meter.usage(PRICES) == metered(reply("a", 100, 10), reply("b", 1, 2)).usage(PRICES)


def test_a_reply_from_the_ledger_counts_as_one_that_was_paid() -> None:
    paid = metered(reply("a", 100, 10)).usage(PRICES)
    assert metered(reply("a", 100, 10, from_ledger=True)).usage(PRICES) == paid


def test_two_calls_of_the_same_size_are_two_calls() -> None:
    assert metered(reply("a", 5, 5), reply("b", 5, 5)).usage(PRICES).prompt_tokens == 10


def test_the_cost_follows_from_the_prices_per_million() -> None:
    usage = metered(reply("a", 1_500_000, 0), reply("b", 0, 300_000)).usage(PRICES)
    assert usage.cost == pytest.approx(1.5 * 2 + 0.3 * 10)


def test_without_prices_nothing_costs_anything() -> None:
    assert metered(reply("a", 1_500_000, 9)).usage(Prices()).cost == 0.0


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 10**6)), max_size=20), st.integers(0, 20))
def test_work_that_is_cut_in_two_costs_the_sum_of_both_parts(calls: list[tuple[str, int]], cut: int) -> None:
    distinct = {key: reply(key, tokens, tokens // 3) for key, tokens in calls}
    replies = list(distinct.values())
    whole = metered(*replies).usage(PRICES)
    parts = metered(*replies[:cut]).usage(PRICES) + metered(*replies[cut:]).usage(PRICES)
    assert (parts.calls, parts.prompt_tokens, parts.completion_tokens) == (
        whole.calls,
        whole.prompt_tokens,
        whole.completion_tokens,
    )
    assert parts.cost == pytest.approx(whole.cost)
    assert whole.calls == len(distinct)


def test_usages_add_in_every_field() -> None:
    one = Usage(calls=1, prompt_tokens=2, completion_tokens=3, cached_tokens=1, cost=4.0)
    assert one + Usage(calls=10, prompt_tokens=20, completion_tokens=30, cached_tokens=10, cost=40.0) == Usage(
        calls=11, prompt_tokens=22, completion_tokens=33, cached_tokens=11, cost=44.0
    )


def test_tokens_of_the_prefix_cache_have_a_price_of_their_own() -> None:
    usage = Usage(calls=1, prompt_tokens=1_000_000, completion_tokens=0, cached_tokens=750_000)
    assert Prices(prompt_per_million=4.0, cached_per_million=0.4).cost(usage) == pytest.approx(1.3)
    assert Prices(prompt_per_million=4.0).cost(usage) == pytest.approx(4.0)
    assert Prices(prompt_per_million=4.0, cached_per_million=0.0).cost(usage) == pytest.approx(1.0)


def test_calls_are_counted_by_purpose() -> None:
    meter = Meter()
    for key, purpose in (("a", "answer"), ("b", "answer"), ("c", "split"), ("d", "")):
        meter.add(reply(key, 1, 1), purpose)
    meter.add(reply("a", 1, 1), "answer")
    counts = meter.usage(PRICES).by_purpose
    assert counts == (CallCount(purpose="answer", calls=2), CallCount(purpose="split", calls=1))


def test_a_call_for_two_purposes_counts_once_whichever_came_first() -> None:
    one, other = Meter(), Meter()
    one.add(reply("a", 1, 1), "split")
    other.add(reply("a", 1, 1), "answer")
    assert (one + other).usage(PRICES).by_purpose == (other + one).usage(PRICES).by_purpose
    assert (one + other).usage(PRICES).by_purpose == (CallCount(purpose="answer", calls=1),)


def test_purposes_add_up() -> None:
    one = Usage(calls=1, by_purpose=(CallCount(purpose="split", calls=1),))
    other = Usage(calls=3, by_purpose=(CallCount(purpose="answer", calls=2), CallCount(purpose="split", calls=1)))
    both = (CallCount(purpose="answer", calls=2), CallCount(purpose="split", calls=2))
    assert (one + other).by_purpose == (other + one).by_purpose == both
