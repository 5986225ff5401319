"""The format reward that is paid turn by turn."""

from __future__ import annotations

from collections.abc import Sequence

PAY_PER_TURN, MOST_PAY = 0.5, 1.0


def per_turn_format_reward(
    well_formed: Sequence[bool], *, pay_per_turn: float = PAY_PER_TURN, most_pay: float = MOST_PAY
) -> float:
    """0.5 for each well-formed turn of the agent, at most 1.0 (Graph-R1, format reward)."""
    return min(most_pay, pay_per_turn * sum(well_formed))
