"""Whether a question can be asked: what is stated by which sentence, and what looks garbled."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import world
from tests.support.rows import QUESTION
from trailforge.filters.questions import (
    answer_in_question,
    can_be_asked,
    garbled_places,
    gold_not_stated,
    searched_texts,
    stated_hops,
)
from trailforge.schemas import Document, Hop, Question, SupportingDocument

PARAGRAPHS = QUESTION.paragraphs


def asking(question: str, answer: str, *hops: tuple[str, str], **more: object) -> Question:
    made = tuple(Hop(question=asked, answer=found) for asked, found in hops)
    return Question(id="q", question=question, answer=answer, decomposition=made, **more)  # type: ignore[arg-type]


def test_each_hop_is_stated_by_a_sentence() -> None:
    assert stated_hops(QUESTION, PARAGRAPHS) == (
        "Fritz Lang directed Metropolis.",
        "Fritz Lang was born in Vienna in 1890.",
    )
    assert stated_hops(QUESTION, PARAGRAPHS[:1]) == ("Fritz Lang directed Metropolis.", None)
    assert stated_hops(QUESTION, ()) == (None, None)


def test_another_passage_has_to_speak_of_what_the_hop_asks_and_the_support_need_not() -> None:
    about_others = Document(id="9", title="Mozart", text="Mozart died in Vienna.")
    assert stated_hops(QUESTION, [about_others]) == (None, None)
    assert stated_hops(QUESTION, [replace(about_others, id="1")]) == (None, "Mozart died in Vienna.")


def test_a_title_and_a_list_over_two_sentences_are_quotes_too() -> None:
    titled = Document(id="1", title="Vienna", text="He was born here.")
    assert stated_hops(QUESTION, [titled])[1] == "Vienna"
    listed = asking("Whom did Ann teach?", "Bob and Eve", ("Whom did Ann teach?", "Bob and Eve"))
    text = "Ann taught Bob. Ann also taught Eve."
    assert stated_hops(listed, [Document(id="1", title="Ann", text=text)]) == (text,)


def test_a_question_without_hops_is_one() -> None:
    plain = replace(QUESTION, decomposition=())
    assert stated_hops(plain, PARAGRAPHS) == ("Fritz Lang was born in Vienna in 1890.",)
    by_alias = Document(id="7", title="Lang", text="Lang kam aus Wien.")
    assert stated_hops(plain, [by_alias]) == ("Lang kam aus Wien.",)


@given(st.integers(0, 30), st.sampled_from([2, 3, 4]), st.data())
def test_what_is_quoted_stands_there_and_more_passages_state_no_less(
    number: int, hops: int, data: st.DataObject
) -> None:
    question = world.question(number, hops)
    some = data.draw(st.lists(st.sampled_from(question.paragraphs), unique=True))
    quotes = stated_hops(question, some)
    assert len(quotes) == hops
    for quote, hop in zip(quotes, question.decomposition, strict=True):
        assert quote is None or any(quote in (p.title, p.text) or quote in p.text for p in some)
        assert (quote is not None) >= any(p.id == hop.support_id for p in some)
    everything = stated_hops(question, question.paragraphs)
    assert all(found is None or whole is not None for found, whole in zip(quotes, everything, strict=True))
    assert gold_not_stated(question, some).keep is (not some or quotes[-1] is not None)


@pytest.mark.parametrize(
    ("question", "answer", "named"),
    [
        ("Which season was the runner up of the third season of American Idol on?", "season three", True),
        ("In which year was the show of 1984 made?", "1984", True),
        ("Which season was the runner up of the fourth season on?", "season three", False),
        ("Which river is longer, the Rhine or the Elbe?", "Rhine", False),
        (
            "Little Caesars and Pizza Hut were founded in one year. Which was the first to serve pizza?",
            "Pizza Hut",
            False,
        ),
        ("Is Ann, who said yes, older?", "yes", False),
        ("Who was born in Viennaville?", "Vienna", False),
    ],
)
def test_a_question_that_holds_its_answer(question: str, answer: str, named: bool) -> None:
    verdict = answer_in_question(asking(question, answer))
    assert (verdict.keep, verdict.reason) == (not named, "answer_in_question")
    assert (answer in verdict.detail) is named


def test_a_comparison_names_what_it_compares() -> None:
    hops = (("When was Ann Lee born?", "1950"), ("When was Bob Ray born?", "1960"), ("Who is older?", "Ann Lee"))
    compared = asking("Of the singers Ann Lee, Bob Ray, who is older?", "Ann Lee", *hops)
    assert not answer_in_question(compared).keep
    assert answer_in_question(replace(compared, num_hops=2)).keep
    assert gold_not_stated(replace(compared, num_hops=2), [Document(id="1", title="x", text="y")]).keep


def test_a_gold_answer_that_nothing_states() -> None:
    verdict = can_be_asked(replace(QUESTION, answer="Oslo", answer_aliases=()), own_paragraphs=True)
    assert (verdict.keep, verdict.reason, verdict.score) == (False, "gold_not_stated", 1.0)
    assert "Oslo" in verdict.detail and can_be_asked(QUESTION, own_paragraphs=True).keep
    reckoned = asking("How many are both?", "yes", ("Are both?", "yes"), paragraphs=PARAGRAPHS)
    assert can_be_asked(reckoned, own_paragraphs=True).keep


def test_of_a_corpus_the_documents_count_that_the_question_rests_on() -> None:
    unknown = replace(QUESTION, answer="Oslo", answer_aliases=(), paragraphs=())
    assert can_be_asked(unknown, own_paragraphs=False).keep, "nothing is known of what it rests on"
    facts = SupportingDocument(title="Fritz Lang", facts=("Lang was born in Vienna.",))
    assert not can_be_asked(replace(unknown, supporting=(facts,)), own_paragraphs=False).keep
    known = replace(QUESTION, paragraphs=(), supporting=(facts,))
    assert can_be_asked(known, own_paragraphs=False).keep
    assert [text.text for text in searched_texts(known, own_paragraphs=False)] == ["Lang was born in Vienna."]
    assert searched_texts(QUESTION, own_paragraphs=True) == PARAGRAPHS


@pytest.mark.parametrize(
    ("hop", "garbled"),
    [
        ("Who directed Metropolis?", False),
        ("#1 >> place of birth", False),
        ("Which prize did #1 win in 1950?", False),
        ("who plays metropolis in the film", False),
        ("Where is the city that #1 lies in?", False),
        ("Who directed Metropolis and in which year did #1 die?", False),
        ("What was the #1 of #1 's era later known as?", True),
        ("Ellis Island is considered in #1 state and which other?", True),
        ("What is the name of #1 father?", True),
        ("Basis of #1 began with the signing of?", True),
        ("In what state is the committee focusing?", True),
        ("In what year did the Matropolis come out?", True),
        ("Member of #1 , #1 >> country", True),
    ],
)
def test_marks_of_garbled_sub_questions(hop: str, garbled: bool) -> None:
    asked = replace(QUESTION, decomposition=(QUESTION.decomposition[0], Hop(question=hop, answer="x")))
    assert bool(garbled_places(asked, PARAGRAPHS)) is garbled


@pytest.mark.parametrize(
    ("question", "garbled"),
    [
        ("What was the language of Auctor of who built an empire later known as?", True),
        ("What was where the last name comes from of who was her father's era?", True),
        ("Who is the man who was born where the Rhine ends?", False),
        ("What is the capital of the country in which #metoo began?", False),
    ],
)
def test_marks_of_garbled_questions(question: str, garbled: bool) -> None:
    assert bool(garbled_places(asking(question, "x"), ())) is garbled


def test_made_up_questions_do_not_look_garbled() -> None:
    questions = [world.question(number, hops) for number in range(5) for hops in (2, 3, 4)]
    assert not any(garbled_places(question, question.paragraphs) for question in questions)
