"""Answers are found in texts as whole words, and the passages that hold one come first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.inspector.views.html import html_of
from trailforge.inspector.visible_text import mark_spans
from trailforge.pipelines.show import Conversation
from trailforge.pipelines.show.marks import Marked, find_stating, spans, telling_first
from trailforge.schemas import Message, Passage


def marks(*answers: str, kind: str = "gold") -> Marked:
    return Marked(kind=kind, answers=answers)


@pytest.mark.parametrize(
    ("text", "answer", "found"),
    [
        ("Born in Vienna.", "vienna", ["Vienna"]),
        ("The Viennas of Vienna's past", "Vienna", ["Vienna"]),
        ("Robert\nFitz-Roy sailed", "Robert Fitz Roy", ["Robert\nFitz-Roy"]),
        ("a.* b", ".*", []),
        ("nothing here", "", []),
        ("Oslo, Oslo", "Oslo", ["Oslo", "Oslo"]),
    ],
)
def test_an_answer_is_found_as_whole_words(text: str, answer: str, found: list[str]) -> None:
    assert [text[begin:end] for begin, end, _ in spans(text, [marks(answer)])] == found


def test_of_two_kinds_at_one_place_the_first_holds() -> None:
    both = [marks("Vienna"), marks("Vienna", "Graz", kind="mended")]
    assert spans("Vienna, Graz", both) == [(0, 6, "gold"), (8, 12, "mended")]


def test_passages_that_hold_an_answer_come_first_in_their_order() -> None:
    texts = ["x", "Vienna", "y", "Graz and Vienna"]
    passages = [Passage(id=str(place), title="", text=text, score=0.0) for place, text in enumerate(texts)]
    ranked = telling_first(passages, [marks("Vienna")])
    assert [(rank, each.id, telling) for rank, each, telling in ranked] == [
        (2, "1", True), (4, "3", True), (1, "0", False), (3, "2", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("<search>Lang</search> so", "query", "Lang"),
        ("<|begin_search_query|>Lang<|end_search_query|> so", "query", "Lang"),
        ("<think>hm</think><answer>Wien</answer>", "answered", "Wien"),
        ("<open>p001</open>", "query", "p001"),
    ],
)
def test_what_stands_between_tags_is_told_apart(text: str, kind: str, said: str) -> None:
    shown = html_of(Conversation([Message(role="assistant", content=text, train=True)]))
    assert f'<span class="said {kind}">{said}</span>' in shown and shown.count(f"said {kind}") == 1


@given(st.text(max_size=200), st.text(max_size=12))
def test_any_text_can_be_marked_by_any_answer(text: str, answer: str) -> None:
    found = spans(text, [marks(answer, text)])
    assert all(0 <= begin < end <= len(text) for begin, end, _ in found)
    assert mark_spans(text, found).count("<mark ") <= len(found)


@pytest.mark.parametrize(
    ("text", "answers", "sentence"),
    [
        ("<result>\nAnn sings. Ann lives in Oslo. Oslo is cold.\n</result>", ("Oslo",), "Ann lives in Oslo."),
        ("<information>It has 12 halls. It opened in May.", ("twelve",), "It has 12 halls."),
        ("Nothing of it here. Nor here.", ("Oslo",), None),
        ("Oslo", ("",), None),
    ],
)  # fmt: skip
def test_the_sentence_that_states_an_answer_is_found(text: str, answers: tuple[str, ...], sentence: str | None) -> None:
    found = find_stating(text, answers)
    assert (text[found[0] : found[1]] if found else None) == sentence
