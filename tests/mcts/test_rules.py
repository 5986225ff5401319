"""Splits by rule: what is cut out, how it is asked for, and what is left alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.growth import is_linear
from trailforge.mcts.plan import ENTITY, apply_split, plan_problem, split_problem
from trailforge.schemas import Plan, Split
from trailforge.small_model.splitting import candidate_splits, is_decomposable
from trailforge.small_model.splitting.grammar import is_noun_phrase, is_question
from trailforge.small_model.splitting.patterns import MASK, mask_names

SAMPLE = Path(__file__).parents[2] / "sample_data" / "musique_style_questions.jsonl"

SPLITS = """
In which city was the director of Metropolis born?
    Who is the director of Metropolis?
    In which city was [E] born?
When did the country that produced Fist Power join the EU?
    What country produced Fist Power?
    When did [E] join the EU?
What is the capital of the county where KRSU is licensed to broadcast?
    In what county is KRSU licensed to broadcast?
    What is the capital of [E]?
Who wrote the fictional work Doctor Fate exists in?
    What fictional work does Doctor Fate exist in?
    Who wrote [E]?
When did Suzanne Farrington's mother die?
    Who is Suzanne Farrington's mother?
    When did [E] die?
Who was the spouse of the painter of #1?
    Who is the painter of #1?
    Who was the spouse of [E]?
Which river flows through the city whose university is the oldest in Italy?
    What city's university is the oldest in Italy?
    Which river flows through [E]?
In which country was the scientist who discovered penicillin born?
    Which scientist discovered penicillin?
    In which country was [E] born?
In which city does the company that built the Beetle have its headquarters?
    What company built the Beetle?
    In which city does [E] have its headquarters?
Who wrote the novel on which the film Apocalypse Now is based?
    On what novel is the film Apocalypse Now based?
    Who wrote [E]?
In what city did the author of the play Faust die?
    Who is the author of the play Faust?
    In what city did [E] die?
Which strait separates the island where Napoleon was born from Sardinia?
    On what island was Napoleon born?
    Which strait separates [E] from Sardinia?
Who discovered the largest moon of the planet that Voyager 2 flew past in August 1989?
    What planet did Voyager 2 fly past in August 1989?
    Who discovered the largest moon of [E]?
What is the highest mountain in the country where the composer of the Peer Gynt suites was born?
    In what country was the composer of the Peer Gynt suites born?
    What is the highest mountain in [E]?
Which element did the first woman to win a Nobel Prize name after her native country?
    Who is the first woman to win a Nobel Prize?
    Which element did [E] name after her native country?
In which theatre was the last opera of the composer of La traviata first performed?
    Who is the composer of La traviata?
    In which theatre was the last opera of [E] first performed?
What is the goal of the group that European Movement Germany is a member of?
    What group is European Movement Germany a member of?
    What is the goal of [E]?
Metropolis >> director >> place of birth
    Metropolis >> director
    [E] >> place of birth
"""


def cases(table: str) -> list[tuple[str, ...]]:
    """Three lines a case."""
    lines = [line.strip() for line in table.strip().splitlines()]
    return [tuple(lines[i : i + 3]) for i in range(0, len(lines), 3)]


ATOMIC = [
    "Who directed Metropolis?",
    "In what year was #1 born?",
    "What is the capital of France?",
    "Who wrote The Lord of the Rings?",
    "When was the Battle of Hastings?",
    "Metropolis >> director",
    "",
]


@pytest.mark.parametrize(("question", "first", "second"), cases(SPLITS))
def test_the_best_split_asks_for_the_described_thing(question: str, first: str, second: str) -> None:
    assert is_decomposable(question)
    assert candidate_splits(question)[0] == (first, second)


@pytest.mark.parametrize("question", ATOMIC)
def test_an_atomic_question_is_left_whole(question: str) -> None:
    assert not is_decomposable(question)


def test_a_second_half_is_not_split_before_its_entity_is_known() -> None:
    assert candidate_splits(f"Who is the mother of the director of {ENTITY}?") == []


@pytest.mark.parametrize(
    ("question", "masked"),
    [
        ("Who wrote The Lord of the Rings?", f"Who wrote {MASK * 21}?"),
        ('Who sang "Let it be" first?', f"Who sang {MASK * 11} first?"),
        ("When was #12 born in Rome?", f"When was {MASK * 3} born in {MASK * 4}?"),
        ("The capital of France", f"The capital of {MASK * 6}"),
    ],
)
def test_names_are_masked_whole(question: str, masked: str) -> None:
    assert mask_names(question) == masked


WORDS = st.sampled_from(
    "who what is was the a of in that which whose city country director wrote born Metropolis #1 Lang's , ?".split()
)


@given(st.lists(WORDS, max_size=14).map(" ".join))
def test_every_candidate_holds_one_entity_and_keeps_the_masked_length(question: str) -> None:
    assert len(mask_names(question)) == len(question)
    for first, second in candidate_splits(question):
        assert second.count(ENTITY) == 1 and ENTITY not in first
        assert first.strip(" ?")


@given(st.lists(WORDS.filter(lambda word: word != "#1"), min_size=3, max_size=14).map(" ".join))
def test_a_usable_candidate_refines_the_plan_into_a_valid_one(question: str) -> None:
    for first, second in candidate_splits(question):
        split = Split(index=0, first=first, second=second)
        if split_problem(question, split) is None:
            assert plan_problem(apply_split(Plan(sub_questions=(question,)), split)) is None


BROKEN = """
Who wrote Heart of Darkness based?
In what city did #1 Faust die?
What play did the city where Faust?
What is the capital of Tanzania located?
Who was the first president of #2 born?
Which scientist discovered penicillin born?
What company made the processor of the first Macintosh founded?
What built have the Beetle its headquarters?
In which city does the company #1?
Who wrote the novel on which #1?
Which strait separates #2 Sardinia?
Which strait separates #1?
Which river forms most of the border between #1?
Which mountain range separates #2 born from #3?
In what year did the Metro open in #2 born?
What group performed Attics To Eden formed?
Who is #1 in Spain?
What is #1 a member of Spain?
Of which colony did the captain of the ship on which #1?
"""
SOUND = """
In which city was #1 born?
In which city does #1 have its headquarters?
On what novel is the film Apocalypse Now based?
Who wrote the novel on which the film Apocalypse Now is based?
Which strait separates #2 from Sardinia?
What fictional work does Doctor Fate exist in?
What country is MacGruder and Loud's creator from?
How many moons belong to #1?
How long had #1 been the capital of #2?
[E] is part of what?
Besides Kenny G and [E], who else had hits played on smooth jazz stations?
Who was in charge in the country that is the natural boundary between #1 and the country where A Don is located?
When was the death penalty reinstated in the state that contains #1?
By how many votes did #1 survive impeachment?
Where was #1 born?
What is the experimental satellite of #1 called?
"""


@pytest.mark.parametrize("question", BROKEN.strip().splitlines())
def test_a_torn_question_has_no_reading(question: str) -> None:
    assert not is_question(question)


@pytest.mark.parametrize("question", SOUND.strip().splitlines())
def test_a_whole_question_has_a_reading(question: str) -> None:
    assert is_question(question)


@pytest.mark.parametrize(
    "phrase", ["the director of Metropolis born", "the country where X was", "the group that X is"]
)
def test_a_phrase_that_lacks_a_verb_or_has_one_too_many_is_no_noun_phrase(phrase: str) -> None:
    assert not is_noun_phrase(phrase)
    assert is_noun_phrase("the country where X was born") and is_noun_phrase("the group that X is a member of")


@pytest.mark.parametrize(
    "question",
    [
        "What administrative entity does the city where X was born located?",
        "Notre Dame is located is what section of Camille Cottin's birthplace?",
        "Country A developed the gun because the branch that X is a branch of was unprepared. Country B did what?",
    ],
)
def test_a_question_without_a_reading_is_not_cut(question: str) -> None:
    assert not is_question(question) and candidate_splits(question) == []


RELATIONS = st.sampled_from("director author composer painter singer".split())
TITLES = st.sampled_from(["Metropolis", "The Night Watch", "Impression, Sunrise", "Things Fall Apart", "La traviata"])
PEOPLE = st.builds("the {} of {}".format, RELATIONS, TITLES)
PLACES = st.builds(
    "the {} where {} {}".format,
    st.sampled_from(["city", "country", "island"]),
    PEOPLE,
    st.sampled_from(["was born", "died", "was first performed", "had studied"]),
)
QUESTIONS = st.one_of(
    st.builds(
        "{} {} {}?".format,
        st.sampled_from(["In which city was", "When was", "In what year was"]),
        PEOPLE,
        st.sampled_from(["born", "buried", "first performed"]),
    ),
    st.builds(
        "{} {}?".format,
        st.sampled_from(["What is the capital of", "Which river flows through", "Who was the first president of"]),
        PLACES,
    ),
    st.builds("Which strait separates {} from {}?".format, PLACES, PLACES),
    st.builds(
        "{} did {} {}?".format, st.sampled_from(["When", "In which city"]), PEOPLE, st.sampled_from(["die", "work"])
    ),
)


@settings(max_examples=25)
@given(QUESTIONS)
def test_every_cut_through_leaves_only_questions_that_keep_their_verbs(question: str) -> None:
    assert is_question(question) and is_decomposable(question)
    seen, left = set[str](), [question]
    while left:
        whole = left.pop()
        for first, second in candidate_splits(whole):
            assert is_question(first) and is_question(second), (whole, first, second)
            assert sorted(_participles(f"{first} {second}")) == sorted(_participles(whole)), (whole, first, second)
            left += {first, second.replace(ENTITY, "#1")} - seen
            seen |= {first, second.replace(ENTITY, "#1")}


def _participles(text: str) -> list[str]:
    """Participles of the test questions: each has to come out of a split once, wherever it stood."""
    return re.findall(r"\b(?:born|buried|performed|studied)\b", text)


@given(st.lists(WORDS, max_size=14).map(" ".join))
def test_whatever_the_words_both_halves_have_a_reading(question: str) -> None:
    for first, second in candidate_splits(question):
        assert is_question(first) and is_question(second)


def test_every_sample_question_can_be_split() -> None:
    questions = [json.loads(line)["question"] for line in SAMPLE.read_text().splitlines()]
    assert len(questions) == 36
    for question in questions:
        assert is_decomposable(question), question
        for first, second in candidate_splits(question):
            assert is_question(first) and is_question(second)


def test_a_text_too_long_to_read_is_refused() -> None:
    assert is_question(f"Who is {'the mother of ' * 20}Ann?")
    assert not is_question(f"Who is {'the mother of ' * 2000}Ann?")
    assert candidate_splits(f"Who is {'the mother of ' * 200}Ann?") == []


@pytest.mark.parametrize(
    "parts", [("his ", "aaaaaaaaaaaa", ""), ("Who wrote ", "the book of ", "it?"), ("", " " * 12, "")]
)
def test_a_long_question_is_read_in_linear_time(parts: tuple[str, str, str]) -> None:
    begin, middle, end = parts
    text = begin + middle * 8_000 + end
    assert candidate_splits(text) == [] and not is_decomposable(text)
    for read in (candidate_splits, is_decomposable):
        assert is_linear(lambda size: begin + middle * size + end, read, 8_000), read
