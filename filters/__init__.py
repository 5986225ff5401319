"""Reasons to reject a trajectory, one per module. A filter answers with a `Verdict`; the pipeline does the rejecting.

`judge_trajectory` asks them in its order; the first that says no gives the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trailforge.filters import (
    answer_correctness,
    answer_leaked,
    circular_step,
    duplicate_trajectory,
    evidence_was_there,
    length,
    malformed_tags,
    missing_hop,
    undue_reflection,
    ungrounded_answer,
    ungrounded_mistake,
    unresolved_reference,
    wrong_intermediate,
)
from trailforge.filters.wrong_intermediate import Scope
from trailforge.schemas import Question, Trajectory, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterConfig:
    """What is asked of a trajectory."""

    max_tokens: int = 16384
    """By `estimate_tokens` (the paper trains on 16k, section 4.4)."""
    max_tool_calls: int = 10
    """As in the paper's RL stage (section 4.4)."""
    grounded: bool = True
    """Every answer, accepted or mended, has to stand in a passage of its step."""
    intermediate_answers: Scope = "oracle"
    """For which plans the intermediate answers are held against the gold decomposition."""
    every_hop: bool = True
    """Where the gold decomposition is known, every hop of it has to be found, one step each."""


def judge_trajectory(
    row: Trajectory, question: Question, earlier: Sequence[Trajectory], config: FilterConfig
) -> list[Verdict]:
    """Every filter's verdict on one trajectory. `earlier`: the accepted rows of the question before this one."""
    verdicts = [
        answer_correctness.check(row),
        unresolved_reference.check(row),
        malformed_tags.check(row),
        answer_leaked.check(row),
        wrong_intermediate.check(row, question, scope=config.intermediate_answers),
        undue_reflection.check(row, question),
        evidence_was_there.check(row),
        circular_step.check(row),
        duplicate_trajectory.check(row, earlier),
        length.check(row, max_tokens=config.max_tokens, max_tool_calls=config.max_tool_calls),
    ]
    if config.grounded:
        verdicts[3:3] = [ungrounded_answer.check(row), ungrounded_mistake.check(row)]
    if config.every_hop:
        verdicts.append(missing_hop.check(row, question))
    return verdicts


def first_rejection(verdicts: Sequence[Verdict]) -> Verdict | None:
    """The first verdict that says no; None when all keep the row."""
    return next((verdict for verdict in verdicts if not verdict.keep), None)
