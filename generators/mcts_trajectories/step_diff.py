"""A wrong and a right rollout step by step: what is the same, what differs, and which error that makes it.

The rules are those by which rows are labelled (MSearcher, section 3.1.4): under one plan, other passages make a
retrieval error, another answer from the same passages a reasoning error; another plan makes a decomposition error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from trailforge.rewards import normalize_answer, same_answer
from trailforge.schemas import ErrorType, Step, StepPair

Part = Literal["sub_question", "query", "passages", "answer"]
Agreement = Literal["same", "alike", "differs"]
"""`alike`: other words or another order, but what is asked, found or answered is the same."""
MEANINGS: Mapping[ErrorType, str] = {
    "retrieval": "The search brought the wrong passages; another search for the same sub-question brought better ones.",
    "reasoning": "The passages were the same for both; a wrong answer was read out of them.",
    "decomposition": "The question was taken apart wrongly: this plan never led to the answer, another one did.",
}
"""What an error type says of the wrong step, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDiff:
    """The steps of both rollouts at one position."""

    wrong: Step | None
    """None when the wrong rollout has fewer steps."""
    right: Step | None
    parts: Mapping[Part, Agreement]
    """Empty when one of the steps is missing."""


def diff_steps(wrong: Sequence[Step], right: Sequence[Step], diverges_at: int) -> tuple[StepDiff, ...]:
    """Both rollouts, aligned by position. Before `diverges_at` another wording is no difference."""
    return tuple(
        StepDiff(wrong=bad, right=good, parts=_parts(bad, good, position < diverges_at) if bad and good else {})
        for position, (bad, good) in enumerate(zip_longest(wrong, right))
    )


def label_of(diffs: Sequence[StepDiff], pair: StepPair, *, same_plan: bool) -> ErrorType | None:
    """The error type by this diff; None when it shows none. `same_plan`: both are rollouts of one node."""
    if pair.diverges_at >= len(diffs):
        return None
    parts = diffs[pair.diverges_at].parts
    if not same_plan:
        return "decomposition" if parts.get("sub_question") == "differs" else None
    if parts.get("passages") == "differs":
        return "retrieval"
    return "reasoning" if parts.get("answer") == "differs" else None


def reasons(diffs: Sequence[StepDiff], pair: StepPair, *, same_plan: bool) -> list[str]:
    """Why that is the label, in sentences that hold no text of the row; steps are numbered from 1."""
    label, at = label_of(diffs, pair, same_plan=same_plan), pair.diverges_at
    bad, good = (diffs[at].wrong, diffs[at].right) if label else (None, None)
    if bad is None or good is None:
        return ["The two rollouts, as the tree has them, do not show a difference that makes a label."]
    before = f"Up to step {at} both rollouts agree." if at else ""
    if label == "decomposition":
        sentences = [
            before,
            f"At step {at + 1} the plans ask for different things.",
            f"All that the right rollout answers from there contradicts the answer of step {pair.wrong_step + 1}.",
        ]
        return [sentence for sentence in sentences if sentence]
    sentences = [before, f"At step {at + 1} the sub-question is the same,", _of_queries(diffs[at].parts["query"])]
    if label == "retrieval":
        ours, theirs = ({passage.id for passage in step.passages} for step in (bad, good))
        sentences += [f"and the passages differ: {len(ours & theirs)} of {len(ours | theirs)} were found by both."]
    else:
        count = f"{len(bad.passages)} passages are" if len(bad.passages) != 1 else "passage is"
        sentences += [f"and the {count} the same, but the answer is another."]
    return [sentence for sentence in sentences if sentence]


def _of_queries(agreement: Agreement) -> str:
    return "the query is worded otherwise" if agreement == "differs" else "the query is the same"


def _parts(wrong: Step, right: Step, is_before: bool) -> dict[Part, Agreement]:
    return {
        "sub_question": _texts(wrong.sub_question, right.sub_question, is_before),
        "query": _texts(wrong.query, right.query, is_before),
        "passages": _passages(wrong, right),
        "answer": _answers(wrong.answer, right.answer),
    }


def _texts(left: str, right: str, is_before: bool) -> Agreement:
    """The pair was made because all before the difference asks the same, in whatever words."""
    if left == right:
        return "same"
    return "alike" if is_before or normalize_answer(left) == normalize_answer(right) else "differs"


def _passages(wrong: Step, right: Step) -> Agreement:
    """As sets: which rank a passage has makes no difference to the label."""
    left, other = ([passage.id for passage in step.passages] for step in (wrong, right))
    if left == other:
        return "same"
    return "alike" if set(left) == set(other) else "differs"


def _answers(left: str, right: str) -> Agreement:
    if left == right:
        return "same"
    return "alike" if same_answer(left, right) else "differs"
