"""The reward of an R-Search episode (section 3.4): format, plan and answer, weighted as in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trailforge.rewards.f1 import f1
from trailforge.rewards.options import option_f1, option_letters
from trailforge.schemas import RSearchReward

SECTIONS = ("think", "search", "result", "answer")
"""The tags of an episode, in their order (eq. 1)."""

_TAGS = [tag for name in SECTIONS for tag in (f"<{name}>", f"</{name}>")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RSearchConstants:
    """The weights of the parts (section 3.4)."""

    format_weight: float = 0.25
    dag_weight: float = 0.25
    answer_weight: float = 0.5


def format_reward(tags: Sequence[str]) -> float:
    """1.0 when each section stands exactly once, in order, else 0.0 (F_fmt). Tags of other names do not count.

    `tags` are those of the whole episode as `protocols.base.tags_in` gives them: `["<think>", "</think>", …]`.
    """
    return float([tag for tag in tags if tag in _TAGS] == _TAGS)


def answer_reward(
    answer: str,
    *,
    correct_options: Sequence[str] = (),
    golds: Sequence[str] = (),
    judge_score: float | None = None,
) -> float:
    """How right the answer is, in [0, 1] (F_ans); 0.0 when it is empty.

    With correct options, the F1 between them and the options that the answer names. Else the score that a judge gave;
    without a judge (None) the word F1 over `golds`, which needs no model but sees no paraphrase.
    """
    if judge_score is not None and not 0.0 <= judge_score <= 1.0:
        raise ValueError(f"judge_score: expected a number from 0 to 1, got {judge_score}")
    if not answer.strip():
        return 0.0
    if correct_options:
        return option_f1(option_letters(answer), correct_options)
    return f1(answer, golds) if judge_score is None else judge_score


def r_search_reward(
    *, format: float, dag: float, answer: float, constants: RSearchConstants = RSearchConstants()
) -> RSearchReward:
    """The weighted sum of eq. 3: the parts add up, so a broken plan does not cost the answer's pay."""
    total = constants.format_weight * format + constants.dag_weight * dag + constants.answer_weight * answer
    return RSearchReward(total=total, format=format, dag=dag, answer=answer)
