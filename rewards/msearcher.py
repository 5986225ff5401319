"""The reward of MSearcher (section 3.2.3): F1 of the answer, a penalty for length, a penalty for a broken format.

Eq. 12 read literally is the constant -0.2: the minimum of an absolute value and -0.2. Paid to every episode it would
cancel in the group's advantage, so it can only be meant for a broken format; nothing is taken off where it holds. Both
readings of the sum inside the bars exist, see `FormatPenalty`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trailforge.schemas import InvalidInput

FormatPenalty = Literal["literal", "floor_minus_one"]
"""How a broken format is punished. `literal`: -0.2. `floor_minus_one`: min(-1 - (R_correct + R_length), -0.2), so that
the total is at most -1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MSearcherConstants:
    """The constants of MSearcher's reward; the paper gives those of eq. 12 and the length."""

    max_tokens: int = 16384
    """Number of tokens from which on the length penalty is full, L_max of the overlong punishment (section 4.4:
    16k)."""
    cache_tokens: int = 4096
    """Number of tokens over which the length penalty grows (L_cache), by DAPO's recipe; the paper gives none."""
    format_penalty: FormatPenalty = "floor_minus_one"
    """Reading of eq. 12. The default is trailforge's choice; DeepResearcher, whose data and metric the paper reuses,
    pays -1 for a broken format."""
    malformed: float = -0.2
    """Least penalty of a broken format (eq. 12)."""
    floor: float = -1.0
    """Highest total of a broken format, with `floor_minus_one` (eq. 12)."""

    def __post_init__(self) -> None:
        if not 0 < self.cache_tokens <= self.max_tokens:
            raise InvalidInput(f"expected 1 to max_tokens, got {self.cache_tokens}", field="cache_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class MSearcherReward:
    """The parts of MSearcher's reward, and their sum."""

    total: float
    """Total reward, from 0 (or, for overlong episodes, -1) to 1 where the format holds."""
    correct: float
    """F1 of the answer, in [0, 1] (R_correct)."""
    length: float | None
    """Length penalty, in [-1, 0] (R_length); None when the length is not known, and then nothing is deducted."""
    format: float
    """Format penalty, 0 or negative (R_format)."""


def format_penalty(correct: float, length: float, constants: MSearcherConstants) -> float:
    """Return R_format (eq. 12) of an episode whose format is broken."""
    if constants.format_penalty == "literal":
        return constants.malformed
    return min(constants.floor - (correct + length), constants.malformed)


def msearcher_reward(
    *,
    correct: float,
    format_holds: bool,
    tokens: int | None,
    constants: MSearcherConstants = MSearcherConstants(),
) -> MSearcherReward:
    """Return all parts and the total of the reward. `correct` is the answer's F1, and `format_holds` says whether the
    episode follows its protocol. `tokens` counts everything after the prompt, tool results included; None when it is
    not known, and then no length is penalised.
    """
    length = None
    if tokens is not None:
        length = soft_overlong(tokens, max_tokens=constants.max_tokens, cache_tokens=constants.cache_tokens)
    format = 0.0 if format_holds else format_penalty(correct, length or 0.0, constants)
    return MSearcherReward(total=correct + (length or 0.0) + format, correct=correct, length=length, format=format)


def soft_overlong(tokens: int, *, max_tokens: int, cache_tokens: int) -> float:
    """Return the length penalty: 0 up to `max_tokens - cache_tokens`, and from there falling linearly to -1 at
    `max_tokens`. `tokens` counts everything after the prompt, tool results included. Raises `ValueError` unless 0 <
    cache_tokens <= max_tokens.
    """
    if not 0 < cache_tokens <= max_tokens:
        raise ValueError(f"cache_tokens: expected 1 to max_tokens = {max_tokens}, got {cache_tokens}")
    excess = tokens - (max_tokens - cache_tokens)
    return -min(max(excess, 0), cache_tokens) / cache_tokens
