"""Row after row: what it is on the left, what a person says of it on the right; each word is in the log at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from inspector.deciding import Curation, decide, fix_of
from inspector.decisions import LOG, Merged, Stance, merged, of_run, read_decisions, standing
from inspector.open_run import OpenRun
from inspector.views import queue as queues
from inspector.views import rows as row_views
from inspector.views.agreement import show_agreement
from inspector.views.fixing import Fixing, show_fix
from inspector.views.overview import PRODUCTS
from inspector.views.searching import searched
from inspector.views.to_decide import ARRIVED, ROW, TABLE
from inspector.visible_text import escaped, visible
from schemas import Decision, InvalidInput, TrailforgeError

REASONS = (
    "wrong answer",
    "not supported by the passages",
    "unclear, or several answers",
    "reasoning or searches make no sense",
    "badly written",
)
"""What is most often wrong, on the keys 1 to 5."""
_HEIGHT = 720
_LONGEST_KIND = 60
_AGAIN, _DONE, _PLACE, _NAME, _PROBLEM = (f"decide.{name}" for name in ("again", "done", "place", "name", "problem"))
"""In the session: table and uid of the row that is looked at instead of the list's; those of the rows decided so far,
in their order; the place in the list; the person's name, which has to outlive visits to other views; why a word was not
saved."""
_CHOSEN_TABLE = "decide.table"
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
    number: int
    """In the table."""
    place: int
    """In the list."""
    stance: Stance | None
    """What this person has decided on the row."""


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
    _arrive(run, curation)
    rows, agreement = st.tabs(["Rows", "Progress and agreement"])
    with rows:
        _show_rows(run, curation, heard)
    with agreement:
        show_agreement(run, curation.tables, heard.stances, heard.merged)


def _show_rows(run: OpenRun, curation: Curation, heard: _Heard) -> None:
    order = [*PRODUCTS, *curation.tables]  # what the run is for comes first
    tables = sorted((name for name in curation.tables if name in run.tables), key=order.index)
    if not tables:
        st.info("No table has rows to decide on.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        who = _who(curation)
        wanted = _wanted(run, tables) if who else None
    if wanted is None:
        st.info("Give your name first: decisions are kept under it, and agreement is counted between names.")
        return
    if wanted.words.strip():
        searched(run, wanted.table, wanted.words)
    numbers = queues.queue(run, wanted, who, heard.stances, heard.merged)
    _show_progress(run, wanted, who, heard, len(numbers))
    place = max(0, min(st.session_state.setdefault(_PLACE, 0), len(numbers) - 1))
    again = st.session_state.get(_AGAIN)
    number = run.find(*again) if again else None
    if number is None and not len(numbers):
        _show_nothing(run, wanted)
        return
    number = int(numbers[place]) if number is None else number
    row = run.row(wanted.table, number)
    uid = row[run.key_of(wanted.table)]
    mine = (wanted.table, uid, who)
    stance = next((each for each in heard.stances if (each.table, each.uid, each.who) == mine), None)
    seat = _Seat(
        run=run, curation=curation, wanted=wanted, who=who, row=row, uid=uid, number=number, place=place, stance=stance
    )
    st.query_params.update({TABLE: wanted.table, ROW: uid})
    left, right = st.columns([3, 1.15], gap="medium")
    change = left.container()
    with left, st.container(height=_HEIGHT, key="decide_row"):
        row_views.show_row(run, wanted.table, number)
    with right:
        _show_problem()
        _show_steps(seat, len(numbers))
        _show_choices(seat)
        _show_fix(seat, change)
        _show_said([each for each in heard.decisions if (each.table, each.uid) == (wanted.table, uid)])


def _arrive(run: OpenRun, curation: Curation) -> None:
    """Where the address names a row or a table, go to it; once, for what a person then does leads to other rows."""
    if st.session_state.get(ARRIVED):
        return
    st.session_state[ARRIVED] = True
    uid, asked = st.query_params.get(ROW), st.query_params.get(TABLE)
    if not uid:
        if asked in curation.tables and asked in run.tables:
            st.session_state[_CHOSEN_TABLE] = asked
        return
    for table in curation.tables:
        if asked in (None, table) and run.find(table, uid) is not None:
            st.session_state[_CHOSEN_TABLE] = table
            st.session_state[_AGAIN] = table, uid
            return
    st.warning("The row of this address is not in this run, or people do not decide on rows of its table.")


def _show_nothing(run: OpenRun, wanted: queues.Wanted) -> None:
    """Why the list is empty."""
    if wanted.mode == queues.FILTERS_DIFFER and not len(run.disputed(wanted.table)):
        st.info("Of no row here it is told that some filters pass it and others do not. Choose another order above.")
    else:
        st.success("Nothing is left in this list. Choose another one above.")


def _show_progress(run: OpenRun, wanted: queues.Wanted, who: str, heard: _Heard, left: int) -> None:
    done = sum(each.table == wanted.table and each.who == who for each in heard.stances)
    total = run.size(wanted.table)
    st.progress(min(done / total, 1.0), text=f"{done:,} of {total:,} rows decided by you; {left:,} in this list")


def _who(curation: Curation) -> str:
    """The name under which a person decides. Where several share the page none is given beforehand."""
    name = st.session_state.get(_NAME) or st.query_params.get("who", curation.who)
    who = st.text_input("You are", name, key="decide.who", placeholder="your name", width=130).strip()
    st.session_state[_NAME] = who
    if curation.who and who != curation.who:
        st.query_params["who"] = who
    else:
        st.query_params.pop("who", None)  # an address that is sent to a colleague must not say who they are
    return who


def _wanted(run: OpenRun, tables: Sequence[str]) -> queues.Wanted:
    """The line above the rows: on what to decide, in which order."""
    table = st.selectbox("Table", tables, key=_CHOSEN_TABLE, on_change=_restart)
    modes = queues.modes_of(run, table)
    mode = st.selectbox(
        "Order", modes, key=f"decide.mode.{table}", on_change=_restart,
        help="\n".join(f"- **{name}**: {queues.MODES[name]}" for name in modes),
    )  # fmt: skip
    number = ""
    if mode == queues.LOWEST:
        number = st.selectbox("By", run.numbers(table), key=f"decide.number.{table}", on_change=_restart)
    kinds = queues.kinds_of(run, table)
    kind = None
    if kinds:
        kind = st.selectbox(
            "Only", [None, *kinds], key=f"decide.kind.{table}", on_change=_restart, format_func=_told,
            help="Rows of one kind, or with one value of another column.",
        )  # fmt: skip
    words = st.text_input("Search in all texts", key="decide.words", on_change=_restart)
    hide = st.toggle("Hide decided", value=True, key="decide.hide", on_change=_restart)
    return queues.Wanted(table=table, mode=mode, number=number, kind=kind, words=words, hide_decided=hide)


def _told(kind: queues.Kind | None) -> str:
    if kind is None:
        return "all rows"
    return f"{kind.column.replace('_', ' ')}: {visible(kind.value[:_LONGEST_KIND])} ({kind.rows:,})"


def _show_steps(seat: _Seat, count: int) -> None:
    place, last = seat.place, _decided_last(seat)
    back, forward = st.columns(2)
    back.button("Previous", shortcut="k", disabled=place == 0, on_click=_go, args=(place - 1,), width="stretch")
    forward.button("Next", shortcut="j", disabled=place >= count - 1, on_click=_go, args=(place + 1,), width="stretch")
    st.button(
        "Back to the row decided last", shortcut="u", disabled=last is None, on_click=_look_again, args=(last,),
        width="stretch", help="What you say then counts in place of what you said before.",
    )  # fmt: skip
    mine = (seat.wanted.table, seat.uid) if seat.stance else last
    st.button(
        f"Take back: {seat.stance.action}" if seat.stance else "Undo my last decision", shortcut="z",
        disabled=mine is None, on_click=_take_back, args=(seat, mine), key=f"decide.undo.{seat.uid}", width="stretch",
        help="The row is undecided again, its fixes are gone, and it is shown. Comments and what others said stay.",
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


def _show_fix(seat: _Seat, where: Any) -> None:
    """Change fields: the row is then good."""
    fixable = seat.curation.fixable(seat.wanted.table)
    if not fixable:
        return
    standing = {fix.field: fix.value for fix in seat.stance.fixes} if seat.stance else {}
    fixing = Fixing(
        place=(seat.wanted.table, seat.uid), row=seat.row, fixable=fixable, standing=standing,
        save=partial(_say_fixes, seat),
    )  # fmt: skip
    show_fix(fixing, where)


def _show_problem() -> None:
    """Why the last word could not be kept."""
    problem = st.session_state.pop(_PROBLEM, None)
    if problem:
        st.error("Not saved:")
        st.code(problem, language=None, wrap_lines=True)


def _show_said(decisions: Sequence[Decision]) -> None:
    """What was said of the row so far."""
    for each in reversed(decisions):
        what = each.reason or each.comment or (f"{each.field} = {each.value}" if each.field else "")
        told = f"{each.when[:16].replace('T', ' ')} {each.who}"
        st.html(f'<div class="said {each.action}"><b>{each.action}</b> {escaped(what)} · {escaped(told)}</div>')


def _say(seat: _Seat, word: Mapping[str, str]) -> None:
    _say_all(seat, [word])


def _say_all(seat: _Seat, words: Sequence[Mapping[str, str]]) -> bool:
    """Write words; where the row does not leave the list by them, go on to the next one. Whether they are written."""
    run, wanted = seat.run, seat.wanted
    if not _written(seat, seat.row, words):
        return False
    if words[0]["action"] == "comment":
        return True
    heard = _heard(run)
    left = queues.queue(run, wanted, seat.who, heard.stances, heard.merged)
    was_again = st.session_state.pop(_AGAIN, None)
    if was_again is None and seat.number in left:
        st.session_state[_PLACE] = seat.place + 1
    place = wanted.table, seat.uid
    st.session_state[_DONE] = [each for each in st.session_state.get(_DONE, []) if each != place] + [place]
    return True


def _say_typed(seat: _Seat, key: str, action: str, field: str) -> None:
    text = " ".join(st.session_state[key].split())
    if text:
        _say(seat, {"action": action, field: text})


def _say_fixes(seat: _Seat, changes: Sequence[tuple[str, str]]) -> bool:
    try:
        return _say_all(seat, [fix_of(seat.row, field, text) for field, text in changes])
    except InvalidInput as error:
        st.session_state[_PROBLEM] = visible(str(error))
        return False


def _take_back(seat: _Seat, place: tuple[str, str]) -> None:
    """One's own word on this row, or on the one decided last, which is then shown."""
    number = seat.run.find(*place)
    if number is not None and _written(seat, seat.run.row(place[0], number), [{"action": "withdraw"}]):
        st.session_state[_AGAIN] = place


def _written(seat: _Seat, row: Mapping[str, Any], words: Sequence[Mapping[str, str]]) -> bool:
    """Whether the words are in the log now; why not, is said on the page."""
    run = seat.run
    try:
        decide(run.folder, run.run_id, seat.wanted.table, row, seat.who, words, seat.curation.check)
    except TrailforgeError as error:
        st.session_state[_PROBLEM] = visible(str(error))
        return False
    st.toast("taken back" if words[0]["action"] == "withdraw" else f"{words[0]['action']}: saved")
    return True


def _decided_last(seat: _Seat) -> tuple[str, str] | None:
    """The row that this person decided last on this visit, and whose decision still stands."""
    decided = {(each.table, each.uid) for each in _heard(seat.run).stances if each.who == seat.who}
    return next((place for place in reversed(st.session_state.get(_DONE, [])) if place in decided), None)


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


def _look_again(place: tuple[str, str]) -> None:
    st.session_state[_AGAIN] = place


def _restart() -> None:
    _go(0)
    st.session_state.pop(_DONE, None)
