"""A description of something on the way is asked for without what it means, and only one that means it alone stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.graph_questions import FakeReader, question
from tests.support.kg_worlds import chain_to, fact, node
from trailforge.filters.kg.descriptions import descriptions_in
from trailforge.filters.kg.questions import KgQuestionFilterConfig, judge_question, names_of
from trailforge.schemas import FilterScore, Hop

ACTOR = chain_to(
    node("Elmton", "city"),
    fact("Red Dust", "cast member", "Cy Cedar"),
    fact("Blue Dust", "cast member", "Cy Cedar"),
    fact("Cy Cedar", "place of birth", "Elmton"),
    starts=(node("Red Dust", "film"), node("Blue Dust", "film")),
    bridges=(node("Cy Cedar", "person", "actor", "Cyrus Cedar"),),
)
ASKED = KgQuestionFilterConfig(closed_book_samples=1, name_described=True, check=True)


@pytest.mark.parametrize(
    ("names", "reason", "score"),
    [
        (("Cy Cedar",), None, 0),
        (("Cyrus Cedar", "UNKNOWN", " "), None, 0),
        (("Cy Cedar", "Bo Birch", "Al Alder"), "ambiguous_description", 2),
        (("UNKNOWN",), "unknown_description", 1),
        ((), "unknown_description", 1),
    ],
)
async def test_what_is_named_for_a_description_decides(names: tuple[str, ...], reason: str | None, score: int) -> None:
    reader, row = FakeReader(names=names), question(ACTOR)
    verdicts = await judge_question(row, reader, ASKED)
    assert [(v.reason, v.score) for v in verdicts if not v.keep] == ([(reason, score)] if reason else [])
    assert reader.checked == (reason is None) and reader.named == [row.decomposition[0].question]
    scored = replace(row, filters=tuple(FilterScore(name=v.reason, score=v.score, passed=v.keep) for v in verdicts))
    assert names_of(scored, ASKED) == [v.reason for v in verdicts[7:]]


async def test_another_thing_rejects_beside_a_lack_of_what_is_meant() -> None:
    verdicts = await judge_question(question(ACTOR), FakeReader(names=("Bo Birch",)), ASKED)
    rejected = [(each.reason, each.detail) for each in verdicts if not each.keep]
    assert rejected == [
        ("ambiguous_description", "'Bo Birch' fits what is said of 'Cy Cedar'"),
        ("unknown_description", "nothing that it named is 'Cy Cedar'"),
    ]


async def test_who_is_found_by_one_fact_is_not_asked_for() -> None:
    reader = FakeReader()
    assert all(verdict.keep for verdict in await judge_question(question(), reader, ASKED)) and reader.named == []


def test_what_is_found_before_is_named_where_a_description_refers_to_it() -> None:
    chain = replace(ACTOR, bridges=(node("Red Dust", "film"), *ACTOR.bridges), starts=ACTOR.starts[1:])
    hops = tuple(Hop(question=text, answer="") for text in ("Which?", "Who acted in #1 and Blue Dust?", "Where?"))
    ((asked, meant),) = descriptions_in(replace(question(ACTOR), chain=chain, decomposition=hops))
    assert (asked, meant.label) == ("Who acted in Red Dust and Blue Dust?", "Cy Cedar")
