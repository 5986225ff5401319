"""Row after row: what it is on the left, what a person says of it on the right; each word is in the log at once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from inspector.agreement import between_people, with_filters
from inspector.deciding import Curation, decide, fix_of, parts_of, value_at
from inspector.decisions import LOG, Merged, Stance, merged, of_run, read_decisions, standing
from inspector.open_run import OpenRun
from inspector.views import queue as queues
from inspector.views import rows as row_views
from inspector.views.overview import PRODUCTS
from inspector.views.searching import searched
from inspector.visible_text import escaped, visible
from schemas import Decision, TrailforgeError

REASONS = (
    "wrong answer",
    "not supported by the passages",
    "unclear, or several answers",
    "reasoning or searches make no sense",
    "badly written",
)
"""What is most often wrong, on the keys 1 to 5."""
_HEIGHT = 720
_AGAIN, _LAST, _PLACE, _NAME, _PROBLEM = (f"decide.{name}" for name in ("again", "last", "place", "name", "problem"))
"""In the session: table and uid of the row that is looked at again instead of the list's, and of the one decided last;
the place in the list; the person's name, which has to outlive visits to other views; why a word was not saved."""
STYLE = """
.said { font-size: .8rem; opacity: .85; overflow-wrap: anywhere; margin: .15rem 0; }
.said.accept b { color: #2e9e5b; } .said.reject b { color: #d1453b; } .said.fix b { color: #2a6fdb; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seat:
    """A row as a person has it before them. What they say is meant for this one, whatever the page shows by then."""

    run: OpenRun
    curation: Curation
    wanted: queues.Wanted
    who: str
    row: Mapping[str, Any]
    uid: str
    place: int
    """In the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heard:
    """All that was said of a run, and what holds."""

    decisions: tuple[Decision, ...]
    stances: tuple[Stance, ...]
    merged: Merged


def show(run: OpenRun, curation: Curation) -> None:
    """Decide on rows, and see how far people agree."""
    if not curation.tables:
        st.info("This data set is curated: decide on rows of the run that it was made of.")
        return
    heard = _heard(run)
    rows, agreement = st.tabs(["Rows", "Progress and agreement"])
    with rows:
        _show_rows(run, curation, heard)
    with agreement:
        _show_agreement(run, curation, heard.stances, heard.merged)


def _show_rows(run: OpenRun, curation: Curation, heard: _Heard) -> None:
    who, wanted = _wanted(run, curation)
    if wanted is None or not who:
        st.info("No table has rows to decide on." if wanted is None else "Give your name: decisions are kept under it.")
        return
    if wanted.mode == queues.IN_ORDER and wanted.words.strip():
        searched(run, wanted.table, wanted.words)
    numbers = queues.queue(run, wanted, who, heard.stances, heard.merged)
    _show_progress(run, wanted, who, heard, len(numbers))
    place = max(0, min(st.session_state.setdefault(_PLACE, 0), len(numbers) - 1))
    again = st.session_state.get(_AGAIN)
    number = run.find(*again) if again else None
    if number is None and not len(numbers):
        st.success("Nothing is left in this list. Choose another one above.")
        return
    number = numbers[place] if number is None else number
    row = run.row(wanted.table, number)
    uid = row[run.key_of(wanted.table)]
    seat = _Seat(run=run, curation=curation, wanted=wanted, who=who, row=row, uid=uid, place=place)
    left, right = st.columns([3, 1.15], gap="medium")
    with left, st.container(height=_HEIGHT, key="decide_row"):
        row_views.show_row(run, wanted.table, number)
    with right:
        _show_steps(place, len(numbers))
        _show_choices(seat)
        _show_fix(seat)
        _show_said([each for each in heard.decisions if (each.table, each.uid) == (wanted.table, uid)])


def _show_progress(run: OpenRun, wanted: queues.Wanted, who: str, heard: _Heard, left: int) -> None:
    done = sum(each.table == wanted.table and each.who == who for each in heard.stances)
    total = run.size(wanted.table)
    st.progress(min(done / total, 1.0), text=f"{done:,} of {total:,} rows decided by you; {left:,} in this list")


def _wanted(run: OpenRun, curation: Curation) -> tuple[str, queues.Wanted | None]:
    """The line above the rows: who decides, on what, in which order."""
    order = [*PRODUCTS, *curation.tables]  # what the run is for comes first
    tables = sorted((name for name in curation.tables if name in run.tables), key=order.index)
    if not tables:
        return "", None
    columns = st.columns([1.2, 1.5, 1.5, 1.5, 1.5, 1], vertical_alignment="bottom")
    name = st.session_state.get(_NAME) or st.query_params.get("who", curation.who)
    who = columns[0].text_input("You are", name, key="decide.who").strip()
    st.session_state[_NAME] = who
    table = columns[1].selectbox("Table", tables, key="decide.table", on_change=_restart)
    mode = columns[2].selectbox(
        "Order", list(queues.MODES), key="decide.mode", on_change=_restart,
        help="\n".join(f"- **{name}**: {told}" for name, told in queues.MODES.items()),
    )  # fmt: skip
    number = ""
    if mode == queues.LOWEST:
        number = columns[3].selectbox("By", run.numbers(table), key=f"decide.number.{table}", on_change=_restart) or ""
    words = columns[4].text_input("Search in all texts", key="decide.words", on_change=_restart)
    hide = columns[5].toggle("Hide decided", value=True, key="decide.hide", on_change=_restart)
    if who != curation.who:
        st.query_params["who"] = who
    else:
        st.query_params.pop("who", None)
    return who, queues.Wanted(table=table, mode=mode, number=number, words=words, hide_decided=hide)


def _show_steps(place: int, count: int) -> None:
    back, forward = st.columns(2)
    back.button("Previous", shortcut="k", disabled=place == 0, on_click=_go, args=(place - 1,), width="stretch")
    forward.button("Next", shortcut="j", disabled=place >= count - 1, on_click=_go, args=(place + 1,), width="stretch")
    last = st.session_state.get(_LAST)
    st.button(
        "Back to the row decided last", shortcut="u", disabled=last is None, on_click=_look_again, width="stretch",
        help="What you say then counts in place of what you said before.",
    )  # fmt: skip


def _show_choices(seat: _Seat) -> None:
    """Accept, reject for a reason, remark. Keys name the row: what is pressed twice is never said of the next one."""
    st.button(
        "Accept", shortcut="a", type="primary", width="stretch", key=f"decide.accept.{seat.uid}",
        on_click=_say, args=(seat, {"action": "accept"}),
    )  # fmt: skip
    st.caption("Reject:")
    for number, reason in enumerate(REASONS, start=1):
        st.button(
            reason, shortcut=str(number), width="stretch", key=f"decide.reject.{number}.{seat.uid}",
            on_click=_say, args=(seat, {"action": "reject", "reason": reason}),
        )  # fmt: skip
    for name, action, field, hint in (
        ("Reject", "reject", "reason", "another reason"),
        ("Comment", "comment", "comment", "a comment, which decides nothing"),
    ):
        key = f"decide.{field}.{seat.uid}"
        with st.form(f"{key}.form", border=False, clear_on_submit=True), st.container(horizontal=True):
            st.text_input(name, key=key, placeholder=hint, label_visibility="collapsed")
            st.form_submit_button(name, on_click=_say_typed, args=(seat, key, action, field))


def _show_fix(seat: _Seat) -> None:
    """Change one field: the row is then good."""
    fixable = seat.curation.fixable(seat.wanted.table)
    if not fixable:
        return
    with st.expander("Fix a field"):
        field = st.selectbox("Field", parts_of(seat.row, fixable), key=f"decide.field.{seat.uid}")
        value = value_at(seat.row, field)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        key = f"decide.value.{seat.uid}.{field}"
        st.text_area("Value", text, key=key, height=140, help="Lists and numbers as JSON.")
        st.button("Save the fix", on_click=_say_fix, args=(seat, field, key), key=f"{key}.save", width="stretch")


def _show_said(decisions: Sequence[Decision]) -> None:
    """What was said of the row so far, and whether the last word could be kept."""
    problem = st.session_state.pop(_PROBLEM, None)
    if problem:
        st.error("Not saved:")
        st.code(problem, language=None, wrap_lines=True)
    for each in reversed(decisions):
        what = each.reason or each.comment or (f"{each.field} = {each.value}" if each.field else "")
        told = f"{each.when[:16].replace('T', ' ')} {each.who}"
        st.html(f'<div class="said {each.action}"><b>{each.action}</b> {escaped(what)} · {escaped(told)}</div>')


def _show_agreement(run: OpenRun, curation: Curation, stances: Sequence[Stance], heard: Merged) -> None:
    if not stances:
        st.info("Nobody has decided on a row yet.")
        return
    said = Counter((each.table, each.action) for each in heard.rulings)
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Progress")
        st.dataframe(
            [
                {
                    "table": name, "rows": run.size(name), "accepted": said[name, "accept"],
                    "fixed": said[name, "fix"], "rejected": said[name, "reject"],
                }
                for name in curation.tables if run.size(name)
            ],
            hide_index=True,
        )  # fmt: skip
        st.subheader(
            "Between people and filters", help="Rows of the tables passed all filters; those of rejected/ did not."
        )
        st.dataframe(
            [
                {
                    "who": visible(each.who),
                    "filters kept": each.accepted, "kept too": _share(each.accepted_too, each.accepted),
                    "filters rejected": each.rejected, "rejected too": _share(each.rejected_too, each.rejected),
                }
                for each in with_filters(stances)
            ],
            hide_index=True,
        )  # fmt: skip
    with right:
        st.subheader("Between people", help="Cohen's kappa: 1 is full agreement, 0 what chance gives.")
        pairs = [
            {
                "two people": visible(" and ".join(each.people)), "rows of both": each.rows,
                "agree": _share(each.same, each.rows), "kappa": each.kappa,
            }
            for each in between_people(stances)
        ]  # fmt: skip
        if pairs:
            st.dataframe(pairs, hide_index=True, column_config={"kappa": st.column_config.NumberColumn(format="%.2f")})
        else:
            st.info("No row has been decided by two people.")
        st.subheader("Where people differ")
        st.dataframe(
            [
                {"table": each.table, "row": visible(each.uid), "field": visible(each.field),
                 "said": visible(", ".join(f"{who}: {what}" for who, what in each.sides))}
                for each in heard.conflicts
            ],
            hide_index=True,
        )  # fmt: skip
    st.caption("The curated data set is made of these decisions by:")
    st.code(f"trailforge curate apply {run.folder} --out {run.folder}-curated", language="bash")


def _say(seat: _Seat, word: Mapping[str, str]) -> None:
    """Write a word; where the row does not leave the list by it, go on to the next one."""
    run, wanted = seat.run, seat.wanted
    try:
        decide(run.folder, run.run_id, wanted.table, seat.row, seat.who, [word], seat.curation.check)
    except TrailforgeError as error:
        st.session_state[_PROBLEM] = visible(str(error))
        return
    st.toast(f"{word['action']}: saved")
    if word["action"] == "comment":
        return
    heard = _heard(run)
    left = queues.queue(run, wanted, seat.who, heard.stances, heard.merged)
    was_again = st.session_state.pop(_AGAIN, None)
    if was_again is None and run.find(wanted.table, seat.uid) in left:
        st.session_state[_PLACE] = seat.place + 1
    st.session_state[_LAST] = wanted.table, seat.uid


def _say_typed(seat: _Seat, key: str, action: str, field: str) -> None:
    text = " ".join(st.session_state[key].split())
    if text:
        _say(seat, {"action": action, field: text})


def _say_fix(seat: _Seat, field: str, key: str) -> None:
    _say(seat, fix_of(seat.row, field, st.session_state[key]))


def _heard(run: OpenRun) -> _Heard:
    """What was said of this run, read again when the log has changed."""
    path = run.folder / LOG
    try:
        found = path.stat()
    except FileNotFoundError:
        return _read(path, 0, 0, run.run_id)
    return _read(path, found.st_mtime_ns, found.st_size, run.run_id)


@st.cache_resource(max_entries=4, show_spinner=False)
def _read(path: Path, when: int, size: int, run_id: str) -> _Heard:
    decisions = of_run(read_decisions(path), run_id)
    return _Heard(decisions=tuple(decisions), stances=tuple(standing(decisions)), merged=merged(decisions))


def _go(place: int) -> None:
    st.session_state[_PLACE] = place
    st.session_state.pop(_AGAIN, None)


def _look_again() -> None:
    st.session_state[_AGAIN] = st.session_state[_LAST]


def _restart() -> None:
    _go(0)
    st.session_state.pop(_LAST, None)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"
