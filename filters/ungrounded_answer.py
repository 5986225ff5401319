"""Reject trajectories that accept an answer which none of the step's passages contains.

Such rows teach an agent to make answers up. The paper lets the model fall back on its own knowledge; we do not.
Steps marked as mistakes are `ungrounded_mistake`'s. Yes and no are exempt. A small number may stand there as a word, or
as a figure: "2" and "two moons".
"""

from __future__ import annotations

import re

from rewards import mentions, normalize_answer
from schemas import Step, Trajectory, Verdict

REASON = "ungrounded_answer"
_NEVER_QUOTED = {"yes", "no"}
_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_FIGURES = {word: str(number) for number, word in enumerate(_WORDS)}
_NUMBER = re.compile(rf"\b(?:{'|'.join(_WORDS)}|1[0-2]|\d)\b")


def check(row: Trajectory) -> Verdict:
    """Score: share of the accepted answers that a passage of their step contains."""
    accepted = [step for step in row.steps if not step.is_mistake]
    ungrounded = [step for step in accepted if not is_grounded(step)]
    detail = f"no passage says {ungrounded[0].answer!r} ({ungrounded[0].query!r})" if ungrounded else ""
    return Verdict(
        keep=not ungrounded,
        reason=REASON,
        score=1 - len(ungrounded) / len(accepted) if accepted else 0.0,
        detail=detail,
    )


def is_grounded(step: Step) -> bool:
    """Does a passage of the step contain its answer?"""
    if normalize_answer(step.answer) in _NEVER_QUOTED:
        return True
    wordings = {step.answer, _in_figures(step.answer), _in_words(step.answer)}
    return any(mentions(f"{p.title}. {p.text}", wording) for p in step.passages for wording in wordings)


def _in_figures(answer: str) -> str:
    return _NUMBER.sub(lambda match: _FIGURES.get(match[0], match[0]), answer.lower())


def _in_words(answer: str) -> str:
    return _NUMBER.sub(lambda match: _WORDS[int(match[0])] if match[0].isdigit() else match[0], answer.lower())
