"""Sub-queries and answers read from what models write, hostile and cut replies too."""

from __future__ import annotations

import pytest

from tests.support.growth import is_linear
from trailforge.evaluation.agents.free_form import read_final_answer, read_verdict, write_triples
from trailforge.evaluation.agents.graph_search import (
    read_answer_line,
    read_bars,
    read_entities,
    read_evidence,
    read_expanded_triples,
    read_list,
    read_sub_queries,
    read_triples,
    search_of,
    unknown_entities,
    with_names,
)
from trailforge.protocols.turns import Labels

DIRECTED = Labels("Avatar", "directed by", "Entity#1")
BORN = Labels("Entity#1", "born in", "Entity#2")


def test_questions_are_read_in_order_from_json_with_words_around_it() -> None:
    reply = 'Sure:\n```json\n{"Sub-query 1": "Who directed \\"Avatar\\"?",\n "Sub-query 2": "Where was #1 born?"}\n```'
    assert read_sub_queries(reply) == ['Who directed "Avatar"?', "Where was #1 born?"]


@pytest.mark.parametrize("reply", ["", "no idea", '{"Sub-query 1": ["a"]}', '{"Sub-query 1": "cut', '{"x": "y"}'])
def test_what_is_no_decomposition_has_no_questions(reply: str) -> None:
    assert read_sub_queries(reply) == []


def test_triples_are_read_in_brackets_of_either_kind() -> None:
    reply = (
        '{"Sub-query 1": [["Avatar", "directed by", "Entity#1"]], "Sub-query 2": [("Entity#1", "born in", "Entity#2")]}'
    )
    assert read_triples(reply) == [(DIRECTED,), (BORN,)]
    assert read_triples('{"Sub-query 1": [["a", "b"]], "Sub-query 2": "a b c"}') == []


def test_a_list_is_read_from_json_or_python_each_text_once() -> None:
    assert read_list('Queries: ["a b", "c", "a b", ""]') == ["a b", "c"]
    assert read_list("['a b', 'c']") == ["a b", "c"]
    assert read_list('["whole", "cut') == ["whole"]
    assert read_list("nothing is lacking") == []


def test_a_short_answer_is_a_line_or_unknown() -> None:
    assert read_answer_line("\n James Cameron.\nBecause …") == "James Cameron"
    unknown = ("Unknown.", "", " none ", "N/A", "(none)", "No relevant triples found.", "The context does not name it.")
    assert [read_answer_line(text) for text in unknown] == [""] * len(unknown)
    titles = ("No Country for Old Men", "Nothing Compares 2 U", "No", "Not Without My Daughter")
    assert [read_answer_line(text) for text in titles] == [*titles]


def test_evidence_is_triples_alone_each_once() -> None:
    reply = (
        "Sure:\n1. (a | b | c (d)),\n(a | b | c (d))\n(a | b)\n(a | b | )\nNone | of | these\n(e | f | g), (h | i | j)"
    )
    assert read_evidence(reply) == ["(a | b | c (d))", "(e | f | g)", "(h | i | j)"]
    assert read_evidence('[("a", "b", "c"),\n ["d", "e", "f"]]') == ["(a | b | c)", "(d | e | f)"]
    assert [read_evidence(text) for text in ("None", "", "No relevant triples found.", "(none)")] == [[]] * 4


def test_triples_of_further_queries_are_read_in_bars_or_commas_or_as_lists() -> None:
    assert read_bars("(a | b | c)") == read_bars('("a", "b", "c")') == [Labels("a", "b", "c")]
    assert read_bars("(a | b, b | c), (d | e | f)") == [Labels("a", "b, b", "c"), Labels("d", "e", "f")]
    assert [read_bars(text) for text in ("Who?", "(a | b)", "(a, b) is (c)", "(the film of 1992)")] == [[]] * 4
    assert read_expanded_triples('[["a", "b", "c"], ("d", "e", "f")]') == ["(a | b | c)", "(d | e | f)"]
    assert read_expanded_triples('["one", "two", "three"]') == []


def test_the_last_word_is_the_verdict() -> None:
    assert read_verdict("No step is missing. **Yes**")
    assert not read_verdict("Yes, the first claim stands. No.")
    assert not read_verdict("I cannot say; the eyes have it, nothing more.")


def test_entities_are_named_by_line_and_only_those_asked_for() -> None:
    reply = "- Entity#1 = James Cameron\nEntity#2: unknown\nEntity#9 = Rome"
    assert read_entities(reply, [1, 2]) == {1: "James Cameron"}
    assert read_entities("James Cameron", [1]) == {1: "James Cameron"}
    for line in ("**Entity#1** = James Cameron", "- **Entity#1:** James Cameron", "Entity#1 = **James Cameron**"):
        assert read_entities(line, [1]) == {1: "James Cameron"}
    assert read_entities("James Cameron", [1, 2]) == {}
    assert read_entities("It is\nJames Cameron", [1]) == {}
    for reply in ("none", "No entities found.", "Entity#1 =", "Entity#1 = not named in the context"):
        assert read_entities(reply, [1]) == {}


def test_known_names_take_the_place_of_numbers_and_the_rest_stays() -> None:
    named = with_names([DIRECTED, BORN, Labels("Entity#10", "x", "Entity#1")], {1: "James Cameron"})
    assert named == (
        Labels("Avatar", "directed by", "James Cameron"),
        Labels("James Cameron", "born in", "Entity#2"),
        Labels("Entity#10", "x", "James Cameron"),
    )
    assert unknown_entities(named) == [2, 10]
    assert write_triples(named[1:2]) == "(James Cameron | born in | Entity#2)"


def test_what_is_not_known_is_not_searched_for() -> None:
    search = search_of([DIRECTED, BORN])
    assert (search.query, search.entities, search.relations) == (
        "Avatar directed by; born in",
        ("Avatar",),
        ("directed by", "born in"),
    )


@pytest.mark.parametrize(
    "parts",
    [
        ('["', '\\"', ""),
        ("['", "\\'", ""),
        ('"Sub-query 1": [', '["a",', ""),
        ('"Sub-query 1":', "  ", ""),
        ("", "\n\n", "Entity#1"),
        ("", "((", ""),
        ("[", '"\\', ""),
        ("(a | b | c)", " (", ""),
        ("none ", "not ", ""),
        ("(a |", "  ", ")"),
    ],
)
def test_hostile_replies_are_read_in_linear_time(parts: tuple[str, str, str]) -> None:
    """Whatever is repeated between their beginnings and their ends."""
    begin, middle, end = parts
    reads = (read_sub_queries, read_triples, read_list, read_answer_line, read_verdict)
    for read in (*reads, read_evidence, read_bars, read_expanded_triples, read_final_answer, read_entity_one):
        assert is_linear(lambda size: begin + middle * size + end, read, 40_000), read


def read_entity_one(reply: str) -> object:
    return read_entities(reply, [1])
