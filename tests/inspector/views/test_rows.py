"""A rejected row is shown as what it was, under what the filter said of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.rows import trajectory
from trailforge.pipelines.runs.finished import OpenRun
from trailforge.pipelines.show.parts import Conversation
from trailforge.schemas import Message, RejectedRow, to_dict, write_parquet

pytest.importorskip("streamlit")
from streamlit.testing.v1 import AppTest


def test_a_row_without_a_text_has_an_empty_cell() -> None:
    from trailforge.inspector.views.picking import cells

    rows = [
        {"reflection_error": None, "score": None, "of": {"kind": None}},
        {"reflection_error": "retrieval", "score": 1.5, "of": None},
    ]
    assert cells(rows, ("reflection_error", "score", "of.kind")) == [
        {"reflection_error": "", "score": None, "of.kind": ""},
        {"reflection_error": "retrieval", "score": 1.5, "of.kind": ""},
    ]


def page(run, number) -> None:
    """Streamlit runs the text of this function by itself."""
    from trailforge.inspector.showing import describe
    from trailforge.inspector.views.drawing import Canvas, draw

    draw(describe(run, "rejected", number), Canvas(run, "rejected", "row"))


def rejected(payload: str) -> RejectedRow:
    return RejectedRow(
        uid="u", stage="filter", reason="<b>bad</b>", score=0.5, detail="no passage says it", payload=payload
    )


def test_rejected_rows(tmp_path: Path) -> None:
    (tmp_path / "rejected").mkdir()
    payloads = [json.dumps(to_dict(trajectory())), '{"id": 7, "question": null}', "not JSON <i>", "[1, 2]"]
    write_parquet(tmp_path / "rejected" / "part-0.parquet", RejectedRow, [rejected(each) for each in payloads])
    run = OpenRun(
        folder=tmp_path, run_id="r", dataset="mcts_trajectories", config={}, sources=(), manifest=None, books=(),
        tables=("rejected",),
    )  # fmt: skip
    shown: list[Any] = []
    for number in range(len(payloads)):
        app = AppTest.from_function(page, args=(run, number), default_timeout=300).run()
        assert not app.exception
        shown.append("".join(str(each.proto.body) for each in app.get("html")))
        assert "no passage says it" in shown[-1] and "&lt;b&gt;bad&lt;/b&gt;" in shown[-1]
    assert "not trained" in shown[0]
    assert 'class="name">question' in shown[1] and "not JSON &lt;i&gt;" in shown[2] and "[" in shown[3]


@pytest.mark.parametrize(
    ("html", "sought", "shown"),
    [
        ("<b>Bob</b> and bob", ["bob"], "<b>[Bob]</b> and [bob]"),
        ('<div class="text">text</div>', ["text"], '<div class="text">[text]</div>'),
        ("a &amp; b", ["amp"], "a &amp; b"),
        ("a &amp; b", ["&"], "a [&amp;] b"),
        ("x &lt;b&gt; y", ["<b>", "b"], "x [&lt;b&gt;] y"),
        ("New York", [], "New York"),
        ("New York", ["new", "new york"], "[New York]"),
    ],
)
def test_what_is_searched_for_is_marked_in_the_text_alone(html: str, sought: list[str], shown: str) -> None:
    from trailforge.inspector.views.html import mark_found

    assert mark_found(html, sought).replace('<mark class="found">', "[").replace("</mark>", "]") == shown


def test_a_conversation_begins_with_what_the_agent_did() -> None:
    """Prompts are folded, tags are quiet, what is searched and answered is coloured, gold answers found are marked."""
    from trailforge.inspector.views.html import html_of

    said = [
        Message(role="system", content="Search with <search>.", train=False),
        Message(role="user", content="Where is Bob of Paris?", train=False),
        Message(role="assistant", content="<think>Hm. Paris?</think><search>Bob & co</search>", train=True),
        Message(role="tool", content="<tool_response>\nBob lives in Paris.\n</tool_response>", train=False),
        Message(role="assistant", content="<answer>Paris</answer> <b>so", train=True),
    ]
    system, user, search, found, answer = html_of(Conversation(said, golds=("paris",))).split('class="turn ')[1:]
    assert all(each.count("<summary") == 1 and "</details>" in each for each in (system, user))
    assert not any("<details" in each.rpartition("</div>")[0] for each in (search, found, answer))
    assert '<span class="said thought">Hm. Paris?</span>' in search
    assert '<span class="said query">Bob &amp; co</span>' in search
    lives = '<mark class="support">Bob lives in </mark><mark class="gold">Paris</mark><mark class="support">.</mark>'
    assert lives in found and "<mark" not in user + search + answer
    assert '<span class="said answered">Paris</span>' in answer and answer.rstrip("</div>").endswith(" &lt;b&gt;so")
