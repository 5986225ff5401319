"""The rules by which a question is made: what they find in sentences, and what they never let through."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.growth import is_linear
from trailforge.retrieval.english import inverted
from trailforge.schemas import SourceDocument
from trailforge.small_model.composing.clauses import Clause, clauses_of
from trailforge.small_model.composing.composing import GAP, candidates, choice_of, descriptions_of, questions_of
from trailforge.small_model.composing.joining import (
    Bridge,
    bridges_of,
    is_telling,
    joined_by,
    masked_sentences,
    names_bridge,
    nouns_of,
    problem_of,
)
from trailforge.small_model.composing.mentions import mentions_of, noun_of, shared_names

SENTENCES = (
    "The Norra Lighthouse was built in 1871 by Ida Holm.",
    "The Norra Lighthouse has 214 steps.",
    "Ida Holm, who was born in Visby, drew the plans of the Norra Lighthouse.",
    "The lighthouse was opened on 3 May 1874.",
    "It is 42 metres high, and ships see it from far.",
    "The keeper Otto Berg painted the Norra Lighthouse in 1902.",
    "We measured its light in March 2019.",
    "The Skarv Lighthouse was opened on 9 June 1880.",
    "The ship Vidar sank near the Norra Lighthouse on 4 May 1911!",
    "Norra's storms are known.",
)


def document(*sentences: str, name: str = "1") -> SourceDocument:
    """One that says this, of a source by the same name."""
    return SourceDocument(id=f"{name}:1", source=name, kind="news", title="Lights", text=" ".join(sentences))


def clause(text: str) -> Clause:
    """The first clause of a sentence."""
    return next(clauses_of(text))


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("On 3 May 1874 Ida Holm saw 1,200 ships.", ["3 May 1874", "Ida Holm", "1,200"]),
        ("It cost 1.7 million dollars in 1871.", ["1.7 million", "1871"]),
        ("The University of Bergen met Ida Holm of Visby.", ["University of Bergen", "Ida Holm", "Visby"]),
        ("They met on May 3, 1874 at the Large Hadron Collider.", ["May 3, 1874", "Large Hadron Collider"]),
    ],
)  # fmt: skip
def test_names_dates_and_figures_are_found_by_their_looks(sentence: str, found: list[str]) -> None:
    assert [mention.text for mention in mentions_of(sentence)] == found


@given(st.text(alphabet="Aab 1,.'–é()", max_size=60) | st.sampled_from(SENTENCES))
def test_a_mention_is_a_stretch_of_its_sentence_and_none_overlap(sentence: str) -> None:
    found = mentions_of(sentence)
    assert all(sentence[m.start : m.end] == m.text for m in found)
    assert all(a.end <= b.start for a, b in pairwise(found))


def test_a_word_that_only_begins_sentences_is_no_shared_name() -> None:
    first, second = document("Keepers saw Ida Holm."), document("Keepers knew Ida Holm.")
    assert shared_names(first, second) == ["Ida Holm"]


@pytest.mark.parametrize(
    ("name", "text", "noun"),
    [
        ("Norra Lighthouse", "The Norra Lighthouse is a lighthouse.", "lighthouse"),
        ("Vidar", "The ship Vidar sank. The ship was new.", "ship"),
        ("Holm", "Holm, who drew it, died.", "person"),
        ("Visby", "The city of Visby is old.", "city"),
        ("House", "The full House met.", None),
        ("Visby", "He came from Visby, the end of the line.", None),
    ],
)
def test_what_a_name_is_stands_beside_it(name: str, text: str, noun: str | None) -> None:
    assert noun_of(name, [document(text)]) == noun


@pytest.mark.parametrize(
    ("sentence", "parts"),
    [
        ("The lighthouse was built in 1871, when oil was cheap.", ("", "the lighthouse", "was", "built in 1871")),
        ("In 1871 Ida Holm drew a lighthouse.", ("In 1871", "Ida Holm", "drew", "a lighthouse")),
        ("Ida Holm, who lived in Visby, drew it.", ("", "Ida Holm", "drew", "it")),
    ],
)
def test_a_plain_sentence_is_subject_verb_and_rest(sentence: str, parts: tuple[str, ...]) -> None:
    found = clause(sentence)
    assert (found.lead, found.subject, found.verb, found.rest) == parts


@pytest.mark.parametrize(
    "sentence",
    [
        "It was built in 1871.",
        "Was it built in 1871?",
        "When it was built, oil was cheap.",
        "The rules have been changed since it was built by her, him, them and us.",
        "The mine owned by Vidar closed.",
        "Ida found the levels would be high.",
    ],
)
def test_other_sentences_are_left_alone(sentence: str) -> None:
    assert not [each for each in clauses_of(sentence) if each.verb != "have"]


def test_two_verbs_are_two_clauses() -> None:
    found = list(clauses_of("The lighthouse was built in 1871 and painted in 1902."))
    assert [each.rest for each in found] == ["built in 1871", "painted in 1902"]


@pytest.mark.parametrize(
    ("sentence", "question", "answer"),
    [
        (f"{GAP} was built in 1871 by Ida Holm.", f"In which year was {GAP} built?", "1871"),
        (f"{GAP} opened on 3 May 1874.", f"When did {GAP} open?", "3 May 1874"),
        (f"{GAP} has 214 steps.", f"How many steps has {GAP}?", "214"),
        (f"About 900 tonnes of oil were burnt in {GAP}.", f"How many tonnes of oil were burnt in {GAP}?", "900"),
        (f"The keeper Otto Berg painted {GAP} in 1902.", f"Which keeper painted {GAP}?", "Otto Berg"),
        (f"{GAP} was designed by Ida Holm.", f"By whom was {GAP} designed?", "Ida Holm"),
        (f"{GAP} was born in Visby in 1850.", f"Where was {GAP} born?", "Visby"),
        (f"{GAP} has struck the ship Vidar.", f"Which ship has {GAP} struck?", "Vidar"),
    ],
)
def test_a_fact_becomes_a_question_without_other_names(sentence: str, question: str, answer: str) -> None:
    assert (question, answer) in [(each.question, each.answer) for each in questions_of(clause(sentence), {})]


@pytest.mark.parametrize(
    "sentence", [f"{GAP} weighs less than 7 tonnes.", f"{GAP} lasted from 1961 to 1968.", f"{GAP} saw {GAP} in 1871."]
)
def test_what_is_not_exact_is_not_asked(sentence: str) -> None:
    assert not list(questions_of(clause(sentence), {}))


@pytest.mark.parametrize(
    ("sentence", "noun", "description"),
    [
        (f"{GAP} was built in 1871.", "tower", "the tower that was built in 1871"),
        (f"{GAP} drew it in 1871.", "person", "the person who drew it in 1871"),
        (f"Ida Holm opened {GAP} in 1874.", "tower", "the tower that Ida Holm opened in 1874"),
        (f"Ida Holm lived near {GAP} in 1874.", "tower", "the tower near which Ida Holm lived in 1874"),
        (f"The roof of {GAP} fell in 1902.", "tower", "the tower whose roof fell in 1902"),
    ],
)
def test_a_clause_describes_what_it_is_about(sentence: str, noun: str, description: str) -> None:
    assert list(descriptions_of(clause(sentence), noun)) == [description]


def test_the_form_of_a_verb_is_kept_or_known() -> None:
    assert [inverted(verb) for verb in ("was", "opened", "holds", "stopped", "carries")] == [
        ("was", ""), ("did", "open"), ("does", "hold"), ("did", "stop"), ("does", "carry"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When was the tower that it lit opened?", "1871"),
        ("When was the tower that Ida Holm drew opened", "1871"),
        ("When was the tower? Was it opened?", "1871"),
        ("When was the Norra tower opened?", "1871"),
        ("When was the tower of 1871 opened?", "1871"),
        ("When was the tower that fell on Friday opened?", "1871"),
        ("When was the tower that fell on 4 May opened?", "1871"),
        ("When did the tower that Ida Holm drew win the prize?", "1871"),
        ("When did the old crew leave the tower that Ida Holm drew?", "1871"),
        (f"When was the tower {'of Visby ' * 50}opened?", "1871"),
    ],
)
def test_each_flaw_of_a_composed_question_is_found(question: str, answer: str) -> None:
    assert problem_of(question, answer, "Norra Lighthouse", "the tower that Ida Holm drew")


@pytest.mark.parametrize(
    "question",
    [
        "When did the tower that Ida Holm drew win the prize of honour?",
        "When did the keeper of the tower that Ida Holm drew leave?",
        "When did the ship near the tower that Ida Holm drew sink?",
        "When did the tower that Ida Holm drew win the prize that keepers give?",
        "When did the tower that Ida Holm drew fall into the sea?",
    ],
)
def test_a_noun_that_says_which_one_is_meant_can_be_asked_about(question: str) -> None:
    assert problem_of(question, "1871", "Norra Lighthouse", "the tower that Ida Holm drew") is None


def test_documents_of_one_source_are_not_joined() -> None:
    documents = [replace(document(SENTENCES[5]), source="2"), document(SENTENCES[0], SENTENCES[3], name="2")]
    assert bridges_of(documents, nouns_of(documents)[0]) == []


@pytest.mark.parametrize(
    ("description", "telling"),
    [
        ("the tower that Ida Holm drew", True),
        ("the tower that was built in 1871", False),
        ("the tower that fell in a heavy storm", False),
        ("the tower that Norra keepers painted", True),
    ],
)
def test_a_description_has_to_single_something_out(description: str, telling: bool) -> None:
    assert is_telling(description, "Vidar") == telling


def test_the_telescope_is_the_one_that_was_named_unless_there_are_two() -> None:
    bridge = Bridge("Norra Lighthouse", "lighthouse", 0, 1)
    alone = dict(masked_sentences(bridge, document(SENTENCES[0], SENTENCES[3])))
    assert list(alone) == [SENTENCES[0], f"{SENTENCES[0]} {SENTENCES[3]}"]
    assert f"{GAP} was opened on 3 May 1874." in alone.values()
    assert list(masked_sentences(bridge, document(SENTENCES[0], SENTENCES[7], SENTENCES[3]))) == [
        (SENTENCES[0], f"{GAP} was built in 1871 by Ida Holm.")
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.permutations(SENTENCES), min_size=2, max_size=3), st.integers(1, 8))
def test_what_is_joined_is_sound(texts: list[list[str]], length: int) -> None:
    documents = [document(*text[:length], name=str(n)) for n, text in enumerate(texts)]
    nouns, _ = nouns_of(documents)
    for bridge in bridges_of(documents, nouns):
        for each in joined_by(bridge, documents, nouns):
            assert each.described_in in documents[bridge.first].text
            assert each.asked_of in documents[bridge.second].text
            assert not names_bridge(each.question, bridge.name)
            assert each.asked.answer not in each.question and each.asked.answer in each.asked_of
            assert each.question.endswith("?") and each.question.count("?") == 1 and GAP not in each.question


def test_something_is_joined() -> None:
    documents = [document(SENTENCES[5]), document(SENTENCES[0], SENTENCES[3], name="2")]
    nouns, unknown = nouns_of(documents)
    questions = [j.question for b in bridges_of(documents, nouns) for j in joined_by(b, documents, nouns)]
    assert unknown == [] and questions == [
        "In which year was the lighthouse that the keeper Otto Berg painted in 1902 built?",
        "By whom was the lighthouse that the keeper Otto Berg painted in 1902 built?",
        "When was the lighthouse that the keeper Otto Berg painted in 1902 opened?",
        "Which keeper painted the lighthouse that was built in 1871 by Ida Holm?",
        "Which keeper painted the lighthouse that was opened on 3 May 1874?",
    ]
    assert {(b.first, b.second) for b in bridges_of(documents, nouns)} == set(permutations(range(2)))


def test_a_question_is_answered_with_what_it_asks_for() -> None:
    sentence = "Ida Holm drew 214 steps for Otto Berg on 3 May 1874."
    names = {"Ida Holm", "Otto Berg"}
    assert candidates("How many steps did Ida Holm draw?", sentence, names) == ["214"]
    assert candidates("How many oars has it?", "Of 20 ships one has 8 oars.", names) == ["8"]
    assert candidates("When did Ida Holm draw?", sentence, names) == ["3 May 1874"]
    assert candidates("For whom did Ida Holm draw?", sentence, names) == ["Otto Berg"]
    assert choice_of(["a", 'b "c"']) == 'root ::= " " ("a" | "b \\"c\\"") "\\n"'


@pytest.mark.parametrize("parts", [("He saw ", "a ship ", "."), ("", "He saw ships, ", "and left.")])
def test_a_long_sentence_is_read_in_linear_time(parts: tuple[str, str, str]) -> None:
    begin, middle, end = parts
    assert list(clauses_of(begin + middle * 15_000 + end)) == []
    assert is_linear(lambda size: begin + middle * size + end, lambda text: list(clauses_of(text)), 15_000)
