"""A reflective row's mistake and what mends it, next to each other, and the diff behind its label."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from trailforge.inspector.answer_marks import Marked
from trailforge.inspector.step_diff import MEANINGS, Agreement, Part, StepDiff, diff_steps, label_of, reasons
from trailforge.inspector.views.reading import passages
from trailforge.inspector.visible_text import escaped, marked
from trailforge.rewards import same_answer
from trailforge.schemas import SearchTree, Step, StepPair, Trajectory

STYLE = """
.sides { display: grid; grid-template-columns: 1fr 1fr; column-gap: .8rem; font-size: .92rem; }
.sides > div { padding: .3rem .8rem; overflow-wrap: anywhere; min-width: 0; }
.sides > .wrong { border-left: 4px solid #d1453b; background: rgba(209,69,59,.09); }
.sides > .mended { border-left: 4px solid #2a6fdb; background: rgba(42,111,219,.08); }
.sides .name { font-size: .75rem; opacity: .72; }
.sides .title { font-weight: 600; padding-top: .5rem; }
.sides .differs .name::after { content: " · differs"; font-weight: 700; }
.sides .answer { font-size: 1.05rem; font-weight: 600; }
.diff { display: grid; grid-template-columns: 2.2rem repeat(4, minmax(0,1fr)); font-size: .85rem; }
.diff > div { padding: .3rem .5rem; border-top: 1px solid rgba(128,128,128,.25); overflow-wrap: anywhere; }
.diff > .title { border: 0; font-size: .78rem; opacity: .72; }
.diff .id { font-size: .72rem; opacity: .7; }
.diff .same { opacity: .72; }
.diff .was { background: rgba(209,69,59,.20); border-radius: 3px; padding: 0 .25rem; }
.diff .is { background: rgba(42,111,219,.20); border-radius: 3px; padding: 0 .25rem; }
.diff .was.alike, .diff .is.alike { background: rgba(128,128,128,.14); }
.diff > .here { border-top: 2px solid #e0a800; }
.why { padding: .4rem .8rem; border-radius: 4px; background: rgba(232,198,76,.16); margin-bottom: .4rem; }
"""
_NAMES: dict[Part, str] = {
    "sub_question": "sub-question", "query": "query", "passages": "passages", "answer": "answer",
}  # fmt: skip
_LONGEST = 500
_LEGEND = (
    '<div class="small">Marked in the texts: <mark class="gold">gold answer</mark> '
    '<mark class="mended">mended answer</mark> <mark class="wrong">wrong answer</mark></div>'
)


def show_mended(row: Trajectory, tree: SearchTree | None) -> None:
    """`tree`: of the row's question; without it the row shows its own steps, but not the whole rollouts."""
    mistake = next((place for place, step in enumerate(row.steps) if step.is_mistake), None)
    if mistake is None or mistake + 1 >= len(row.steps) or row.step_pair is None or row.reflection_error is None:
        st.warning("This row is called reflective, but none of its steps is marked as a mistake that is mended.")
        return
    diffs = _diffs(row.step_pair, tree)
    said = [MEANINGS[row.reflection_error]]
    if diffs is not None:
        same_plan = _same_plan(row.step_pair, tree)
        said = [" ".join(reasons(diffs, row.step_pair, same_plan=same_plan)), *said]
        if label_of(diffs, row.step_pair, same_plan=same_plan) != row.reflection_error:
            st.warning("The diff of the two rollouts does not agree with this row's label.")
    st.html(f'<div class="why"><b>{row.reflection_error} error.</b> {" ".join(said)}</div>')
    gold = Marked(kind="gold", answers=(row.answer, *row.answer_aliases))
    st.html(_sides(row.steps[mistake], row.steps[mistake + 1], row.step_pair, gold))
    if diffs is None:
        st.info("The search tree of this question is not in this run, so the whole rollouts cannot be compared.")
    else:
        st.html(_table(diffs, row.step_pair))


def _diffs(pair: StepPair, tree: SearchTree | None) -> tuple[StepDiff, ...] | None:
    if tree is None or max(pair.wrong_rollout, pair.right_rollout) >= len(tree.rollouts):
        return None
    wrong, right = tree.rollouts[pair.wrong_rollout], tree.rollouts[pair.right_rollout]
    return diff_steps(wrong.steps, right.steps, pair.diverges_at)


def _same_plan(pair: StepPair, tree: SearchTree | None) -> bool:
    return tree is not None and tree.rollouts[pair.wrong_rollout].node == tree.rollouts[pair.right_rollout].node


def _sides(wrong: Step, right: Step, pair: StepPair, gold: Marked) -> str:
    """Both steps, part by part on one line."""
    marks = (
        gold,
        Marked(kind="mended", answers=(right.answer,)),
        Marked(kind="wrong", answers=(wrong.answer,)),
    )
    parts = diff_steps([wrong], [right], 0)[0].parts
    ours, theirs = (frozenset(passage.id for passage in step.passages) for step in (wrong, right))
    cells = [
        f'<div class="wrong title">Wrong: step {pair.wrong_step + 1} of rollout {pair.wrong_rollout}</div>',
        f'<div class="mended title">Mended: step {pair.right_step + 1} of rollout {pair.right_rollout}</div>',
    ]
    for part in _NAMES:
        for side, step, only in (("wrong", wrong, ours - theirs), ("mended", right, theirs - ours)):
            value = _value(part, step, marks, side, only)
            differs = "differs" if parts[part] == "differs" else ""
            cells.append(f'<div class="{side} {differs}"><div class="name">{_NAMES[part]}</div>{value}</div>')
    return f'{_LEGEND}<div class="sides">{"".join(cells)}</div>'


def _value(part: Part, step: Step, marks: Sequence[Marked], side: str, only: frozenset[str]) -> str:
    if part == "passages":
        return passages(step.passages, marks, only)
    if part == "answer":
        is_gold = any(same_answer(step.answer, each) for each in marks[0].answers)
        kind = "gold" if is_gold and side == "mended" else side
        return f'<div class="answer">{marked(step.answer, [(0, len(step.answer), kind)], _LONGEST)}</div>'
    return escaped(step.sub_question if part == "sub_question" else step.query, _LONGEST)


def _table(diffs: Sequence[StepDiff], pair: StepPair) -> str:
    """Both rollouts, a line a step: what is the same once, what differs twice."""
    head = "".join(f'<div class="title">{title}</div>' for title in ("#", *_NAMES.values()))
    rows = []
    for place, diff in enumerate(diffs):
        here = "here" if place == pair.diverges_at else ""
        cells = [str(place + 1), *(_cell(diff, part) for part in _NAMES)]
        rows += [f'<div class="{here}">{cell}</div>' for cell in cells]
    legend = (
        '<div class="small">Both rollouts, step by step. Red: the wrong one; blue: the right one; grey: other words '
        "or another order for the same; yellow line: where they part.</div>"
    )
    return f'{legend}<div class="diff">{head}{"".join(rows)}</div>'


def _cell(diff: StepDiff, part: Part) -> str:
    agreement: Agreement = diff.parts.get(part, "differs")
    if agreement == "same" and diff.wrong is not None:
        return f'<span class="same">{_told(diff.wrong, part)}</span>'
    sides = (("was", diff.wrong), ("is", diff.right))
    return "".join(
        f'<div><span class="{side} {agreement}">{_told(step, part)}</span></div>' for side, step in sides if step
    )


def _told(step: Step, part: Part) -> str:
    if part == "passages":
        titles = (f"{escaped(each.title, 80)} <span class='id'>{escaped(each.id, 40)}</span>" for each in step.passages)
        return "; ".join(titles) or "none"
    return escaped(getattr(step, part), _LONGEST)
