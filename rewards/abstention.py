"""Our own reward: a right answer earns most, an honest "unknown" earns nothing, and a wrong answer costs.

The rewards of the papers pay an agent that says it does not know as much as one that guesses wrongly, so a guess can
only win. Here a guess is worth its risk only where it is right more often than wrong / (right + wrong), by default one
time in eleven: an agent that knows that little says so, and one that always says so earns less than one that answers
what it has read.

"Unknown" is paid as a wrong answer where a text that the agent was given states the answer, and where it has not
searched at all. No text states yes, no or an option: there it is, unless a document that a question of yes or no rests
on was not retrieved.
"""

from __future__ import annotations

from dataclasses import dataclass

from trailforge.schemas import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class AbstentionConstants:
    """Reward of each kind of answer: right > unknown >= 0 > wrong > malformed."""

    right: float = 1.0
    """Reward of an answer that is right by the matcher of the filters, not word by word."""
    unknown: float = 0.0
    """Reward of "unknown" after a search, where nothing that was read states the answer, as far as words tell."""
    wrong: float = -0.1
    malformed: float = -1.0
    """Reward of a conversation in a broken form, whatever it says, and of one without an answer."""

    def __post_init__(self) -> None:
        if not self.right > self.unknown >= 0.0 > self.wrong > self.malformed:
            raise InvalidInput(
                f"expected right > unknown >= 0 > wrong > malformed, got {self.right}, {self.unknown}, {self.wrong}, "
                f"{self.malformed}",
                field="right",
            )

    @property
    def break_even(self) -> float:
        """Return the share of right answers above which answering pays more than saying "unknown"."""
        return (self.unknown - self.wrong) / (self.right - self.wrong)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbstentionReward:
    """The reward of an answer, with its parts."""

    total: float
    right: float
    """1 when the matcher finds the answer right, else 0."""
    abstains: float
    """1 for an answer that says that it has none, else 0."""
    stated: float | None
    """1 where a text that the agent was given states a gold answer, else 0; None where words cannot tell."""


def abstention_reward(
    *,
    is_right: bool,
    abstains: bool,
    is_stated: bool | None,
    has_searched: bool,
    format_holds: bool,
    constants: AbstentionConstants = AbstentionConstants(),
) -> AbstentionReward:
    """Return all parts and the total of the reward. `is_stated` says whether a text that the agent was given states a
    gold answer; None means unknown.
    """
    if not format_holds:
        total = constants.malformed
    elif is_right:
        total = constants.right
    elif abstains and has_searched and is_stated is False:
        total = constants.unknown
    else:
        total = constants.wrong
    stated = None if is_stated is None else float(is_stated)
    return AbstentionReward(total=total, right=float(is_right), abstains=float(abstains), stated=stated)
