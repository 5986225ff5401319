"""The reward of Graph-R1 (Luo et al., 2025), one of the two with which RAGSearch trains: format first, then the answer.

RAGSearch (section 4) names an outcome and a format reward and gives no constants; these are the released code's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PAY_PER_TURN, MOST_PAY = 0.5, 1.0


def per_turn_format_reward(
    well_formed: Sequence[bool], *, pay_per_turn: float = PAY_PER_TURN, most_pay: float = MOST_PAY
) -> float:
    """Return 0.5 for each well-formed turn of the agent, at most 1.0 (Graph-R1, format reward)."""
    return min(most_pay, pay_per_turn * sum(well_formed))


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphR1Constants:
    """The constants of Graph-R1's reward."""

    base: float = -1.0
    """Base reward of every episode, which makes only a right answer pay above 0."""
    pay_per_turn: float = PAY_PER_TURN
    """Reward of each well-formed turn."""
    most_pay: float = MOST_PAY
    """Largest reward of the format; the answer is paid only when it is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphR1Reward:
    """The parts of Graph-R1's reward, and their sum."""

    total: float
    """Total reward, from -1 to 1 with the default constants."""
    format: float
    """Reward of the format, in [0, 1]."""
    answer: float
    """F1 of the answer, in [0, 1], whether paid or not."""


def graph_r1_reward(
    *, answer: float, well_formed_turns: Sequence[bool], constants: GraphR1Constants = GraphR1Constants()
) -> GraphR1Reward:
    """Return all parts and the total of the reward. `answer` is the answer's F1; `well_formed_turns` says for each turn
    of the agent whether it is well-formed.
    """
    format = per_turn_format_reward(well_formed_turns, pay_per_turn=constants.pay_per_turn, most_pay=constants.most_pay)
    paid = answer if format >= constants.most_pay else 0.0
    return GraphR1Reward(total=constants.base + format + paid, format=format, answer=answer)
