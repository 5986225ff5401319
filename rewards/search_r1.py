"""The reward of Search-R1 (Jin et al., 2025), one of the two with which RAGSearch trains: exact match of the answer.

As first published the format counts for nothing. Later versions of its code pay for the format, too: with
`SearchR1Constants(structure=0.2, final=0.1)` a wrong answer in the right form gets 0.2, a right one in a broken form
0.8, a wrong one in a broken form 0.1.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchR1Constants:
    """The constants of Search-R1's reward; all zero by default, which pays exact match alone."""

    structure: float = 0.0
    """Worth of the right form: paid for a wrong answer, and deducted from a right one in a broken form."""
    final: float = 0.0
    """Reward of a wrong answer in a broken form, as long as there is an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchR1Reward:
    """The parts of Search-R1's reward, and their sum."""

    total: float
    """Total reward, in [0, 1]."""
    exact_match: float
    """Exact match of the answer, 0 or 1."""
    format: float
    """What the form adds or, where it is broken, deducts."""


def search_r1_reward(
    *, exact_match: float, has_answer: bool, format_holds: bool, constants: SearchR1Constants = SearchR1Constants()
) -> SearchR1Reward:
    """Return all parts and the total of the reward. `has_answer` says whether the agent gave any answer."""
    if exact_match:
        format = 0.0 if format_holds else 0.0 - constants.structure  # 0.0, not -0.0
    elif format_holds:
        format = constants.structure
    else:
        format = constants.final if has_answer else 0.0
    return SearchR1Reward(total=exact_match + format, exact_match=exact_match, format=format)
