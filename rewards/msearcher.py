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
"""`literal`: -0.2. `floor_minus_one`: min(-1 - (R_correct + R_length), -0.2), so that the total is at most -1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MSearcherConstants:
    """The constants of the reward; the paper gives those of eq. 12 and the length."""

    max_tokens: int = 16384
    """L_max of the overlong punishment (section 4.4: 16k)."""
    cache_tokens: int = 4096
    """L_cache; DAPO's recipe, the paper gives none."""
    format_penalty: FormatPenalty = "floor_minus_one"
    """Ours; DeepResearcher, whose data and metric the paper reuses, pays -1 for a broken format."""
    malformed: float = -0.2
    """The least that a broken format costs (eq. 12)."""
    floor: float = -1.0
    """What a broken format leaves at most, by `floor_minus_one` (eq. 12)."""

    def __post_init__(self) -> None:
        if not 0 < self.cache_tokens <= self.max_tokens:
            raise InvalidInput(f"expected 1 to max_tokens, got {self.cache_tokens}", field="cache_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class MSearcherReward:
    """The parts of the reward, and their sum."""

    total: float
    """From 0 (or, of overlong episodes, -1) to 1 where the format holds."""
    correct: float
    """R_correct: F1, in [0, 1]."""
    length: float | None
    """R_length, in [-1, 0]; None when the length is not known, and then nothing is taken off."""
    format: float
    """R_format: 0 or negative."""


def format_penalty(correct: float, length: float, constants: MSearcherConstants) -> float:
    """R_format (eq. 12) of an episode whose format is broken."""
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
    """All parts and the total. `correct`: F1 of the answer. `tokens` as in `soft_overlong`; None when not known."""
    length = None
    if tokens is not None:
        length = soft_overlong(tokens, max_tokens=constants.max_tokens, cache_tokens=constants.cache_tokens)
    format = 0.0 if format_holds else format_penalty(correct, length or 0.0, constants)
    return MSearcherReward(total=correct + (length or 0.0) + format, correct=correct, length=length, format=format)


def soft_overlong(tokens: int, *, max_tokens: int, cache_tokens: int) -> float:
    """From 0 to -1 by length: 0 up to `max_tokens - cache_tokens`, from there falling evenly to -1 at `max_tokens`.

    `tokens` are those of everything after the prompt, observations too. Raises `ValueError` unless
    0 < cache_tokens <= max_tokens.
    """
    if not 0 < cache_tokens <= max_tokens:
        raise ValueError(f"cache_tokens: expected 1 to max_tokens = {max_tokens}, got {cache_tokens}")
    excess = tokens - (max_tokens - cache_tokens)
    return -min(max(excess, 0), cache_tokens) / cache_tokens
