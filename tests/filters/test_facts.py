"""Which facts an answer rests on, and whether what was read names one plainly."""

from __future__ import annotations

import pytest

from trailforge.filters.facts import SoughtFact, answering_facts, count_unstated, is_plainly_stated, unsettled_facts
from trailforge.schemas import FactReading, Hop, KgTriple, Passage

BORN = SoughtFact("Where was Gustaf Gründgens born?", ("Düsseldorf",), ("Gustaf Gründgens",))


def passage(text: str, title: str = "Gustaf Gründgens") -> Passage:
    return Passage(id=text, title=title, text=text, score=1.0)


def triple(head: str, relation: str, tail: str) -> KgTriple:
    return KgTriple(head=head, relation=relation, tail=tail, head_label=head, relation_label=relation, tail_label=tail)


@pytest.mark.parametrize(
    ("text", "title", "is_plain"),
    [
        ("Gustaf Gründgens was born in Düsseldorf.", "", True),
        ("He was born on 22 December 1899 in Düsseldorf.", "Gustaf Gründgens", True),
        ("He was born on 22 December 1899 in Düsseldorf.", "Gustaf Molander", False),
        ("Düsseldorf was the birthplace of Gustaf Gründgens.", "", False),  # asked, as "was" stands between
        ("The birthplace of Gustaf Gründgens is Düsseldorf.", "", True),
        (
            "Gustaf Gründgens, born Gustav Arnold, was artistic director of theatres in Berlin and Düsseldorf.",
            "",
            False,
        ),
        ("Gustaf Gründgens was not born in Düsseldorf.", "", False),
        ("Gustaf Gründgens died in Düsseldorf.", "", False),
        ("Gustaf Gründgens was born in Hamburg. He worked in Düsseldorf.", "", False),
    ],
)
def test_a_clause_names_who_in_which_relation_and_what(text: str, title: str, is_plain: bool) -> None:
    assert is_plainly_stated(BORN, [passage(text, title)]) is is_plain


@pytest.mark.parametrize(
    ("known", "is_plain"),
    [
        (triple("Gustaf Gründgens", "place of birth", "Düsseldorf"), True),
        (triple("Düsseldorf", "native of", "Gustaf Gründgens"), True),
        (triple("Gustaf Gründgens", "place of death", "Düsseldorf"), False),
        (triple("Gustaf Gründgens", "place of birth", "Hamburg"), False),
        (triple("Gustaf Molander", "place of birth", "Düsseldorf"), False),
    ],
)
def test_a_triple_names_them_too(known: KgTriple, is_plain: bool) -> None:
    assert is_plainly_stated(BORN, [], [known]) is is_plain


CHAIN = (
    Hop(question="Who directed The False Step?", answer="Gustaf Gründgens"),
    Hop(question="Where was #1 born?", answer="Düsseldorf"),
)
FILMS = (
    Hop(question="Who directed Alpha?", answer="Ann"),
    Hop(question="Who directed Beta?", answer="Bob"),
    Hop(question="When was #1 born?", answer="1901"),
    Hop(question="When was #2 born?", answer="1902"),
    Hop(question="Whose director is older? (Alpha: #1, #3; Beta: #2, #4)", answer="Alpha"),
)


def test_an_answer_rests_on_the_hop_that_is_looked_up_last() -> None:
    assert answering_facts("?", ["Düsseldorf"], CHAIN) == (BORN,)


def test_a_comparison_rests_on_what_it_compares() -> None:
    found = answering_facts("Whose director is older?", ["Alpha"], FILMS)
    assert [(fact.question, fact.names) for fact in found] == [
        ("When was Ann born?", ("1901",)),
        ("When was Bob born?", ("1902",)),
    ]


def test_without_hops_the_whole_question_is_asked_whatever_stands_there() -> None:
    stated = passage("Gustaf Gründgens was born in Düsseldorf.")
    (fact,) = unsettled_facts(BORN.question, ["Düsseldorf"], (), [stated])
    assert (fact.question, fact.names) == (BORN.question, ("Düsseldorf",))
    assert unsettled_facts("?", ["Düsseldorf"], CHAIN, [stated]) == ()


def test_one_fact_that_is_not_stated_rejects() -> None:
    found = FactReading(question="Who?", answer="Ann")
    assert count_unstated([found]).keep and count_unstated([]).keep
    verdict = count_unstated([found, FactReading(question="Where?", answer="")])
    assert (verdict.keep, verdict.reason, verdict.score) == (False, "unstated_answer", 1.0)
    assert "'Where?'" in verdict.detail
