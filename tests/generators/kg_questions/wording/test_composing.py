"""Chains in words: nested descriptions, meetings, starts with their kinds, and relations that no phrase knows."""

from __future__ import annotations

import re

import pytest

from tests.support.kg_worlds import DUST, chain_to, fact, node
from trailforge.generators.kg_questions.wording import PROMPTS, RELATIONS, compose, mention_of, phrase_of
from trailforge.schemas import FactChain, KgFact, KgNode

MEETING = chain_to(
    node("Red Dust", "film"),
    fact("Gil Gum", "spouse", "Ann Ash"),
    fact("Red Dust", "cast member", "Ann Ash", backward=True),
    fact("Red Dust", "year of publication", "1951", backward=True),
    starts=(node("Gil Gum", "person"), node("1951", "year")),
    bridges=(node("Ann Ash", "person", "actor"),),
)
INSIDE = chain_to(
    node("Gil Gum", "person", "novelist"),
    fact("Tall Trees", "author", "Ivy", backward=True),
    fact("Tall Trees", "author", "Oak", backward=True),
    fact("Tall Trees", "based on", "Short Bush"),
    fact("Short Bush", "author", "Gil Gum"),
    starts=(node("Ivy", "person"), node("Oak", "person")),
    bridges=(node("Tall Trees", "film"), node("Short Bush", "novel")),
)
CAPITAL = chain_to(
    node("Treeland", "country"), fact("Treeland", "capital", "Elmton", backward=True), starts=(node("Elmton", "city"),)
)
GENRE = chain_to(
    node("Blue Fog", "film"),
    fact("Red Dust", "genre", "western"),
    fact("Blue Fog", "genre", "western", backward=True),
    fact("Blue Fog", "cast member", "Ann Ash", backward=True),
    starts=(node("Red Dust", "film"), node("Ann Ash", "person")),
    bridges=(node("western", "genre"),),
)
LAUNCH = chain_to(
    node("1977", "year"), fact("Voyager 2", "year of founding", "1977"), starts=(node("Voyager 2", "space probe"),)
)


@pytest.mark.parametrize(
    ("chain", "question", "sub_questions"),
    [
        (
            DUST,
            "In which city was the director of the film Red Dust born?",
            ("Who directed the film Red Dust?", "In which city was #1 born?"),
        ),
        (
            MEETING,
            "Which film was released in 1951 and has a cast that includes the spouse of Gil Gum?",
            ("Who was married to Gil Gum?", "Which film was released in 1951 and has a cast that includes #1?"),
        ),
        (
            INSIDE,
            "Who wrote the novel that is the source of the film that was written by both Ivy and Oak?",
            ("Which film was written by both Ivy and Oak?", "On which novel is #1 based?", "Who wrote #2?"),
        ),
        (CAPITAL, "Which is the country whose capital is Elmton?", ("Which is the country whose capital is Elmton?",)),
        (
            GENRE,
            "Which film belongs to the same genre as the film Red Dust and has a cast that includes Ann Ash?",
            (
                "To which genre does the film Red Dust belong?",
                "Which film belongs to the genre of #1 and has a cast that includes Ann Ash?",
            ),
        ),
        (
            LAUNCH,
            "In which year was the space probe Voyager 2 launched?",
            ("In which year was the space probe Voyager 2 launched?",),
        ),
    ],
    ids=["chain", "intersection", "intersection inside", "one hop back", "the same", "verb by kind"],
)
def test_a_chain_in_words(chain: FactChain, question: str, sub_questions: tuple[str, ...]) -> None:
    wording = compose(chain)
    assert wording.question == question
    assert wording.sub_questions == sub_questions


def test_a_start_is_described_by_three_facts() -> None:
    chain = chain_to(
        node("Cy Cedar", "person"),
        fact("Red Dust", "year of publication", "1951", backward=True),
        fact("Red Dust", "cast member", "Ann Ash", backward=True),
        fact("Red Dust", "narrative location", "Elmton", backward=True),
        fact("Red Dust", "director", "Cy Cedar"),
        starts=(node("1951", "year"), node("Ann Ash", "person"), node("Elmton", "city")),
        bridges=(node("Red Dust", "film"),),
    )
    told = "film that was released in 1951, is set in Elmton and has a cast that includes Ann Ash?"
    assert compose(chain).question == f"Who directed the {told}"
    assert compose(chain).sub_questions[0] == "Which " + told.replace(" that was", " was", 1)


def test_two_descriptions_with_clauses_are_kept_apart() -> None:
    chain = chain_to(
        node("Red Dust", "film"),
        fact("Elmton", "capital of the woods", "Ann Ash", backward=True),
        fact("Red Dust", "cast member", "Elmton", backward=True),
        fact("Red Dust", "director", "Cy Cedar", backward=True),
        fact("Cy Cedar", "country of birth", "Treeland", backward=True),
        starts=(node("Ann Ash"), node("Treeland")),
        bridges=(node("Elmton", "person"), node("Cy Cedar", "person")),
    )
    assert ", and has a cast that includes the person who has Ann Ash" in compose(chain).question


@pytest.mark.parametrize(
    ("each", "says"),
    [
        (fact("a", "twinned with", "b"), "is the twinned with of {x}"),
        (fact("a", "published by", "b"), "is what {x} was published by"),
        (fact("a", "published by", "b", backward=True), "was published by {x}"),
        (fact("a", "editor", "b", backward=True, aliases=("edited by",)), "has {x} as an editor"),
        (fact("a", "editor", "b", backward=True, aliases=("published in",)), "was published in {x}"),
        (fact("a", "film / crew gig / producer", "b"), "is the producer of {x}"),
        (fact("a", "owns", "b", backward=True), "owns {x}"),
        (fact("a", "includes", "b", backward=True), "includes {x}"),
    ],
)
def test_a_relation_without_phrases_is_put_into_words_by_its_names(each: KgFact, says: str) -> None:
    assert phrase_of(each).says == says


@pytest.mark.parametrize(
    ("start", "mention"),
    [
        (node("Red Dust", "film"), "the film Red Dust"),
        (node("Film of Dust", "film"), "Film of Dust"),
        (node("Rhine", "river"), "the Rhine"),
        (node("The Hague", "city"), "The Hague"),
        (node("University of Vienna"), "the University of Vienna"),
        (node("United States"), "the United States"),
        (node("United States of America"), "the United States of America"),
        (node("Democratic Republic of the Congo"), "the Democratic Republic of the Congo"),
        (node("oxygen", "chemical element"), "oxygen"),
        (node("Sanssouci", "palace"), "the palace Sanssouci"),
        (node("Palace of Versailles", "palace"), "the Palace of Versailles"),
        (node("Elm Palace", "palace"), "Elm Palace"),
        (node("La Scala", "theatre"), "La Scala"),
        (node("Laurel Theatre", "theatre"), "the Laurel Theatre"),
        (node("Carnegie Hall", "theatre"), "Carnegie Hall"),
        (node("Ann Ash", "person"), "Ann Ash"),
    ],
)
def test_a_start_is_named_with_article_and_kind(start: KgNode, mention: str) -> None:
    assert mention_of(start) == mention


def test_every_phrase_has_its_place_for_the_other_end_and_no_other_gap() -> None:
    """What is filled in: {x} once, {k}, {who}, {w}, and verbs where the relation has them."""
    for relation, entry in PROMPTS.phrases(RELATIONS).items():
        verbs = entry.get("verbs")
        assert verbs is None or "" in verbs
        for end in ("tail", "head"):
            assert set(entry[end]) <= {"kind", "says", "same", "name", "ask"} and "says" in entry[end], relation
            for use in ("says", "same", "name", "ask"):
                text = entry[end].get(use, "{x}")
                gaps = re.findall(r"\{(\w+)\}", text)
                assert gaps.count("x") == 1, (relation, end, use)
                assert set(gaps) <= {"x", "k", "who", "w"} | ({"v", "n"} if verbs else set()), (relation, end, use)
                assert use != "ask" or text.endswith("?") or text == "{x}"
