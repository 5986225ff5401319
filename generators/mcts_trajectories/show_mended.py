"""Show a reflective row's mistake beside what mends it, and the diff behind its label.

The rules are those by which rows are labelled (MSearcher, section 3.1.4): under one plan, another answer is a reasoning
error where the passages held the right one, a retrieval error where they did not; another plan makes a decomposition
error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from trailforge.mcts import holds_answer
from trailforge.pipelines.show import Grid, GridRow, Line, Note, Parts, StyledText
from trailforge.pipelines.show.common import passages
from trailforge.pipelines.show.marks import Marked
from trailforge.rewards import mentions, normalize_answer, same_answer
from trailforge.schemas import ErrorType, SearchTree, Step, StepPair, Trajectory

Aspect = Literal["sub_question", "query", "passages", "answer"]
Agreement = Literal["same", "alike", "differs"]
"""How far two steps agree. `alike`: other words or order, but what is asked, found or answered is the same."""
MEANINGS: Mapping[ErrorType, str] = {
    "retrieval": "The search brought the wrong passages; another search for the same sub-question brought better ones.",
    "reasoning": "The passages held the right answer; a wrong one was read out of them.",
    "decomposition": "The question was taken apart wrongly: this plan never led to the answer, another one did.",
}
"""A sentence for each error type that says what is wrong with the step."""
_NAMES: dict[Aspect, str] = {
    "sub_question": "sub-question", "query": "query", "passages": "passages", "answer": "answer",
}  # fmt: skip
_LONGEST = 500
_LEGEND = Note(
    (
        StyledText("Marked in the texts: ", "quiet"), StyledText("gold answer", "gold"), " ",
        StyledText("mended answer", "mended"), " ",
        StyledText("wrong answer", "wrong"),
    )
)  # fmt: skip


def mended(row: Trajectory, tree: SearchTree | None) -> Parts:
    """Return what the inspector shows of the mistake in a reflective row and of what mends it. `tree` is that of the
    row's question; without it, whole rollouts are not shown.
    """
    mistake = next((place for place, step in enumerate(row.steps) if step.is_mistake), None)
    if mistake is None or mistake + 1 >= len(row.steps) or row.step_pair is None or row.reflection_error is None:
        text = "This row is called reflective, but none of its steps is marked as a mistake that is mended."
        return [Note(text, "warn")]
    diffs = _diffs(row.step_pair, tree)
    why, doubts = [MEANINGS[row.reflection_error]], []
    if diffs is not None:
        same_plan = _same_plan(row.step_pair, tree)
        why = [" ".join(reasons(diffs, row.step_pair, same_plan=same_plan)), *why]
        if label_of(diffs, row.step_pair, same_plan=same_plan) != row.reflection_error:
            doubts = [Note("The diff of the two rollouts does not agree with this row's label.", "warn")]
    gold = Marked(kind="gold", answers=(row.answer, *row.answer_aliases))
    return [
        *doubts,
        Note((StyledText(f"{row.reflection_error} error. ", "strong"), " ".join(why)), "warn"),
        _LEGEND,
        _sides(row.steps[mistake], row.steps[mistake + 1], row.step_pair, gold),
        *_table(diffs, row.step_pair),
    ]


def _diffs(pair: StepPair, tree: SearchTree | None) -> tuple[StepDiff, ...] | None:
    if tree is None or max(pair.wrong_rollout, pair.right_rollout) >= len(tree.rollouts):
        return None
    wrong, right = tree.rollouts[pair.wrong_rollout], tree.rollouts[pair.right_rollout]
    return diff_steps(wrong.steps, right.steps, pair.diverges_at)


def _same_plan(pair: StepPair, tree: SearchTree | None) -> bool:
    return tree is not None and tree.rollouts[pair.wrong_rollout].node == tree.rollouts[pair.right_rollout].node


def _sides(wrong: Step, right: Step, pair: StepPair, gold: Marked) -> Grid:
    """Both steps, part by part on one line."""
    marks = (gold, Marked(kind="mended", answers=(right.answer,)), Marked(kind="wrong", answers=(wrong.answer,)))
    parts = diff_steps([wrong], [right], 0)[0].parts
    ours, theirs = (frozenset(passage.id for passage in step.passages) for step in (wrong, right))
    rows = []
    for part, name in _NAMES.items():
        title: Line = (name, StyledText(" · differs" if parts[part] == "differs" else "", "strong"))
        sides = (("wrong", wrong, ours - theirs), ("mended", right, theirs - ours))
        rows.append(GridRow([title, *(_value(part, step, marks, side, only) for side, step, only in sides)]))
    head = (
        "",
        f"Wrong: step {pair.wrong_step + 1} of rollout {pair.wrong_rollout}",
        f"Mended: step {pair.right_step + 1} of rollout {pair.right_rollout}",
    )
    return Grid(head, rows, (0.25, 1, 1))


def _value(part: Aspect, step: Step, marks: Sequence[Marked], side: str, only: frozenset[str]) -> Parts | Line:
    if part == "passages":
        return [passages(step.passages, marks, only)]
    if part == "answer":
        is_gold = side == "mended" and any(same_answer(step.answer, each) for each in marks[0].answers)
        return (StyledText(step.answer[:_LONGEST], "gold" if is_gold else side),)
    return (step.sub_question if part == "sub_question" else step.query)[:_LONGEST]


def _table(diffs: Sequence[StepDiff] | None, pair: StepPair) -> Parts:
    """Both rollouts, a line a step: what is the same once, what differs twice."""
    if diffs is None:
        text = "The search tree of this question is not in this run, so the whole rollouts cannot be compared."
        return [Note(text)]
    rows = [
        GridRow([str(place + 1), *(_cell(diff, part) for part in _NAMES)], "here" if place == pair.diverges_at else "")
        for place, diff in enumerate(diffs)
    ]
    legend = (
        "Both rollouts, step by step. Red: the wrong one; blue: the right one; grey: other words or another order for "
        "the same; yellow line: where they part."
    )
    grid = Grid(("#", *_NAMES.values()), rows, (0.15, 1, 1, 1, 1))
    return [Note((StyledText(legend, "quiet"),)), grid]


def _cell(diff: StepDiff, part: Aspect) -> Line:
    agreement: Agreement = diff.parts.get(part, "differs")
    if agreement == "same" and diff.wrong is not None:
        return (StyledText(_text(diff.wrong, part), "quiet"),)
    kinds = ("step", "step") if agreement == "alike" else ("wrong", "mended")
    sides = [
        StyledText(_text(step, part), kind) for kind, step in zip(kinds, (diff.wrong, diff.right), strict=True) if step
    ]
    return (sides[0], "\n", sides[1]) if len(sides) == 2 else sides


def _text(step: Step, part: Aspect) -> str:
    if part == "passages":
        return "; ".join(f"{each.title[:80]} ({each.id[:40]})" for each in step.passages) or "none"
    return getattr(step, part)[:_LONGEST]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDiff:
    """The steps of a wrong and a right rollout at one position, compared."""

    wrong: Step | None
    """The wrong rollout's step; None when that rollout has fewer steps."""
    right: Step | None
    parts: Mapping[Aspect, Agreement]
    """The parts in which the two steps are compared; empty when one of the steps is missing."""


def diff_steps(wrong: Sequence[Step], right: Sequence[Step], diverges_at: int) -> tuple[StepDiff, ...]:
    """Compare both rollouts position by position. Where another wording stands before the position `diverges_at` (from
    0), it counts as no difference.
    """
    return tuple(
        StepDiff(wrong=bad, right=good, parts=_parts(bad, good, position < diverges_at) if bad and good else {})
        for position, (bad, good) in enumerate(zip_longest(wrong, right))
    )


def label_of(diffs: Sequence[StepDiff], pair: StepPair, *, same_plan: bool) -> ErrorType | None:
    """Return the error type that this comparison of a wrong and a right rollout shows, or None. `pair` names the two
    steps at which they part; `same_plan` says that both are rollouts of one node.
    """
    if pair.diverges_at >= len(diffs):
        return None
    diff = diffs[pair.diverges_at]
    if not same_plan:
        return "decomposition" if diff.parts.get("sub_question") == "differs" else None
    if diff.parts.get("answer") != "differs" or diff.wrong is None or diff.right is None:
        return None
    searched_wrongly = diff.parts["passages"] == "differs" and not holds_answer(diff.wrong, diff.right.answer, mentions)
    return "retrieval" if searched_wrongly else "reasoning"


def reasons(diffs: Sequence[StepDiff], pair: StepPair, *, same_plan: bool) -> list[str]:
    """Explain the error type that the comparison shows in sentences without any text of the row; steps are numbered
    from 1.
    """
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
    elif diffs[at].parts["passages"] == "differs":
        sentences.append("and the passages that were misread held the right answer, too.")
    else:
        count = f"{len(bad.passages)} passages are" if len(bad.passages) != 1 else "passage is"
        sentences += [f"and the {count} the same, but the answer is another."]
    return [sentence for sentence in sentences if sentence]


def _of_queries(agreement: Agreement) -> str:
    return "the query is worded otherwise" if agreement == "differs" else "the query is the same"


def _parts(wrong: Step, right: Step, is_before: bool) -> dict[Aspect, Agreement]:
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
