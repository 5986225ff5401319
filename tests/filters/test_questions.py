"""Whether a question can be asked: what is stated by which sentence, and what looks garbled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import world
from tests.support.rows import QUESTION
from trailforge.filters.questions import (
    answer_in_question,
    can_be_asked,
    counted_noun,
    doubtful_gold,
    garbled_places,
    gold_not_stated,
    kind_asked_for,
    searched_texts,
    stated_count,
    stated_hops,
)
from trailforge.pipelines.sources import read_questions
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


@pytest.mark.parametrize(
    ("question", "gold", "is_doubtful"),
    [
        ("Where was the father of Adhemar of Salerno born?", "Italian", True),
        ("What is the place of death of its director?", "French", True),
        ("In which city was she born?", "Dutch", True),
        ("Where was he born?", "Italy", False),
        ("Where was he born?", "Vienna", False),
        ("Which country is the director of La Yuma from?", "French", False),
        ("Of which country is he a citizen?", "American", False),
        ("How do the two books differ in their focus?", "his own opinions changed", True),
        ("How did he die?", "poison", False),
        ("In what year was it founded?", "Fritz Lang", True),
        ("In what year was it founded?", "c. 1904", False),
        ("How many moons has it?", "two", False),
        ("How many moons has it?", "Europa", True),
        ("Who directed Metropolis?", "1927", True),
        ("Who directed Metropolis?", "May 7, 1927", True),
        ("Who won it?", "Apollo 11", False),
        ("When is it celebrated?", "the summer solstice", False),
    ],
)
def test_a_gold_answer_of_another_kind_than_is_asked_for(question: str, gold: str, is_doubtful: bool) -> None:
    verdict = doubtful_gold(question, (gold,))
    assert (verdict.reason, verdict.keep, bool(verdict.detail)) == ("doubtful_gold", not is_doubtful, is_doubtful)


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Ann was born in which city?", "a place"),
        ("The late president was Ann, who died on which date?", "a number"),
        ("Of the two films, who directed the first?", "a person"),
        ("In which Italian city was Ann born?", "a place"),
        ("What is the place of birth of Ann?", "a place"),
        ("Where is the band from?", None),
        ("Which city council did Ann lead?", None),
        ("What language is spoken at the place of birth of Ann?", None),
        ("What is the nationality of the man whose birthplace is Graz?", None),
        ("Which country has the city in which year after year people meet?", None),
        ("Are the place of birth of Ann and that of Bob the same?", None),
        ("Which award did the man who was born in Graz win?", None),
        ("How many different schools are there?", "a number"),
        ("How many years do the two differ in age?", "a number"),
        ("How do the two books differ?", "a difference"),
        ("How did Ann die after they had differed?", None),
        ("Who performed Amber?", None),
        ("Who directed Metropolis?", "a person"),
    ],
)
def test_what_a_question_asks_for_is_said_by_its_question_word_and_the_noun_behind_it(
    question: str, kind: str | None
) -> None:
    assert kind_asked_for(question) == kind


@pytest.mark.parametrize("gold", ["twice", "two-time", "Once", "none", "a dozen", "six", "c. 1904"])
def test_a_number_in_words_is_a_number(gold: str) -> None:
    assert doubtful_gold("How many times did Ann win?", (gold,)).keep


def test_golds_of_public_questions_are_doubted_only_where_they_are_of_another_kind(data_dir: Path) -> None:
    files = ("2wikimultihopqa/2wiki_context", "hotpotqa/hotpotqa", "musique/musique_original20")
    asked = [q for name in files for q in read_questions(data_dir / f"{name}.jsonl.gz") if isinstance(q, Question)]
    doubted = {q.answer for q in asked if not doubtful_gold(q.question, q.golds).keep}
    assert (len(asked), doubted) == (1121, {"Georgian", "Chinese", "Filipino", "Tian Tan Buddha"})


def test_an_alias_of_the_kind_that_is_asked_for_takes_the_doubt_away() -> None:
    assert doubtful_gold("Where was he born?", ("Italian", "Salerno")).keep


@pytest.mark.parametrize(
    ("question", "noun"),
    [
        ("How many sisters did Fritz Lang have?", "sisters"),
        ("In how many films of 1927 does she play?", "films"),
        ("How many refugees emigrated?", "refugees"),
        ("Who had many sisters?", ""),
    ],
)
def test_what_a_question_asks_the_number_of(question: str, noun: str) -> None:
    assert counted_noun(question) == noun


def test_a_number_is_stated_of_what_is_counted_and_not_by_a_date() -> None:
    def stated(question: str, gold: str, text: str) -> bool:
        return stated_count(question, (gold,), (Document(id="0", title="T", text=text),)) is not None

    assert stated("How many sisters had he?", "2", "He had two sisters.")
    assert not stated("How many sisters had he?", "2", "His sister Ann was born on 2 May 1890.")
    assert not stated("How many sisters had he?", "2", "He wrote two novels.")
    assert stated("How many people can it hold?", "12,000", "Its capacity is 12,000.")
    assert not stated("How many people can it hold?", "12,000", "Its capacity is 13,000.")


@pytest.mark.parametrize(
    ("gold", "is_stated"),
    [
        ("35", True),
        ("1,200", True),
        ("1.500.000", True),
        ("3.5 million", True),
        ("thirty-five", True),
        ("about 30 to 40", True),
        ("3.5", False),  # not 35
        ("2 to 4", False),  # not 24
        ("2.50", False),
        ("20", False),
        ("none", False),
    ],
)
def test_a_number_that_texts_do_not_enumerate_needs_no_name_beside_it(gold: str, is_stated: bool) -> None:
    found = stated_count("How many sisters had he?", (gold,), (Document(id="0", title="T", text=f"It is {gold}."),))
    assert (found is not None) == is_stated
