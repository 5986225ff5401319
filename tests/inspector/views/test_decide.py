"""What a person does on the page is in the log, and the page shows what is left."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from inspector.deciding import Curation
from inspector.decisions import append, now, read_decisions
from inspector.open_run import OpenRun
from inspector.views import queue as queues
from pipelines.curated_rows import check_row
from schemas import Decision, Trajectory, write_parquet
from tests.support.rows import trajectory

pytest.importorskip("streamlit")
from streamlit.testing.v1 import AppTest

TABLE = "mcts_trajectories"
UIDS = ("a", "b", "c", "d")


def page(run, curation) -> None:
    """Streamlit runs the text of this function by itself."""
    from inspector.views import decide

    decide.show(run, curation)


@pytest.fixture
def run(tmp_path: Path) -> OpenRun:
    (tmp_path / TABLE).mkdir()
    rows = [trajectory(uid=uid) for uid in UIDS]
    write_parquet(tmp_path / TABLE / "part-00000.parquet", Trajectory, rows)
    return OpenRun(
        folder=tmp_path, run_id="run", dataset=TABLE, config={}, sources=(), manifest=None, books=(), tables=(TABLE,)
    )


def opened(run: OpenRun, who: str = "ann") -> Any:
    curation = Curation(
        tables=("inputs", TABLE), fixable=lambda table: ("question", "answer"), check=partial(check_row, TABLE), who=who
    )
    app = AppTest.from_function(page, args=(run, curation), default_timeout=60).run()
    assert not app.exception
    return app


def press(app: Any, label: str) -> None:
    (button,) = (each for each in app.button if each.label == label)
    button.click().run()
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
    app.text_input(key="decide.comment.c").input("look here").run()
    app.text_input(key="decide.reason.c").input("  not   a question ").run()
    assert said(run) == [
        ("a", "accept", ""), ("b", "reject", "wrong answer"), ("c", "comment", "look here"),
        ("c", "reject", "not a question"),
    ]  # fmt: skip
    press(app, "Back to the row decided last")
    press(app, "Accept")
    assert said(run)[-1] == ("c", "accept", "")
    press(app, "Accept")
    assert said(run)[-1] == ("d", "accept", "") and "Nothing is left" in app.success[0].value


def test_a_fix_is_saved_only_when_the_row_stays_valid(run: OpenRun) -> None:
    app = opened(run)
    app.text_area(key="decide.value.a.question").input(" ").run()
    press(app, "Save the fix")
    assert said(run) == [] and app.error[0].value == "Not saved:"
    app.selectbox(key="decide.field.a").select("answer").run()
    app.text_area(key="decide.value.a.answer").input("Elsewhere").run()
    press(app, "Save the fix")
    assert said(run) == [] and "wrong_answer" in app.code[0].value
    app.selectbox(key="decide.field.a").select("question").run()
    app.text_area(key="decide.value.a.question").input("Which one is it?").run()
    press(app, "Save the fix")
    assert said(run) == [("a", "fix", '"Which one is it?"')] and not app.error


def test_what_others_said_is_seen_and_can_be_asked_for(run: OpenRun) -> None:
    say(run, "c", "ben", "accept")
    say(run, "c", "ann", "reject", reason="odd")
    app = opened(run)
    assert app.get("progress")[0].proto.text.startswith("1 of 4 rows decided by you; 3 in this list")
    app.selectbox(key="decide.mode").select(queues.PEOPLE_DIFFER).run()
    assert any("odd" in each.body for each in app.get("html")) and any("ben" in each.body for each in app.get("html"))
    press(app, "Accept")
    assert said(run)[-1] == ("c", "accept", "")
    assert "Nothing is left" in app.success[0].value


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
    ],
    ids=str,
)
def test_the_list_holds_what_is_asked_for(run: OpenRun, wanted: Mapping[str, Any], numbers: list[int]) -> None:
    from inspector.decisions import merged, standing

    say(run, "b", "ann", "accept")
    say(run, "b", "ben", "reject", reason="odd")
    say(run, "c", "ann", "accept")
    decisions = read_decisions(run.folder)
    asked = queues.Wanted(**{"table": TABLE, "mode": queues.IN_ORDER, **wanted})
    found = queues.queue(run, asked, "ann", standing(decisions), merged(decisions))
    assert list(found) == numbers
    random = queues.Wanted(table=TABLE, mode=queues.RANDOM, hide_decided=False)
    assert sorted(queues.queue(run, random, "ann", [], merged([]))) == [0, 1, 2, 3]
