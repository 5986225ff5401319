"""Show rows one after the other for decisions: the row on the left, the person's decision on the right. Each decision
is logged at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from trailforge.curation import LOG, LatestDecision, TableGuide
from trailforge.inspector import deciding as queues
from trailforge.inspector.deciding import Curation, RunDecisions, decide, make_fix, read_run_decisions
from trailforge.inspector.showing import describe, product_of, show_of
from trailforge.inspector.views import visit as visits
from trailforge.inspector.views.drawing import Canvas, draw
from trailforge.inspector.views.fixing import Fixing, show_fix
from trailforge.inspector.views.overview import show_agreement
from trailforge.inspector.views.picking import ARRIVED, ROW, TABLE, ask_search, offer_like, search_table
from trailforge.inspector.views.visit import DecideVisit, button, visit_of_session
from trailforge.inspector.visible_text import escape_text, visible
from trailforge.pipelines import Place
from trailforge.pipelines.runs import OpenRun
from trailforge.pipelines.search import can_compare, texts_of
from trailforge.schemas import Decision, InvalidInput, TrailforgeError

_HEIGHT = 720
_LONGEST_KIND = 60
_NAME, _CHOSEN_TABLE = "decide.name", "decide.table"
"""Names in the session of the person's name, which has to outlive visits to other views, and of the chosen table."""
STYLE = """
.decision { font-size: .8rem; opacity: .85; overflow-wrap: anywhere; margin: .15rem 0; }
.decision.accept b { color: #2e9e5b; } .decision.reject b { color: #d1453b; } .decision.fix b { color: #2a6fdb; }
"""
STYLE += visits.STYLE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seat:
    """What a person has before them. What they press is meant for this, whatever the page shows by then."""

    run: OpenRun
    curation: Curation
    visit: DecideVisit
    wanted: queues.Wanted
    who: str
    last: Place | None
    """The row that this person decided last, on this visit or an earlier one, and whose decision still stands."""
    seat: int
    row: Mapping[str, Any]
    """Empty at the end of the list, as is `uid`."""
    uid: str
    number: int
    """In the table; -1 for none."""
    stance: LatestDecision | None
    """What this person has decided on the row."""


def show(run: OpenRun, curation: Curation) -> None:
    """Show the view in which a person decides on rows, and sees how far people agree."""
    if not curation.tables:
        st.info("This data set is curated: decide on rows of the run that it was made of.")
        return
    log = _read_log(run)
    _arrive(run, curation)
    # What is on the second one is counted when somebody looks at it, and not after each press on the first.
    rows, agreement = st.tabs(["Rows", "Progress and agreement"], key="decide.tabs", on_change="rerun")
    with rows:
        _show_rows(run, curation, log)
    with agreement:
        if agreement.open:
            show_agreement(run, curation.tables, log.stances, log.merged)


def _show_rows(run: OpenRun, curation: Curation, log: RunDecisions) -> None:
    visit, tables = visit_of_session(), _tables(run, curation)
    if not tables:
        st.info("No table has rows to decide on.")
        return
    if visit.again and visit.again[0] in tables:
        st.session_state[_CHOSEN_TABLE] = visit.again[0]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        who = _who(curation)
        wanted = _wanted(run, curation, tables, visit, who) if who else None
    if wanted is None:
        st.info("Give your name first: decisions are kept under it, and agreement is counted between names.")
        return
    if wanted.words.strip():
        search_table(run, wanted.table, wanted.words)
    numbers = queues.queue(run, wanted, who, log.stances, log.merged)
    _show_progress(run, wanted, who, log, len(numbers))
    visit.place = max(0, min(visit.place, len(numbers) - 1))
    number = run.find(*visit.again) if visit.again and visit.again[0] == wanted.table else None
    if number is None and len(numbers):
        number = int(numbers[visit.place])
    row = {} if number is None else run.row(wanted.table, number)
    uid = "" if number is None else row[run.key_of(wanted.table)]
    seat = _Seat(
        run=run, curation=curation, visit=visit, wanted=wanted, who=who, last=_decided_last(run, tables, log, who),
        seat=visit.sit(wanted.table, uid, who), row=row, uid=uid, number=-1 if number is None else number,
        stance=_stance(log, (wanted.table, uid), who),
    )  # fmt: skip
    if number is None:
        _show_nothing(seat)
    else:
        _show_seat(seat, len(numbers), [each for each in log.decisions if (each.table, each.uid) == _place(seat)])


def _show_seat(seat: _Seat, count: int, decisions: Sequence[Decision]) -> None:
    st.query_params.update({TABLE: seat.wanted.table, ROW: seat.uid})
    visits.listen()
    left, right = st.columns([3, 1.15], gap="medium")
    where = "Shown again" if seat.visit.again else f"Row {seat.visit.place + 1:,} of {count:,} in this list"
    in_table = f"number {seat.number + 1:,} of {seat.wanted.table}"
    left.caption(f"{where} · {in_table} · `{visible(seat.uid)}` · keys: `?`")
    change = left.container()
    with left, st.container(height=_HEIGHT, key="decide_row"):
        visits.mark(seat.visit, "from")
        canvas = Canvas(
            seat.run, seat.wanted.table, f"decide.{seat.wanted.table}.{seat.uid}", texts_of(seat.wanted.words)
        )
        draw(describe(seat.run, seat.wanted.table, seat.number), canvas)
        visits.mark(seat.visit, "to")
    with right, st.container(key="decide_choices"):
        visits.show_notes(seat.visit)
        _show_steps(seat, count)
        _show_back(seat)
        _show_guidelines(seat.wanted.guide)
        _show_choices(seat)
        _show_fix(seat, change)
        if can_compare(seat.run, seat.wanted.table):
            offer_like("decide.words", seat.uid, partial(_go, seat.visit, 0))
        _show_decisions(seat, decisions)


def _tables(run: OpenRun, curation: Curation) -> list[str]:
    """Those with rows to decide on; what the run is for comes first."""
    shown = show_of(run.dataset).tables
    order = [product_of(run.dataset), *(table.name for table in shown), *curation.tables]
    return sorted((name for name in curation.tables if name in run.tables), key=order.index)


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
            visit_of_session().again = table, uid
            return
    st.warning("The row of this address is not in this run, or people do not decide on rows of its table.")


def _show_nothing(seat: _Seat) -> None:
    """Why the list is empty; what was decided can be looked at again."""
    if seat.wanted.mode == queues.FILTERS_DIFFER and not len(seat.run.table(seat.wanted.table).disputed()):
        st.info("Of no row here it is told that some filters pass it and others do not. Choose another order above.")
    else:
        st.success("Nothing is left in this list. Choose another one above.")
    with st.columns([1.15, 3])[0]:
        visits.show_notes(seat.visit)
        _show_back(seat)


def _show_progress(run: OpenRun, wanted: queues.Wanted, who: str, log: RunDecisions, left: int) -> None:
    done = sum(each.table == wanted.table and each.who == who for each in log.stances)
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


def _wanted(run: OpenRun, curation: Curation, tables: Sequence[str], visit: DecideVisit, who: str) -> queues.Wanted:
    """The line above the rows: on what to decide, in which order."""
    restart = partial(_go, visit, 0)
    table = st.selectbox("Table", tables, key=_CHOSEN_TABLE, on_change=restart)
    guide = curation.guide.of(table)
    modes = queues.modes_of(run, table, guide, who)
    mode = st.selectbox(
        "Order", modes, key=f"decide.mode.{table}", on_change=restart,
        help="\n".join(f"- **{name}**: {queues.MODES[name]}" for name in modes),
    )  # fmt: skip
    number = ""
    if mode == queues.LOWEST:
        number = st.selectbox("By", run.table(table).numbers(), key=f"decide.number.{table}", on_change=restart)
    kinds = queues.kinds_of(run, table)
    kind = ""
    if kinds:
        kind = st.selectbox(
            "Only", ["", *kinds], key=f"decide.kind.{table}", on_change=restart, format_func=_kind_label,
            help="Rows of one kind, or with one value of another column.",
        )  # fmt: skip
    words = ask_search(table, "decide.words", restart)
    hide = st.toggle("Hide decided", value=True, key="decide.hide", on_change=restart)
    return queues.Wanted(
        table=table, mode=mode, number=number, kind=None if isinstance(kind, str) else kind, words=words, guide=guide,
        hide_decided=hide,
    )  # fmt: skip


def _kind_label(kind: queues.Kind | str) -> str:
    if isinstance(kind, str):
        return "all rows"
    return f"{kind.column.replace('_', ' ')}: {visible(kind.value[:_LONGEST_KIND])} ({kind.rows:,})"


def _show_steps(seat: _Seat, count: int) -> None:
    back, forward = st.columns(2)
    place = seat.visit.place
    button(back, "Previous", "previous", seat.seat, _step, seat, place - 1, disabled=place == 0)
    button(forward, "Next", "next", seat.seat, _step, seat, place + 1, disabled=place >= count - 1)


def _show_back(seat: _Seat) -> None:
    """What one decided before, here or last: to look at it again, and to take it back."""
    button(
        st, "Back to the row decided last", "again", seat.seat, _look_again, seat, disabled=seat.last is None,
        help="What you say then counts in place of what you said before.",
    )  # fmt: skip
    mine = _place(seat) if seat.stance else seat.last
    button(
        st, f"Take back: {seat.stance.action}" if seat.stance else "Undo my last decision", "undo", seat.seat,
        _take_back, seat, mine, disabled=mine is None,
        help="The row is undecided again, its fixes are gone, and it is shown. Comments and what others said stay.",
    )  # fmt: skip


def _show_guidelines(guide: TableGuide) -> None:
    if guide.guidelines:
        with st.expander("Guidelines", key="decide.guidelines"):
            st.html(f'<div class="text">{escape_text(guide.guidelines)}</div>')


def _show_choices(seat: _Seat) -> None:
    button(st, "Accept", "accept", seat.seat, _write, seat, {"action": "accept"}, type="primary")
    st.caption("Reject:")
    for key, reason in zip(visits.REASON_KEYS, seat.wanted.guide.reasons, strict=False):
        button(st, reason, f"reject-{key}", seat.seat, _write, seat, {"action": "reject", "reason": reason})
    for name, action, field, hint in (
        ("Reject", "reject", "reason", "another reason"),
        ("Comment", "comment", "comment", "a comment, which decides nothing"),
    ):
        key = f"decide.{field}.{seat.uid}"
        line = st.form(f"{key}.form", border=False, clear_on_submit=True)
        with line.container(horizontal=True, vertical_alignment="center"):
            st.text_input(name, key=key, placeholder=hint, label_visibility="collapsed")
            st.form_submit_button(name, on_click=_write_typed, args=(seat, key, action, field))


def _show_fix(seat: _Seat, where: Any) -> None:
    fixable = seat.curation.fixable(seat.wanted.table)
    if not fixable:
        return
    standing = {fix.field: fix.value for fix in seat.stance.fixes} if seat.stance else {}
    fixing = Fixing(
        visit=seat.visit, place=_place(seat), row=seat.row, fixable=fixable, standing=standing,
        save=partial(_write_fixes, seat),
    )  # fmt: skip
    show_fix(fixing, where)


def _show_decisions(seat: _Seat, decisions: Sequence[Decision]) -> None:
    """This person's words on the row; those of others where they are asked for, so that nobody is led by them."""
    with_others = st.toggle(
        "Show what others decided", key="decide.others", help="Off, so that what others say does not lead you."
    )
    for each in reversed([each for each in decisions if with_others or each.who == seat.who]):
        what = each.reason or each.comment or (f"{each.field} = {each.value}" if each.field else "")
        when = f"{each.when[:16].replace('T', ' ')} {each.who}"
        st.html(
            f'<div class="decision {each.action}"><b>{each.action}</b> {escape_text(what)} · {escape_text(when)}</div>'
        )


def _write(seat: _Seat, word: Mapping[str, str]) -> None:
    _write_all(seat, [word])


def _write_all(seat: _Seat, words: Sequence[Mapping[str, str]]) -> bool:
    """Write words; where the row does not leave the list by them, go on to the next one. Whether they are written."""
    run, visit = seat.run, seat.visit
    if not visit.take(seat.seat) or not _written(seat, _place(seat), seat.row, words):
        return False
    if words[0]["action"] == "comment":
        return True
    log = _read_log(run)
    was_again, visit.again = visit.again, None
    if was_again is None and seat.number in queues.queue(run, seat.wanted, seat.who, log.stances, log.merged):
        visit.place += 1
    return True


def _write_typed(seat: _Seat, key: str, action: str, field: str) -> None:
    text = " ".join(st.session_state[key].split())
    if text:
        _write(seat, {"action": action, field: text})


def _write_fixes(seat: _Seat, changes: Sequence[tuple[str, str]]) -> bool:
    try:
        return _write_all(seat, [make_fix(seat.row, field, text) for field, text in changes])
    except InvalidInput as error:
        seat.visit.problem = visible(str(error))
        return False


def _take_back(seat: _Seat, place: Place) -> None:
    """One's own word on this row, or on the one decided last, which is then shown."""
    number = seat.run.find(*place)
    if number is None or not seat.visit.take(seat.seat):
        return
    if _written(seat, place, seat.run.row(place[0], number), [{"action": "withdraw"}]):
        seat.visit.again = place


def _written(seat: _Seat, place: Place, row: Mapping[str, Any], words: Sequence[Mapping[str, str]]) -> bool:
    """Whether the words are in the log now; why not, is said on the page."""
    run = seat.run
    try:
        decide(run.folder, run.run_id, place[0], row, seat.who, words, seat.curation.check)
    except TrailforgeError as error:
        seat.visit.problem = visible(str(error))
        return False
    seat.visit.notes.append("taken back" if words[0]["action"] == "withdraw" else f"{words[0]['action']}: saved")
    return True


def _place(seat: _Seat) -> Place:
    return seat.wanted.table, seat.uid


def _stance(log: RunDecisions, place: Place, who: str) -> LatestDecision | None:
    return next((each for each in log.stances if (each.table, each.uid, each.who) == (*place, who)), None)


def _decided_last(run: OpenRun, tables: Sequence[str], log: RunDecisions, who: str) -> Place | None:
    """By the log, so that a visit that begins anew knows it too. Rows that are not there any more are passed over."""
    mine = [each for each in log.stances if each.who == who and each.table in tables]
    mine.sort(key=lambda each: each.when, reverse=True)
    return next(((each.table, each.uid) for each in mine if run.find(each.table, each.uid) is not None), None)


def _read_log(run: OpenRun) -> RunDecisions:
    """What was said of this run, read again when the log has changed."""
    path = run.folder / LOG
    try:
        found = path.stat()
    except FileNotFoundError:
        return _read_decisions(path, 0, 0, run.run_id)
    return _read_decisions(path, found.st_mtime_ns, found.st_size, run.run_id)


@st.cache_resource(max_entries=4, show_spinner=False)
def _read_decisions(path: Path, when: int, size: int, run_id: str) -> RunDecisions:
    return read_run_decisions(path, run_id)


def _go(visit: DecideVisit, place: int) -> None:
    visit.place, visit.again = place, None


def _step(seat: _Seat, place: int) -> None:
    if seat.visit.take(seat.seat):
        _go(seat.visit, place)


def _look_again(seat: _Seat) -> None:
    if seat.visit.take(seat.seat):
        seat.visit.again = seat.last
