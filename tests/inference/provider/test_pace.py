"""How much a server takes is learned from what it refuses: the arithmetic, by properties and in virtual time."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trailforge.inference.provider.pace import CallWindow, Pacer, Spell
from trailforge.inference.throttle import Lane, ThrottleConfig

LIMITS = ThrottleConfig(most=64, backoff_s=0.5, stall_s=60.0)

# The window


@given(st.integers(1, 500), st.lists(st.booleans(), max_size=300))
def test_a_window_stays_between_one_and_the_most(most: int, successes: list[bool]) -> None:
    window = CallWindow(most)
    assert window.size == min(32, most)
    for now, success in enumerate(successes):
        before = window.size
        if success:
            window.grow()
            assert before <= window.size <= before + 1
        else:
            assert window.cut(sent_at=now - 0.5, now=now, others=0)
            assert window.size <= max(1, 0.7 * (before + 1))
        assert 1 <= window.size <= most


@given(st.lists(st.floats(0, 10), min_size=1, max_size=50))
def test_refusals_of_one_round_trip_cut_a_window_once(sent: list[float]) -> None:
    window = CallWindow(64)
    assert [window.cut(sent_at=at, now=10.0, others=0) for at in sent] == [True] + [False] * (len(sent) - 1)
    assert window.size == 22
    assert window.cut(sent_at=10.5, now=11.0, others=0)


def test_a_window_comes_back_fast_to_where_trouble_began_and_slowly_beyond() -> None:
    window = CallWindow(64)
    window.cut(sent_at=0.0, now=1.0, others=0)
    sizes = []
    for _ in range(60):
        window.grow()
        sizes.append(window.size)
    assert sizes[:6] == [23, 24, 25, 26, 27, 28]
    assert sizes[-1] <= 31


def volley(window: CallWindow, now: float, slots: int, more: int = 1) -> bool:
    """So many calls too many were sent at once to a server with slots: whether the first refusal was news."""
    told = [window.cut(sent_at=now - 0.1, now=now, others=slots + left) for left in reversed(range(more))]
    return told[0]


def test_a_server_that_refuses_by_count_alone_has_so_many_slots_and_is_given_as_many_calls() -> None:
    window = CallWindow(64)
    assert volley(window, 1.0, 32, more=12) and not window.is_counted
    assert volley(window, 2.0, 32, more=3) and not window.is_counted
    assert not volley(window, 3.0, 33), "it tells nothing new: nobody has to wait"
    assert window.is_counted and window.size == 32
    sizes: list[int] = []
    for _ in range(32 * 2 + 4):
        window.grow()
        sizes.append(window.size)
    assert sizes[60] == 32 and sizes[-1] == 33, "one more is tried after two round trips"
    assert not volley(window, 9.0, 32) and window.size == 32


@pytest.mark.parametrize("others", [29, 3])
def test_a_server_that_refuses_with_fewer_under_way_has_no_slots_after_all(others: int) -> None:
    window = CallWindow(64)
    for now in (1.0, 2.0, 3.0):
        volley(window, now, 32)
    assert window.is_counted
    assert window.cut(sent_at=3.5, now=4.0, others=others) and not window.is_counted
    assert window.size == 22


def test_few_calls_are_under_way_as_many_as_before_by_chance() -> None:
    window = CallWindow(64)
    assert all(volley(window, now, 5) for now in (1.0, 2.0, 3.0, 4.0)) and not window.is_counted


# The pace


def drive(rate: float, burst: int, seconds: float, *, wait_s: float | None, rtt: float = 0.02) -> tuple[int, int]:
    """A lane that always wants to send against a token bucket, in virtual time: calls admitted, calls refused."""
    lane, now, tokens, filled, admitted, refused = Lane("", LIMITS, 0.0), 0.0, float(burst), 0.0, 0, 0
    under_way: list[tuple[float, Any, bool]] = []
    while now < seconds:
        at = lane.ready_at(now)
        if under_way and under_way[0][0] <= max(at, now):
            now, permit, fine = under_way.pop(0)
            lane.in_flight -= 1
            lane.replied() if fine else lane.refused(permit, wait_s, now)
            continue
        now = max(at, now)
        tokens, filled = min(burst, tokens + rate * (now - filled)), now
        fine = tokens >= 1
        tokens -= fine
        admitted, refused = admitted + fine, refused + (not fine)
        under_way.append((now + rtt, lane.send(now), fine))
    return admitted, refused


@pytest.mark.parametrize("wait_s", [1.0, None])
@settings(max_examples=8)
@given(rate=st.floats(20, 400), reserve_s=st.floats(0.2, 1.0))
def test_most_of_a_permitted_rate_is_used_and_little_is_refused(
    wait_s: float | None, rate: float, reserve_s: float
) -> None:
    burst = max(4, int(rate * reserve_s))
    admitted, refused = drive(rate, burst, 60.0, wait_s=wait_s)
    assert admitted >= 0.7 * (burst + 60 * rate)
    assert refused <= 0.1 * admitted + 60


@pytest.mark.parametrize("rtt", [0.02, 0.1])
@pytest.mark.parametrize(("wait_s", "seconds", "share"), [(1.0, 90.0, 0.95), (1.0, 300.0, 0.975), (None, 60.0, 0.95)])
def test_nearly_all_of_fifty_a_second_is_used(wait_s: float | None, seconds: float, share: float, rtt: float) -> None:
    """Each refusal with `Retry-After: 1` costs what the reserve of 20 does not hold of that second. Of the calls that
    are sent before the word of a refusal comes, some are refused, too: which is no hiccup, however long that takes.
    """
    random.seed(0)
    admitted, refused = drive(50, 20, seconds, wait_s=wait_s, rtt=rtt)
    assert admitted >= share * (20 + seconds * 50)
    assert refused < 70


def test_nothing_is_spaced_while_nothing_is_refused() -> None:
    pacer = Pacer(0.0)
    for n in range(1000):
        assert pacer.ready_at(n * 1e-4) == n * 1e-4
        pacer.sent(n * 1e-4)


@given(st.lists(st.tuples(st.floats(0, 5), st.booleans()), max_size=200))
def test_no_history_stops_a_pacer_for_ever(events: list[tuple[float, bool]]) -> None:
    pacer, now = Pacer(0.0), 0.0
    for pause, is_refused in events:
        now = max(now + pause, pacer.ready_at(now + pause))
        spell = pacer.sent(now)
        if is_refused:
            pacer.refused(now, spell, now - pause / 2)
        assert math.isfinite(pacer.ready_at(now)) and pacer.ready_at(now) - now < 60
        assert pacer.rate(now) > 0


@pytest.mark.parametrize(("latency", "share"), [(1.0, 0.96), (5.0, 0.95)])
def test_all_slots_of_a_server_are_used(latency: float, share: float) -> None:
    """It refuses without a word about when to come back."""
    random.seed(0)
    lane, now, worked, refused, numbers = Lane("", LIMITS, 0.0), 0.0, 0.0, 0, itertools.count()
    under_way: list[tuple[float, int, Any]] = []
    told: list[tuple[float, int, Any]] = []
    while now < 120.0:
        at = lane.ready_at(now)
        events = [events for events in (under_way, told) if events]
        first = min(events, key=min, default=under_way)
        if first and first[0][0] <= at:
            now, _, permit = heapq.heappop(first)
            lane.in_flight -= 1
            lane.replied() if first is under_way else lane.refused(permit, None, now)
            continue
        now = max(at, now)
        permit, number = lane.send(now), next(numbers)
        if len(under_way) < 32:
            seconds = latency * random.uniform(0.75, 1.25)
            worked += min(seconds, 120.0 - now)
            heapq.heappush(under_way, (now + seconds, number, permit))
        else:
            refused += 1
            heapq.heappush(told, (now + 0.005, number, permit))
    assert worked >= share * 32 * 120
    assert refused < 70


@pytest.mark.parametrize(("rate", "burst"), [(200, 20), (100, 5), (20, 4)])
def test_a_server_with_a_small_reserve_is_used_as_well(rate: int, burst: int) -> None:
    """The mean of a spell says less than was permitted: where the pace was low, the reserve had long been full."""
    random.seed(0)
    admitted, _ = drive(rate, burst, 90.0, wait_s=None)
    assert admitted >= 0.93 * (burst + 90 * rate)


def test_a_spell_shows_the_rate_that_was_permitted_though_less_was_sent_for_long() -> None:
    spell = Spell(refused_before=0.0)
    for step in range(100):  # ten a second, while the reserve of 20 is full
        spell.times.append(step / 10)
    for step in range(120):  # 60 a second, which empties it within two seconds
        spell.times.append(10 + step / 60)
    spell.times.append(12.0)  # the one that is refused
    assert spell.steepest(20, 12.0) == pytest.approx(50, rel=0.01)
    assert Spell(refused_before=0.0).steepest(20, 1.0) == 0.0
