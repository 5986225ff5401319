"""Reject questions whose options or answer do not have the form that their type asks for.

Single choice: four or five options, one of them right. Multiple choice: five to seven, three to five right, and at
least one wrong (R-Search asks for three to five of about six). Open questions have no options, and an answer.
"""

from __future__ import annotations

from trailforge.rewards import normalize_answer
from trailforge.schemas import BundleQuestion, Verdict

REASON = "bad_options"
_LONGEST_FACT, _LONGEST_CAUSE = 15, 80
"""Words of an answer."""


def check(row: BundleQuestion) -> Verdict:
    """Score: 1 for the right form, else 0."""
    problem = _choice_problem(row) if row.type in ("single_choice", "multiple_choice") else _open_problem(row)
    return Verdict(keep=problem is None, reason=REASON, score=float(problem is None), detail=problem or "")


def _open_problem(row: BundleQuestion) -> str | None:
    words = len(row.answer.split())
    longest = _LONGEST_CAUSE if row.type == "causal" else _LONGEST_FACT
    if row.options or row.correct_options:
        return f"a {row.type} question has no options"
    if not normalize_answer(row.answer):
        return "no answer"
    return f"{words} words are no {row.type} answer" if words > longest else None


def _choice_problem(row: BundleQuestion) -> str | None:
    letters = [chr(ord("A") + n) for n in range(len(row.options))]
    right = len(row.correct_options)
    fewest, most = (4, 5) if row.type == "single_choice" else (5, 7)
    if not fewest <= len(row.options) <= most:
        return f"{len(row.options)} options; a {row.type} question has {fewest} to {most}"
    if len({normalize_answer(option) for option in row.options}) < len(row.options):
        return "two options say the same"
    if not set(row.correct_options) <= set(letters) or len(set(row.correct_options)) < right:
        return f"correct options {', '.join(row.correct_options)} of {letters[0]} to {letters[-1]}"
    if row.type == "single_choice":
        return None if right == 1 else f"{right} correct options; a single_choice question has one"
    return (
        None if 3 <= right <= 5 and right < len(row.options) else f"{right} of {len(row.options)} options are correct"
    )
