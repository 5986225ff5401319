"""A question-decomposition plan. The algebra on plans is `mcts.plan`; this is the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

Origin = Literal["policy", "rule", "oracle"]
"""Who made a plan: the policy model, code rules (with or without the model choosing), or the gold decomposition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An ordered list of sub-questions (MSearcher, section 3.1.1: Q_t)."""

    SCHEMA_VERSION: ClassVar[str] = "1.0"

    sub_questions: tuple[str, ...]
    """A sub-question may refer to the answer of another one as `#k`, its 1-based position."""

    def __len__(self) -> int:
        return len(self.sub_questions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """An action: one sub-question is replaced by two (MSearcher, Eq. 5)."""

    index: int
    """0-based position of the sub-question that is split."""
    first: str
    """Asked first; without the placeholder `[E]`."""
    second: str
    """Asked second; `[E]` stands for the answer of `first`."""
