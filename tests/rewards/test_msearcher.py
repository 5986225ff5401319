"""MSearcher's reward and DAPO's overlong punishment, against sums done by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.rewards import MSearcherConstants
from trailforge.rewards.msearcher import msearcher_reward, soft_overlong
from trailforge.schemas import InvalidInput

FLOOR = MSearcherConstants()
LITERAL = MSearcherConstants(format_penalty="literal")
SHARES = st.floats(0, 1)
LENGTHS = st.integers(0, 20_000)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (0, 0.0),
        (12_288, 0.0),  # 16,384 - 4,096
        (12_289, -1 / 4096),
        (13_312, -0.25),
        (14_336, -0.5),
        (16_383, -4095 / 4096),
        (16_384, -1.0),
        (16_385, -1.0),
        (1_000_000, -1.0),
    ],
)
def test_length_costs_nothing_then_evenly_more_then_one(tokens: int, expected: float) -> None:
    assert soft_overlong(tokens, max_tokens=16_384, cache_tokens=4_096) == expected


@pytest.mark.parametrize("cache", [0, -1, 101])
def test_a_cache_has_to_fit(cache: int) -> None:
    with pytest.raises(ValueError, match="cache_tokens"):
        soft_overlong(1, max_tokens=100, cache_tokens=cache)
    with pytest.raises(InvalidInput, match="cache_tokens"):
        MSearcherConstants(max_tokens=100, cache_tokens=cache)


@given(LENGTHS, LENGTHS, st.integers(1, 5000))
def test_longer_is_never_cheaper(first: int, second: int, cache: int) -> None:
    short, long = (soft_overlong(n, max_tokens=5000, cache_tokens=cache) for n in sorted((first, second)))
    assert -1.0 <= long <= short <= 0.0


@pytest.mark.parametrize(
    ("correct", "tokens", "holds", "constants", "length", "format", "total"),
    [
        # The format holds: nothing is taken off for it, by either reading.
        (0.75, 100, True, FLOOR, 0.0, 0.0, 0.75),
        (0.75, 100, True, LITERAL, 0.0, 0.0, 0.75),
        (0.0, 100, True, FLOOR, 0.0, 0.0, 0.0),
        (1.0, 14_336, True, FLOOR, -0.5, 0.0, 0.5),
        (0.0, 20_000, True, FLOOR, -1.0, 0.0, -1.0),
        (0.75, None, True, FLOOR, None, 0.0, 0.75),
        # Broken, read literally: -0.2, so a right answer keeps 0.8.
        (1.0, 100, False, LITERAL, 0.0, -0.2, 0.8),
        (0.0, 100, False, LITERAL, 0.0, -0.2, -0.2),
        (0.0, 20_000, False, LITERAL, -1.0, -0.2, -1.2),
        (0.5, None, False, LITERAL, None, -0.2, 0.3),
        # Broken, brought down to -1, or by 0.2 where -1 is nearer than that.
        (1.0, 100, False, FLOOR, 0.0, -2.0, -1.0),
        (0.0, 100, False, FLOOR, 0.0, -1.0, -1.0),
        (1.0, 14_336, False, FLOOR, -0.5, -1.5, -1.0),
        (0.25, 20_000, False, FLOOR, -1.0, -0.25, -1.0),
        (0.0, 20_000, False, FLOOR, -1.0, -0.2, -1.2),
        (0.1, 20_000, False, FLOOR, -1.0, -0.2, -1.1),
        (0.5, None, False, FLOOR, None, -1.5, -1.0),
        # Other constants.
        (1.0, 90, True, MSearcherConstants(max_tokens=100, cache_tokens=20), -0.5, 0.0, 0.5),
        (1.0, 1, False, MSearcherConstants(format_penalty="literal", malformed=-0.5), 0.0, -0.5, 0.5),
        (1.0, 1, False, MSearcherConstants(floor=-0.5), 0.0, -1.5, -0.5),
    ],
)
def test_sums(
    correct: float,
    tokens: int | None,
    holds: bool,
    constants: MSearcherConstants,
    length: float | None,
    format: float,
    total: float,
) -> None:
    reward = msearcher_reward(correct=correct, format_holds=holds, tokens=tokens, constants=constants)
    assert reward.length == length
    assert reward.format == pytest.approx(format)
    assert reward.total == pytest.approx(total)


@given(SHARES, LENGTHS)
def test_a_broken_format_never_leaves_more_than_minus_one_or_than_the_whole_one(correct: float, tokens: int) -> None:
    whole = msearcher_reward(correct=correct, format_holds=True, tokens=tokens)
    broken = msearcher_reward(correct=correct, format_holds=False, tokens=tokens)
    assert broken.total <= -1.0 + 1e-12
    assert broken.total <= whole.total - 0.2 + 1e-12
    assert broken.format <= -0.2


@given(SHARES, SHARES, LENGTHS, st.sampled_from([FLOOR, LITERAL]), st.booleans())
def test_a_better_answer_is_never_paid_less(
    first: float, second: float, tokens: int, constants: MSearcherConstants, holds: bool
) -> None:
    worse, better = (
        msearcher_reward(correct=correct, format_holds=holds, tokens=tokens, constants=constants).total
        for correct in sorted((first, second))
    )
    assert worse <= better + 1e-12
