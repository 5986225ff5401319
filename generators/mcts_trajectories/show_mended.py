"""A reflective row's mistake and what mends it, next to each other, and the diff behind its label."""

from __future__ import annotations

from collections.abc import Sequence

from trailforge.generators.mcts_trajectories.step_diff import (
    MEANINGS,
    Agreement,
    Part,
    StepDiff,
    diff_steps,
    label_of,
    reasons,
)
from trailforge.pipelines.show.common import passages
from trailforge.pipelines.show.marks import Marked
from trailforge.pipelines.show.parts import Grid, GridRow, Line, Note, Parts, Span
from trailforge.rewards import same_answer
from trailforge.schemas import SearchTree, Step, StepPair, Trajectory

_NAMES: dict[Part, str] = {
    "sub_question": "sub-question", "query": "query", "passages": "passages", "answer": "answer",
}  # fmt: skip
_LONGEST = 500
_LEGEND = Note(
    (
        Span("Marked in the texts: ", "quiet"), Span("gold answer", "gold"), " ", Span("mended answer", "mended"), " ",
        Span("wrong answer", "wrong"),
    )
)  # fmt: skip


def mended(row: Trajectory, tree: SearchTree | None) -> Parts:
    """`tree`: of the row's question; without it the row shows its own steps, but not the whole rollouts."""
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
        Note((Span(f"{row.reflection_error} error. ", "strong"), " ".join(why)), "warn"),
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
        title: Line = (name, Span(" · differs" if parts[part] == "differs" else "", "strong"))
        sides = (("wrong", wrong, ours - theirs), ("mended", right, theirs - ours))
        rows.append(GridRow([title, *(_value(part, step, marks, side, only) for side, step, only in sides)]))
    head = (
        "",
        f"Wrong: step {pair.wrong_step + 1} of rollout {pair.wrong_rollout}",
        f"Mended: step {pair.right_step + 1} of rollout {pair.right_rollout}",
    )
    return Grid(head, rows, (0.25, 1, 1))


def _value(part: Part, step: Step, marks: Sequence[Marked], side: str, only: frozenset[str]) -> Parts | Line:
    if part == "passages":
        return [passages(step.passages, marks, only)]
    if part == "answer":
        is_gold = side == "mended" and any(same_answer(step.answer, each) for each in marks[0].answers)
        return (Span(step.answer[:_LONGEST], "gold" if is_gold else side),)
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
    return [Note((Span(legend, "quiet"),)), grid]


def _cell(diff: StepDiff, part: Part) -> Line:
    agreement: Agreement = diff.parts.get(part, "differs")
    if agreement == "same" and diff.wrong is not None:
        return (Span(_text(diff.wrong, part), "quiet"),)
    kinds = ("step", "step") if agreement == "alike" else ("wrong", "mended")
    sides = [Span(_text(step, part), kind) for kind, step in zip(kinds, (diff.wrong, diff.right), strict=True) if step]
    return (sides[0], "\n", sides[1]) if len(sides) == 2 else sides


def _text(step: Step, part: Part) -> str:
    if part == "passages":
        return "; ".join(f"{each.title[:80]} ({each.id[:40]})" for each in step.passages) or "none"
    return getattr(step, part)[:_LONGEST]
