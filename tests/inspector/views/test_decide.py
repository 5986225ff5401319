"""What a person does on the page is in the log, and the page shows what is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.rows import QUESTION, trajectory
from trailforge.curation import CurationGuide, TableGuide
from trailforge.curation.decisions import append, latest_decisions, merge, now, read_decisions
from trailforge.inspector import deciding as queues
from trailforge.inspector.deciding import Curation
from trailforge.pipelines.curated import check_row
from trailforge.pipelines.runs.finished import OpenRun
from trailforge.schemas import Decision, Question, RejectedRow, Trajectory, write_parquet

pytest.importorskip("streamlit")
from streamlit.testing.v1 import AppTest

TABLE = "mcts_trajectories"
UIDS = ("a", "b", "c", "d")
FIXABLE = ("question", "answer", "answer_aliases", "final_answer", "messages")


def page(run, curation) -> None:
    """Streamlit runs the text of this function by itself."""
    from trailforge.inspector.views import decide

    decide.show(run, curation)


@pytest.fixture
def run(tmp_path: Path) -> OpenRun:
    (tmp_path / TABLE).mkdir()
    rows = [trajectory(uid=uid) for uid in UIDS]
    write_parquet(tmp_path / TABLE / "part-00000.parquet", Trajectory, rows)
    return OpenRun(
        folder=tmp_path, run_id="run", dataset=TABLE, config={}, sources=(), manifest=None, books=(), tables=(TABLE,)
    )


def curation_of(who: str) -> Curation:
    return Curation(tables=("inputs", TABLE), fixable=lambda table: FIXABLE, check=partial(check_row, TABLE), who=who)


def opened(run: OpenRun, who: str = "ann") -> Any:
    app = AppTest.from_function(page, args=(run, curation_of(who)), default_timeout=300).run()
    assert not app.exception
    return app


def press(app: Any, label: str) -> None:
    (button,) = (each for each in app.button if each.label == label)
    button.click().run()
    assert not app.exception


def button(app: Any, name: str) -> Any:
    """One of the buttons of the row that is shown."""
    (found,) = (each for each in app.button if (each.key or "").startswith(f"decide.{name}."))
    return found


def row_on(app: Any) -> str:
    """The uid of the row that is shown."""
    assert button(app, "accept")
    return app.query_params["row"]


def press_again(app: Any, pressed: Any) -> None:
    """What a page that was slow sends: a button that is no more there."""
    as_it_was = app._tree.get_widget_states()
    as_it_was.widgets.append(pressed.click()._widget_state)
    app._run(as_it_was)
    assert not app.exception


def said(run: OpenRun) -> list[tuple[str, str, str]]:
    return [(each.uid, each.action, each.reason or each.comment or each.value) for each in read_decisions(run.folder)]


def say(run: OpenRun, uid: str, who: str, action: Any, **more: str) -> None:
    decision = Decision(run_id="run", table=TABLE, uid=uid, who=who, when=now(), action=action, **more)
    append(run.folder, [decision])


def test_each_decision_brings_the_next_row(run: OpenRun) -> None:
    app = opened(run)
    press(app, "Accept")
    press(app, "wrong answer")
    app.text_input(key="decide.reason.c").input("half a rea").run()  # the field was left, and nothing was sent
    app.text_input(key="decide.comment.c").input("look here")
    press(app, "Comment")
    app.text_input(key="decide.reason.c").input("  not   a question ")
    press(app, "Reject")
    assert said(run) == [
        ("a", "accept", ""), ("b", "reject", "wrong answer"), ("c", "comment", "look here"),
        ("c", "reject", "not a question"),
    ]  # fmt: skip
    press(app, "Back to the row decided last")
    press(app, "Accept")
    assert said(run)[-1] == ("c", "accept", "")
    press(app, "Accept")
    assert said(run)[-1] == ("d", "accept", "") and "Nothing is left" in app.success[0].value


def test_what_is_pressed_twice_is_said_of_one_row_alone(run: OpenRun) -> None:
    app = opened(run)
    accept, reject, forward = (button(app, name) for name in ("accept", "reject-2", "next"))
    press(app, "Accept")
    for late in (accept, reject, forward):
        press_again(app, late)
        assert said(run) == [("a", "accept", "")] and row_on(app) == "b"
        assert "Not taken" in app.toast[0].value
    press(app, "Accept")
    assert said(run) == [("a", "accept", ""), ("b", "accept", "")]


def test_of_two_buttons_that_one_key_pressed_only_the_shown_row_s_counts(run: OpenRun) -> None:
    app = opened(run)
    old = button(app, "reject-2")
    press(app, "Accept")
    button(app, "reject-2").click()
    press_again(app, old)  # both in one message, as Streamlit sends them
    assert [(uid, action) for uid, action, _ in said(run)] == [("a", "accept"), ("b", "reject")]


def test_what_is_pressed_on_a_row_that_was_left_decides_nothing(run: OpenRun) -> None:
    app = opened(run)
    accept = button(app, "accept")
    press(app, "Next")
    press_again(app, accept)
    assert said(run) == [] and row_on(app) == "b" and "Not taken" in app.toast[0].value


def test_the_same_row_shown_again_is_not_decided_by_what_was_pressed_before(run: OpenRun) -> None:
    app = opened(run)
    app.selectbox(key=f"decide.mode.{TABLE}").select(queues.DECIDED).run()
    say(run, "a", "ann", "accept")
    app.run()
    late = button(app, "reject-1")
    press(app, "Accept")
    assert row_on(app) == "a"  # the only row of this list
    press_again(app, late)
    assert [action for _, action, _ in said(run)] == ["accept", "accept"]


def test_the_name_outlives_a_visit_to_another_view(run: OpenRun) -> None:
    app = opened(run, who="server")
    app.text_input(key="decide.who").input(" ben ").run()
    kept = {"decide.name": app.session_state["decide.name"]}  # what widgets held is lost there, and so is the address
    again = AppTest.from_function(page, args=(run, curation_of("server")), default_timeout=300)
    again.session_state["decide.name"] = kept["decide.name"]
    again.run()
    press(again, "Accept")
    assert read_decisions(run.folder)[-1].who == "ben"
    again.text_input(key="decide.who").input("server").run()
    assert "who" not in again.query_params


def test_all_rows_on_which_people_differ_come_by(run: OpenRun) -> None:
    for uid in UIDS:
        say(run, uid, "ben", "accept")
        say(run, uid, "ann", "reject", reason="odd")
    app = opened(run)
    app.selectbox(key=f"decide.mode.{TABLE}").select(queues.PEOPLE_DIFFER).run()
    for _ in UIDS:
        press(app, "Accept")
    assert [uid for uid, *_ in said(run)][-4:] == list(UIDS) and "Nothing is left" in app.success[0].value


def test_the_row_decided_last_is_found_again_where_new_files_came(run: OpenRun) -> None:
    app = opened(run)
    press(app, "Accept")
    write_parquet(run.folder / TABLE / "part-!.parquet", Trajectory, [trajectory(uid="z")])
    grown = OpenRun(
        folder=run.folder, run_id="run", dataset=TABLE, config={}, sources=(), manifest=None, books=(), tables=(TABLE,)
    )
    assert grown.row(TABLE, 0)["uid"] == "z"
    later = AppTest.from_function(page, args=(grown, curation_of("ann")), default_timeout=300)
    later.run()
    press(later, "Back to the row decided last")
    press(later, "wrong answer")
    assert said(run)[-1] == ("a", "reject", "wrong answer")


def test_nothing_is_decided_on_a_curated_data_set(run: OpenRun) -> None:
    curation = Curation(tables=(), fixable=lambda table: (), check=partial(check_row, TABLE), who="ann")
    app = AppTest.from_function(page, args=(run, curation), default_timeout=300).run()
    assert "curated" in app.info[0].value and not app.button


def test_a_fix_is_saved_only_when_the_row_stays_valid(run: OpenRun) -> None:
    app = opened(run)
    app.text_area(key="decide.value.a.question").input(" ").run()
    press(app, "Save the fix")
    assert said(run) == [] and app.error[0].value == "Not saved:"
    press(app, "Discard")
    assert not changes_of(app)
    app.selectbox(key="decide.field.a").select("answer").run()
    app.text_area(key="decide.value.a.answer").input("Elsewhere").run()
    press(app, "Save the fix")
    assert said(run) == [] and "unrewarded_answer" in app.code[0].value
    press(app, "Discard")
    app.selectbox(key="decide.field.a").select("answer_aliases").run()
    app.text_area(key="decide.value.a.answer_aliases").input('["another"]').run()
    press(app, "Save the fix")
    assert said(run) == [("a", "fix", '["another"]')] and not app.error


def test_fields_that_belong_together_are_seen_old_and_new_and_saved_at_once(run: OpenRun) -> None:
    app = opened(run)
    aliases, question = '["Wien", "<b>Vindobona</b> & more"]', "In which town was the director of Metropolis born?"
    for field, text in {"question": question, "answer_aliases": aliases}.items():
        app.selectbox(key="decide.field.a").select(field).run()
        app.text_area(key=f"decide.value.a.{field}").input(text).run()
        assert said(run) == []
    app.selectbox(key="decide.field.a").select("question").run()
    assert app.text_area(key="decide.value.a.question").value == question
    (shown,) = changes_of(app)
    assert shown.count('class="change"') == 2 and "<b>" not in shown and "&lt;" in shown and "&amp;" in shown
    assert '<mark class="gone">city</mark>' in shown and '<mark class="added">town</mark>' in shown
    press(app, "Save the fix")
    assert said(run) == [("a", "fix", aliases), ("a", "fix", f'"{question}"')], app.code[0].value
    assert not changes_of(app) and row_on(app) == "b"
    press(app, "Back to the row decided last")
    assert app.text_area(key="decide.value.a.question").value == question  # what holds by one's own word


def test_what_is_typed_after_the_change_was_shown_is_shown_before_it_is_saved(run: OpenRun) -> None:
    app = opened(run)
    area = (
        app.selectbox(key="decide.field.a")
        .select("answer_aliases")
        .run()
        .text_area(key="decide.value.a.answer_aliases")
    )
    area.input('["one"]').run()
    app.text_area(key="decide.value.a.answer_aliases").input('["two"]')  # not left yet when the button is clicked
    press(app, "Save the fix")
    assert said(run) == [] and "two" in changes_of(app)[0]
    save = button(app, "save")
    press(app, "Save the fix")
    assert said(run) == [("a", "fix", '["two"]')]
    press_again(app, save)
    assert said(run) == [("a", "fix", '["two"]')] and row_on(app) == "b"


def changes_of(app: Any) -> list[str]:
    return [each.body for each in app.get("html") if 'class="change"' in each.body]


def test_a_decision_is_taken_back_by_who_made_it(run: OpenRun) -> None:
    say(run, "a", "ben", "reject", reason="odd")
    app = opened(run)
    assert button(app, "undo").disabled
    press(app, "Accept")
    press(app, "wrong answer")
    press(app, "Undo my last decision")
    assert said(run)[-1] == ("b", "withdraw", "") and row_on(app) == "b"
    press(app, "Undo my last decision")
    assert said(run)[-1] == ("a", "withdraw", "") and row_on(app) == "a"
    assert button(app, "undo").disabled
    assert [(each.uid, each.who) for each in latest_decisions(read_decisions(run.folder))] == [("a", "ben")]
    press(app, "Accept")
    press(app, "Back to the row decided last")
    press(app, "Take back: accept")
    press(app, "Accept")
    assert [uid for uid, *_ in said(run)][-3:] == ["a", "a", "a"] and row_on(app) == "b"


def test_undo_pressed_twice_takes_back_one_decision(run: OpenRun) -> None:
    app = opened(run)
    press(app, "Accept")
    press(app, "Accept")
    undo = button(app, "undo")
    press(app, "Undo my last decision")
    press_again(app, undo)
    assert [(uid, action) for uid, action, _ in said(run)] == [("a", "accept"), ("b", "accept"), ("b", "withdraw")]


def test_the_last_decision_is_known_after_a_reload_and_at_the_end_of_the_list(run: OpenRun) -> None:
    for uid in UIDS:
        say(run, uid, "ann", "accept")
    say(run, "c", "ben", "accept")
    say(run, "b", "ann", "comment", comment="see there")
    app = opened(run)
    assert "Nothing is left" in app.success[0].value
    press(app, "Undo my last decision")
    assert said(run)[-1][:2] == ("d", "withdraw") and row_on(app) == "d"
    app = opened(run)
    assert row_on(app) == "d"
    press(app, "Undo my last decision")
    assert said(run)[-1][:2] == ("c", "withdraw") and row_on(app) == "c"
    press(app, "Back to the row decided last")
    assert row_on(app) == "b"
    assert {each.uid for each in latest_decisions(read_decisions(run.folder)) if each.who == "ben"} == {"c"}
    assert button(opened(run, who="cleo"), "undo").disabled


def test_undo_leads_to_the_table_of_the_last_decision(run: OpenRun) -> None:
    (run.folder / "inputs").mkdir()
    write_parquet(run.folder / "inputs" / "part-00000.parquet", Question, [QUESTION])
    both = OpenRun(
        folder=run.folder, run_id="run", dataset=TABLE, config={}, sources=(), manifest=None, books=(),
        tables=("inputs", TABLE),
    )  # fmt: skip
    app = opened(both)
    app.selectbox(key="decide.table").select("inputs").run()
    press(app, "Accept")
    app.selectbox(key="decide.table").select(TABLE).run()
    assert row_on(app) == "a"
    press(app, "Undo my last decision")
    assert said(both)[-1][:2] == (QUESTION.id, "withdraw") and row_on(app) == QUESTION.id
    assert app.selectbox(key="decide.table").value == "inputs"
    app.selectbox(key="decide.table").select(TABLE).run()
    assert row_on(app) == "a"


def test_an_address_leads_to_a_row_once(run: OpenRun) -> None:
    app = AppTest.from_function(page, args=(run, curation_of("ann")), default_timeout=300)
    app.query_params["row"] = "c"
    app.run()
    assert app.query_params == {"table": TABLE, "row": "c"}
    press(app, "Accept")
    assert said(run) == [("c", "accept", "")] and app.query_params["row"] == "a"
    app.query_params["row"] = "c"  # as a slow browser sends it again
    app.run()
    assert app.query_params["row"] == "a"
    other = AppTest.from_function(page, args=(run, curation_of("ann")), default_timeout=300)
    other.query_params.update({"table": "trees", "row": "c"})
    other.run()
    assert "not in this run" in other.warning[0].value and row_on(other) == "a"


def test_where_people_share_the_page_each_gives_a_name(run: OpenRun) -> None:
    app = opened(run, who="")
    assert not app.button and "name" in app.info[0].value
    app.text_input(key="decide.who").input("ben").run()
    press(app, "Accept")
    assert read_decisions(run.folder)[-1].who == "ben"
    assert "who" not in app.query_params  # the address may be sent to a colleague


def test_what_others_said_is_shown_when_it_is_asked_for(run: OpenRun) -> None:
    say(run, "c", "ben", "accept")
    say(run, "c", "ann", "reject", reason="odd")
    app = opened(run)
    assert app.get("progress")[0].proto.text.startswith("1 of 4 rows decided by you; 3 in this list")
    app.selectbox(key=f"decide.mode.{TABLE}").select(queues.PEOPLE_DIFFER).run()
    assert any("odd" in each.body for each in app.get("html"))
    assert not any("ben" in each.body for each in app.get("html"))  # nobody is led by what others said
    app.toggle(key="decide.others").set_value(True).run()
    assert any("ben" in each.body for each in app.get("html"))
    press(app, "Accept")
    assert said(run)[-1] == ("c", "accept", "")
    assert "Nothing is left" in app.success[0].value


def test_the_row_is_told_by_its_place_in_the_list_and_the_table_and_by_its_id(run: OpenRun) -> None:
    say(run, "a", "ann", "accept")
    told = opened(run).caption[0].value
    assert told.startswith(f"Row 1 of 3 in this list · number 2 of {TABLE} · `b`")


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({}, [0, 3]),
        ({"hide_decided": False}, [0, 1, 2, 3]),
        ({"mode": queues.DECIDED}, [1, 2]),
        ({"mode": queues.PEOPLE_DIFFER}, [1]),
        ({"mode": queues.LOWEST, "number": "token_estimate", "hide_decided": False}, [0, 1, 2, 3]),
        ({"mode": queues.LOWEST}, []),
        ({"mode": queues.FILTERS_DIFFER}, []),
        ({"words": "no such words"}, []),
        ({"mode": queues.RANDOM, "words": "no such words"}, []),
        ({"mode": queues.LOWEST, "number": "token_estimate", "words": "WHO"}, [0, 3]),
        ({"kind": queues.Kind(column="kind", value="correct", rows=4)}, [0, 3]),
        ({"kind": queues.Kind(column="kind", value="reflective", rows=0)}, []),
        ({"kind": queues.Kind(column="uid", value="c", rows=1), "hide_decided": False, "words": "WHO"}, [2]),
        ({"mode": queues.DECIDED, "kind": queues.Kind(column="uid", value="c", rows=1)}, [2]),
        ({"mode": queues.PEOPLE_DIFFER, "words": "no such words"}, []),
    ],
    ids=str,
)
def test_the_list_holds_what_is_asked_for(run: OpenRun, wanted: Mapping[str, Any], numbers: list[int]) -> None:
    say(run, "b", "ann", "accept")
    say(run, "b", "ben", "reject", reason="odd")
    say(run, "c", "ann", "accept")
    decisions = read_decisions(run.folder)
    asked = queues.Wanted(**{"table": TABLE, "mode": queues.IN_ORDER, **wanted})
    found = queues.queue(run, asked, "ann", latest_decisions(decisions), merge(decisions))
    assert list(found) == numbers
    random = queues.Wanted(table=TABLE, mode=queues.RANDOM, hide_decided=False)
    assert sorted(queues.queue(run, random, "ann", [], merge([]))) == [0, 1, 2, 3]


def test_no_order_runs_dry_before_the_table_does(tmp_path: Path) -> None:
    divided = '{"filters": [{"passed": true}, {"passed": false}]}'
    rows = [
        RejectedRow(uid=str(n), stage="filter", reason="ab"[n % 2], score=n, detail="", payload=divided)
        for n in range(500)
    ]
    (tmp_path / "rejected").mkdir()
    write_parquet(tmp_path / "rejected" / "part-00000.parquet", RejectedRow, rows)
    run = OpenRun(
        folder=tmp_path, run_id="run", dataset=TABLE, config={}, sources=(), manifest=None, books=(),
        tables=("rejected",),
    )  # fmt: skip
    words = [
        Decision(run_id="run", table="rejected", uid=str(n), who="ann", when=now(), action="accept")
        for n in range(500) if n not in (3, 8)
    ]  # fmt: skip
    stances, heard = latest_decisions(words), merge(words)
    guided = TableGuide(annotators=("ann",))
    assert queues.modes_of(run, "rejected", guided, "ann") == list(queues.MODES)
    assert [(kind.value, kind.rows) for kind in queues.kinds_of(run, "rejected")] == [("a", 250), ("b", 250)]
    for mode in (queues.IN_ORDER, queues.RANDOM, queues.LOWEST, queues.FILTERS_DIFFER):
        asked = queues.Wanted(table="rejected", mode=mode, number="score")
        assert sorted(queues.queue(run, asked, "ann", stances, heard)) == [3, 8]
        asked = replace(asked, kind=queues.Kind(column="reason", value="a", rows=250))
        assert queues.queue(run, asked, "ann", stances, heard).tolist() == [8]
    everybody = [
        queues.queue(run, queues.Wanted(table="rejected", mode=queues.RANDOM, hide_decided=False), who, [], heard)
        for who in ("ann", "ben")
    ]
    assert everybody[0].tolist() == everybody[1].tolist() != list(range(500))


def test_orders_that_a_table_cannot_have_are_not_offered(run: OpenRun) -> None:
    assert queues.FILTERS_DIFFER not in queues.modes_of(run, TABLE) and queues.LOWEST in queues.modes_of(run, TABLE)
    assert queues.kinds_of(run, TABLE) == []  # all rows are alike


def test_two_people_with_overlap_each_see_what_is_theirs_and_decide_nothing_twice(run: OpenRun) -> None:
    rows = [trajectory(uid=f"u{number:02}") for number in range(40)]
    write_parquet(run.folder / TABLE / "part-00000.parquet", Trajectory, rows)
    guide = TableGuide(annotators=("ann", "ben"), overlap=0.25)
    people = {row.uid: guide.people_for(TABLE, row.uid) for row in rows}
    wanted = queues.Wanted(table=TABLE, mode=queues.MINE, guide=guide)

    def left_for(who: str) -> list[str]:
        words = read_decisions(run.folder)
        found = queues.queue(run, wanted, who, latest_decisions(words), merge(words))
        return [run.row(TABLE, int(number))["uid"] for number in found]

    both = [uid for uid, each in people.items() if len(each) == 2]
    for who in guide.annotators:
        assert left_for(who) == [uid for uid, each in people.items() if each == (who,)] + both
    assert 0 < len(both) < 40 and queues.MINE not in queues.modes_of(run, TABLE, guide, "eve")
    while any(left := {who: left_for(who) for who in guide.annotators}.values()):  # each their first, in turn
        for who, rest in zip(guide.annotators, left, strict=True):
            if rest:
                say(run, rest[0], who, "accept")
    decided = [(each.uid, each.who) for each in read_decisions(run.folder)]
    assert sorted(decided) == sorted((uid, who) for uid, each in people.items() for who in each)


def test_a_row_that_somebody_else_decided_meanwhile_is_not_asked_for_again(run: OpenRun) -> None:
    guide = TableGuide(annotators=("ann", "ben"))
    mine = next(uid for uid in UIDS if guide.people_for(TABLE, uid) == ("ann",))
    wanted = queues.Wanted(table=TABLE, mode=queues.MINE, guide=guide)
    say(run, mine, "ben", "accept")
    words = read_decisions(run.folder)
    for hides in (True, False):
        order = queues.queue(run, replace(wanted, hide_decided=hides), "ann", latest_decisions(words), merge(words))
        assert (UIDS.index(mine) in order) is not hides


def test_the_page_has_the_reasons_and_guidelines_of_the_guide(run: OpenRun) -> None:
    guide = CurationGuide(
        tables={TABLE: TableGuide(reasons=("too easy",), guidelines="Read <b>all</b>.", annotators=("ann",))}
    )
    app: Any = AppTest.from_function(
        page, args=(run, replace(curation_of("ann"), guide=guide)), default_timeout=300
    ).run()
    assert not app.exception
    assert app.selectbox(key=f"decide.mode.{TABLE}").value == queues.MINE
    assert any("Read &lt;b&gt;all&lt;/b&gt;." in each.body for each in app.get("html"))
    press(app, "too easy")
    assert said(run)[-1][1:] == ("reject", "too easy")
