"""Which facts an answer rests on, and whether what was read names one plainly."""

from __future__ import annotations

import pytest

from trailforge.filters.facts import SoughtFact, answering_facts, compared_hops, is_plainly_stated, unsettled_facts
from trailforge.schemas import Hop, KgTriple, Passage

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
        ("Düsseldorf was the birthplace of Gustaf Gründgens.", "", True),
        ("Gründgens was born in Düsseldorf.", "Gustaf Gründgens", True),
        ("Gustaf Gründgens (1899–1963) was born in Düsseldorf, Germany.", "", True),
        ("He was a German actor. He was born in Düsseldorf.", "Gustaf Gründgens", False),  # "He was a" names nobody
        ("Gustaf Gründgens was a German actor. He was born in Düsseldorf.", "Gustaf Gründgens", True),
        ("Gustaf Gründgens was an actor born in Düsseldorf.", "", True),
        ("The birthplace of Gustaf Gründgens is Düsseldorf.", "", True),
        (
            "Gustaf Gründgens, born Gustav Arnold, was artistic director of theatres in Berlin and Düsseldorf.",
            "",
            False,
        ),
        ("Gustaf Gründgens was not born in Düsseldorf.", "", False),
        ("Gustaf Gründgens died in Düsseldorf.", "", False),
        ("Gustaf Gründgens was born in Hamburg. He worked in Düsseldorf.", "", False),
        ("It is not true that Gustaf Gründgens was born in Düsseldorf.", "", False),
        ("Gustaf Gründgens was never, it seems, born in Düsseldorf.", "", False),
        ("Gustaf Gründgens was born in Düsseldorf, but this is disputed.", "", False),
        ("Gustaf Gründgens was born in Düsseldorf, according to his wife.", "", False),
        ("His wife said that Gustaf Gründgens was born in Düsseldorf.", "", False),
        ("Gustaf Gründgens was probably born in Düsseldorf.", "", False),
        ("Was Gustaf Gründgens born in Düsseldorf?", "", False),
        ("Gustaf Gründgens was born in Düsseldorf or Hamburg.", "", False),
        ("Gustaf Gründgens was born in Düsseldorf Mills.", "", False),
        ("Gustaf Gründgens was born near Düsseldorf.", "", False),
        ("Gustaf Gründgens's brother was born in Düsseldorf.", "", False),
        ("Gustaf Gründgens married Erika, born in Düsseldorf.", "", False),
        ("Gustaf Gründgens and Erika Mann, born in Düsseldorf, married.", "", False),
        ("Erika Mann, who married Gustaf Gründgens, was born in Düsseldorf.", "", False),
        ("His father was born in Düsseldorf.", "Gustaf Gründgens", False),
        ("Gustaf Gründgens had a brother, Max. He was born in Düsseldorf.", "Gustaf Gründgens", False),
        ("Gustaf Gründgens was born in Hamburg and educated in Düsseldorf.", "", False),
        ("Gustaf Gründgens, born in 1899, moved to Düsseldorf.", "", False),
        ("Gustaf Gründgens was born in 1899, grew up in Düsseldorf.", "", False),
    ],
)
def test_a_clause_names_who_in_which_relation_and_what(text: str, title: str, is_plain: bool) -> None:
    assert is_plainly_stated(BORN, [passage(text, title)]) is is_plain


@pytest.mark.parametrize(
    ("known", "is_plain"),
    [
        (triple("Gustaf Gründgens", "place of birth", "Düsseldorf"), True),
        (triple("Gustaf Gründgens", "birthplace", "Düsseldorf"), True),
        # Of heads alone: read from its tail, "X | father | Y" would say that X is the father of Y.
        (triple("Düsseldorf", "native of", "Gustaf Gründgens"), False),
        (triple("Gustaf Gründgens", "place of death", "Düsseldorf"), False),
        (triple("Gustaf Gründgens", "place of birth", "Hamburg"), False),
        (triple("Gustaf Molander", "place of birth", "Düsseldorf"), False),
    ],
)
def test_a_triple_names_them_too(known: KgTriple, is_plain: bool) -> None:
    assert is_plainly_stated(BORN, [], [known]) is is_plain


@pytest.mark.parametrize(
    ("question", "answer", "text", "is_plain"),
    [
        (
            "Who directed Metropolis?",
            "Fritz Lang",
            "Metropolis is a 1927 German silent film directed by Fritz Lang.",
            True,
        ),
        ("Who directed Metropolis?", "Fritz Lang", "Metropolis is a film written and directed by Fritz Lang.", True),
        ("Who directed Metropolis?", "Fritz Lang", "Fritz Lang directed Metropolis.", True),
        ("Who directed Metropolis?", "Fritz Lang", "Metropolis is a remake of a film directed by Fritz Lang.", False),
        ("Who directed Metropolis?", "Fritz Lang", "Fritz Lang directed Metropolis Now.", False),
        ("Who directed Metropolis?", "Fritz Lang", "Metropolis was produced, and M directed by Fritz Lang.", False),
        ("Who is the father of Ann Lee?", "Bob Lee", "Bob Lee is the father of Ann Lee.", True),
        ("Who is the father of Ann Lee?", "Bob Lee", "Ann Lee is the father of Bob Lee.", False),
        ("Who is the father of Ann Lee?", "Bob Lee", "Bob Lee, the father of Ann Lee's wife, was a painter.", False),
        ("Who is the father of Ann Lee's wife?", "Bob Lee", "Bob Lee is the father of Ann Lee.", False),
        ("Who founded Acme?", "Ann Lee", "Acme founded Ann Lee.", False),
        ("Who owns Acme?", "Globex", "Acme owns Globex.", False),
        ("Who owns Acme?", "Globex", "Acme is owned by Globex.", True),
        ("What is Graz the capital of?", "Styria", "Styria is the capital of Graz.", False),
        ("What is Graz the capital of?", "Styria", "Graz is the capital of Styria.", True),
        ("When did Ann Lee die?", "1950", "Ann Lee died in Graz on 4 May 1950.", True),
        ("When did Ann Lee die?", "1950", "Ann Lee died in 1951, and Bob in 1950.", False),
        ("Who did Ann Lee marry in 1950?", "Bob Ray", "Ann Lee married Bob Ray.", False),
        ("Where does Ann Lee come from?", "Graz", "Ann Lee was released in Graz.", False),
        ("Is Ann Lee married?", "no", "Ann Lee married no other man.", False),
        ("Was Ann Lee born in Graz?", "yes", "Ann Lee was born yes.", False),
    ],
)
def test_a_sentence_states_what_is_asked_for_and_not_its_reverse(
    question: str, answer: str, text: str, is_plain: bool
) -> None:
    assert is_plainly_stated(SoughtFact(question, (answer,)), [passage(text, "x")]) is is_plain


LIFE = "Ann Marie Lee (born 4 May 1890 in Graz) was a singer."


@pytest.mark.parametrize(
    ("question", "answer", "text", "is_plain"),
    [
        ("Where was Ann Lee born?", "Graz", LIFE, True),
        ("When was Ann Lee born?", "4 May 1890", LIFE, True),
        ("When was Ann Lee born?", "1890", LIFE, True),
        ("When did Ann Lee die?", "1890", LIFE, False),
        ("Where was Ann Lee born?", "4 May 1890", LIFE, False),
        ("When was Ann Lee born?", "Graz", LIFE, False),
        ("In which year was Ann Lee born?", "1890", LIFE, True),
        ("Where was Ann Lee born?", "Marburg", LIFE.replace("Graz", "Marburg"), True),
        ("Where was Ann Lee born?", "Graz", f"She had a son. {LIFE}", False),
        ("Where was Ann Lee born?", "Graz", "Ann Lee (born in Linz, raised in Graz) was a singer.", False),
        ("When was Ann Lee born?", "1890", "Ann Lee (4 May 1890 – 5 June 1950) was a singer.", True),
        ("When did Ann Lee die?", "5 June 1950", "Ann Lee (4 May 1890 – 5 June 1950) was a singer.", True),
        ("When did Ann Lee die?", "1890", "Ann Lee (4 May 1890 – 5 June 1950) was a singer.", False),
        ("When was Ann Lee born?", "1890", "Ann Lee, wife of a singer (4 May 1890 – 5 June 1950), sang.", False),
        ("When was Ann Lee founded?", "1890", "Ann Lee (4 May 1890 – 5 June 1950) was a singer.", False),
    ],
)
def test_an_article_begins_with_dates_of_its_title(question: str, answer: str, text: str, is_plain: bool) -> None:
    fact = SoughtFact(question, (answer,))
    assert is_plainly_stated(fact, [passage(text, "Ann Lee")]) is is_plain
    assert not is_plainly_stated(fact, [passage(text.replace("Ann Lee", "Eve Ray"), "Eve Ray")])


def test_a_title_is_nobody_where_two_are_namesakes() -> None:
    text = "He was born in Düsseldorf."
    namesakes = [passage(text, "Gustaf Gründgens (actor)"), passage("He was a painter.", "Gustaf Gründgens (painter)")]
    assert is_plainly_stated(BORN, namesakes[:1]) and not is_plainly_stated(BORN, namesakes)


@pytest.mark.parametrize(
    ("head", "relation", "tail", "is_plain"),
    [
        ("Ann Lee", "father", "Bob Lee", True),
        ("Bob Lee", "father", "Ann Lee", False),
        ("Bob Lee", "child", "Ann Lee", False),
        ("Ann Lee", "father-in-law", "Bob Lee", False),
        ("Ann Lee Ray", "father", "Bob Lee", False),
    ],
)
def test_a_triple_is_read_from_its_head(head: str, relation: str, tail: str, is_plain: bool) -> None:
    asked = SoughtFact("Who is the father of Ann Lee?", ("Bob Lee",), ("Ann Lee",))
    assert is_plainly_stated(asked, [], [triple(head, relation, tail)]) is is_plain


@pytest.mark.parametrize(
    ("question", "relation", "is_plain"),
    [
        ("Which country is Alpha from?", "country of origin", True),
        ("Which country is Alpha from?", "country of citizenship", False),
        ("Which country was Alpha a citizen of?", "country of citizenship", True),
        ("Which country was Alpha a citizen of?", "country", False),
        ("In which country is Alpha?", "country", True),
        ("In which country is Alpha?", "country of origin", False),
        ("When did Alpha come out?", "publication date", True),
        ("When did Alpha come out?", "inception", False),
        ("Which award did Alpha receive?", "award received", True),
        ("Who founded Alpha?", "founded by", True),
        ("What is Alpha the capital of?", "capital", False),
        ("What is Alpha the capital of?", "capital of", True),
        ("Where did Alpha die?", "place of burial", False),
        ("Who is Alpha's father?", "father", True),
    ],
)
def test_a_relation_of_a_graph_is_the_one_that_is_asked_for(question: str, relation: str, is_plain: bool) -> None:
    assert is_plainly_stated(SoughtFact(question, ("Beta",)), [], [triple("Alpha", relation, "Beta")]) is is_plain


@pytest.mark.parametrize("head", ["O Segredo do Corcunda", "The Accident (film)", "2 Fast 2 Furious", "de Kooning"])
def test_a_head_or_a_title_that_stands_in_the_question_is_its_subject(head: str) -> None:
    fact = SoughtFact(f"Who directed {head}?", ("Ann Lee",))
    assert is_plainly_stated(fact, [], [triple(head, "director", "Ann Lee")])
    assert is_plainly_stated(fact, [passage("It is a film directed by Ann Lee.", head)])
    assert not is_plainly_stated(fact, [], [triple(head.split()[-1], "director", "Ann Lee")])
    assert not is_plainly_stated(fact, [], [triple(f"{head} II", "director", "Ann Lee")])


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


DIRECTED = SoughtFact("Who directed The False Step?", ("Gustaf Gründgens",))


def test_an_answer_rests_on_every_hop_that_is_looked_up() -> None:
    assert answering_facts("?", ["Düsseldorf"], CHAIN) == (DIRECTED, BORN)


def test_a_comparison_rests_on_what_it_compares_and_what_that_rests_on() -> None:
    found = answering_facts("Whose director is older?", ["Alpha"], FILMS)
    assert [(fact.question, fact.names) for fact in found] == [
        ("Who directed Alpha?", ("Ann",)),
        ("Who directed Beta?", ("Bob",)),
        ("When was Ann born?", ("1901",)),
        ("When was Bob born?", ("1902",)),
    ]
    assert compared_hops(FILMS) == (3, 4) and compared_hops(CHAIN) == compared_hops(()) == ()


def test_without_hops_the_whole_question_is_asked_whatever_stands_there() -> None:
    stated = [passage("Gustaf Gründgens was born in Düsseldorf."), passage("Gustaf Gründgens directed The False Step.")]
    (fact,) = unsettled_facts(BORN.question, ["Düsseldorf"], (), stated)
    assert (fact.question, fact.names) == (BORN.question, ("Düsseldorf",))
    assert unsettled_facts("?", ["Düsseldorf"], CHAIN, stated) == ()
    assert unsettled_facts("?", ["Düsseldorf"], CHAIN, stated[:1]) == (DIRECTED,)
