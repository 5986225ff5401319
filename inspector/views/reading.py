"""What the views of trajectories, trees and episodes share: heads, passages, steps and rewards, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import streamlit as st

from trailforge.inspector.answer_marks import Marked, spans, telling_first
from trailforge.inspector.views import fields
from trailforge.inspector.visible_text import escaped, marked
from trailforge.rewards import same_answer
from trailforge.schemas import Passage, Provenance, Step, to_dict

LONGEST = 4_000
"""Characters of a passage that are shown."""
STYLE = """
.asked { font-size: 1.2rem; font-weight: 600; overflow-wrap: anywhere; white-space: pre-wrap; line-height: 1.35; }
.answers { display: flex; flex-wrap: wrap; gap: .2rem 1.5rem; margin: .3rem 0; overflow-wrap: anywhere; }
.answers .name, .small { font-size: .8rem; opacity: .72; }
.chips { display: flex; flex-wrap: wrap; gap: .35rem; }
.chip { font-size: .78rem; padding: .08rem .5rem; border-radius: 1rem; background: rgba(128,128,128,.16);
        white-space: nowrap; max-width: 100%; overflow: hidden; text-overflow: ellipsis; }
.chip.wrong { background: rgba(209,69,59,.22); } .chip.right { background: rgba(46,158,91,.22); }
.chip.mended { background: rgba(42,111,219,.20); }
mark { color: inherit; border-radius: 3px; padding: 0 .1rem; background: rgba(232,198,76,.45); }
mark.gold { background: rgba(46,158,91,.38); } mark.mended { background: rgba(42,111,219,.34); }
mark.wrong { background: rgba(209,69,59,.34); }
.passage { margin: .15rem 0; font-size: .86rem; }
.passage summary { cursor: pointer; overflow-wrap: anywhere; }
.passage .body { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 11rem; overflow-y: auto;
                 padding: .2rem .6rem; border-left: 2px solid rgba(128,128,128,.35); }
.steps { display: grid; grid-template-columns: 2.2rem minmax(10rem,1.1fr) minmax(6rem,.6fr) minmax(14rem,1.5fr);
         font-size: .9rem; }
.steps > div { padding: .35rem .6rem; border-top: 1px solid rgba(128,128,128,.25); overflow-wrap: anywhere; }
.steps > .title { border: 0; font-size: .78rem; opacity: .72; padding-bottom: .1rem; }
.steps > .wrong { background: rgba(209,69,59,.10); } .steps > .mended { background: rgba(42,111,219,.09); }
.parts { display: grid; grid-template-columns: max-content 3.5rem 10rem 1fr; gap: .3rem .9rem; align-items: center;
         font-size: .9rem; }
.parts .bar { height: .55rem; border-radius: .3rem; background: rgba(128,128,128,.2); overflow: hidden; }
.parts .bar div { height: 100%; background: #2e9e5b; }
"""
ORIGINS = {
    "policy": "The plan was made by the policy, a model.",
    "rule": "The plan was made by rules, in code.",
    "oracle": "The plan is the gold one: the decomposition or search plan that came with the question.",
}
"""What an origin means, for tooltips."""


def show_head(
    question: str, gold: str, aliases: Sequence[str], final: str | None, is_right: bool, chips: Iterable[str]
) -> None:
    """The question, its gold answer and the one that was given, where there is one."""
    also = f'<span class="small"> also: {escaped("; ".join(aliases), 300)}</span>' if aliases else ""
    given = _given(final, is_right) if final is not None else ""
    st.html(
        f'<div class="asked">{escaped(question, LONGEST)}</div><div class="answers">'
        f'<div><span class="name">gold answer </span><mark class="gold">{escaped(gold, 500)}</mark>{also}</div>'
        f'{given}</div><div class="chips">{"".join(chips)}</div>'
    )


def _given(final: str, is_right: bool) -> str:
    kind, sign = ("gold", "✓") if is_right else ("wrong", "✗")
    answer = f'<mark class="{kind}">{escaped(final, 500) or "none"}</mark>'
    return f'<div><span class="name">final answer </span>{answer} {sign}</div>'


def chip(text: str, told: str = "", kind: str = "") -> str:
    """A short fact; `told` when the pointer rests on it."""
    return f'<span class="chip {kind}" title="{escaped(told)}">{escaped(text)}</span>'


def passages(found: Sequence[Passage], marks: Sequence[Marked], only: frozenset[str] = frozenset()) -> str:
    """Unfolded those in which an answer stands, which come first. `only`: ids that the other side did not find."""
    if not found:
        return '<div class="small">no passage</div>'
    return "".join(_passage(*each, marks, only) for each in telling_first(found, marks))


def _passage(rank: int, passage: Passage, is_telling: bool, marks: Sequence[Marked], only: frozenset[str]) -> str:
    alone = chip("only here") if passage.id in only else ""
    head = f"{rank} · <b>{escaped(passage.title, 200)}</b> <span class='small'>{_source(passage)}</span> {alone}"
    text = marked(passage.text, spans(passage.text[:LONGEST], marks), LONGEST)
    opened = " open" if is_telling else ""
    return f'<details class="passage"{opened}><summary>{head}</summary><div class="body">{text}</div></details>'


def _source(passage: Passage) -> str:
    return f"{escaped(passage.id, 60)} · score {passage.score:.3f}"


def show_steps(steps: Sequence[Step], gold: Marked, kinds: Mapping[int, str] | None = None) -> None:
    """All steps under each other. `kinds`: by place in the list, `wrong` or `mended`."""
    titles = "".join(
        f'<div class="title">{title}</div>' for title in ("", "sub-question and query", "answer", "passages")
    )
    rows = (_step(step, gold, (kinds or {}).get(place, "")) for place, step in enumerate(steps))
    st.html(f'<div class="steps">{titles}{"".join(rows)}</div>')


def _step(step: Step, gold: Marked, kind: str) -> str:
    marks = (gold, Marked(kind="wrong" if kind == "wrong" else "step", answers=(step.answer,)))
    asked = f"<div>{escaped(step.sub_question, 600)}</div>{query(step)}"
    sample = f'<div class="small">answer drawn anew, sample {step.answer_sample}</div>' if step.answer_sample else ""
    answer = marked(step.answer, [(0, len(step.answer), marks[1].kind)], 600)
    if any(same_answer(step.answer, each) for each in gold.answers):
        answer = marked(step.answer, [(0, len(step.answer), "gold")], 600)
    said = f'<div class="small">{kind}</div>' if kind else ""
    cells = (f"{step.index + 1}", asked, f"{answer}{sample}{said}", passages(step.passages, marks))
    return "".join(f'<div class="{kind}">{cell}</div>' for cell in cells)


def query(step: Step) -> str:
    """What was searched; said only where it is not the sub-question itself."""
    if step.query == step.sub_question:
        return '<div class="small">searched as it stands</div>'
    word = "reworded query" if step.query_rephrased else "query"
    return f'<div><span class="small">{word}</span> {escaped(step.query, 600)}</div>'


def show_parts(parts: Mapping[str, tuple[float, str]]) -> None:
    """Parts of a reward, each in [0, 1], with what they mean."""
    cells = (
        f'<div>{escaped(name.replace("_", " "))}</div><div><b>{value:.3f}</b></div><div class="bar">'
        f'<div style="width:{100 * min(max(value, 0.0), 1.0):.0f}%"></div></div>'
        f'<div class="small">{escaped(told)}</div>'
        for name, (value, told) in parts.items()
    )
    st.html(f'<div class="parts">{"".join(cells)}</div>')


def show_provenance(provenance: Provenance, **more: object) -> None:
    """Where a row comes from."""
    told = {**more, **to_dict(provenance)}
    keys = told.pop("call_keys")
    fields.show_fields(told | {f"model calls ({len(keys)})": "\n".join(keys) or "none"})
