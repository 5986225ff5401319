"""Sampled paths against trying all entities of small random graphs; hubs, shortcuts, names and seeds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.retrieval.kg.support import Ids, store_of
from tests.support.kg_worlds import LAX, NAMES, answers_by_trying, film_store, random_store, random_triples
from trailforge.generators.kg_questions.paths.config import KgPathConfig, share_out
from trailforge.generators.kg_questions.paths.facts import Edge, Facts, Incoming
from trailforge.generators.kg_questions.paths.graph import Graph
from trailforge.generators.kg_questions.paths.query import Link, Named, PathNode, answers, left_without
from trailforge.generators.kg_questions.paths.sampling import PathSampler
from trailforge.generators.kg_questions.paths.shortage import REFUSALS
from trailforge.generators.kg_questions.wording import compose
from trailforge.retrieval.kg import KgStore
from trailforge.rewards import mentions
from trailforge.schemas import FactChain, InvalidInput

FEW = settings(max_examples=5, deadline=None)


def sampled(triples: list[Ids], config: KgPathConfig = LAX, seed: int = 0, count: int = 8) -> list[FactChain]:
    with TemporaryDirectory() as folder:
        return list(PathSampler(random_store(Path(folder) / "kg", triples), config, seed).sample(count))


def namesakes_in(store: KgStore) -> Named:
    return lambda row: store.namesakes(store.label_of(row))


@FEW
@given(st.integers(0, 10_000))
def test_paths_are_as_counted_of_fit_entities_and_well_asked(seed: int) -> None:
    """Counts are those of trying every entity; no hub, no way back, no shortcut, nobody twice; no bridge is named."""
    triples = random_triples(seed)
    known = sorted({end for head, _, tail in triples for end in (head, tail)} | set(NAMES))
    degree = Counter(end for head, _, tail in set(triples) for end in (head, tail))
    joined = {frozenset((head, tail)) for head, _, tail in triples}
    for chain in sampled(triples):
        assert answers_by_trying(chain, triples, known) == {chain.answer.id}
        assert _wrong_counts(chain, triples, known) == []
        _hold_entities(chain, degree, joined)
        wording = compose(chain)
        assert not any(mentions(wording.question, node.label) for node in chain.found)
        assert all(mentions(wording.question, node.label) for node in chain.starts)
        assert wording.question.endswith("?") and len(wording.sub_questions) == len(chain.found)


def test_the_random_graphs_of_these_tests_have_paths() -> None:
    """Else what is held of every path would be held of none."""
    assert all(sampled(random_triples(seed)) for seed in range(5))


def _wrong_counts(chain: FactChain, triples: list[Ids], known: list[str]) -> list[str]:
    """Counts of a path that are not those of trying every entity."""
    wrong = [f"{node.id} matches {node.matches}" for node in chain.found if node.matches != 1]
    for number, fact in enumerate(chain.facts):
        left = answers_by_trying(chain, triples, known, dropped=number)
        if chain.answer.id not in left or not len(left) == fact.left_without >= 2:
            wrong.append(f"without fact {number}: {fact.left_without}, by trying {sorted(left)}")
    return wrong


def _hold_entities(chain: FactChain, degree: Counter[str], joined: set[frozenset[str]]) -> None:
    nodes = [*chain.starts, *chain.found]
    assert len({node.id for node in nodes}) == len(nodes)
    assert all(degree[node.id] <= LAX.max_degree for node in chain.found)
    assert all(fact.fan_out <= LAX.max_fan_out for fact in chain.facts)
    after = {fact.known: fact for fact in chain.facts}
    for fact in chain.facts:
        following = after.get(fact.found)
        if following is not None:
            turned = fact.is_forward != following.is_forward
            assert not (turned and fact.triple.relation == following.triple.relation)
            assert frozenset((fact.known, following.found)) not in joined


def test_where_two_facts_meet_the_graph_says_more_of_all_others_on_the_list() -> None:
    likes = replace(LAX, hops=(2,), intersections=1.0, closed_lists=("likes",), closed_heads=())
    found = 0
    for seed in range(40):
        triples = set(random_triples(seed))
        for chain in sampled(sorted(triples), likes):
            found += 1
            listed = next(fact for fact in chain.facts if fact.triple.relation == "likes" and fact.is_forward)
            (other,) = (fact for fact in chain.facts if fact is not listed)
            assert other.triple.relation != "likes"
            rivals = {t for h, r, t in triples if (h, r) == (listed.known, "likes")} - {chain.answer.id}
            end = 2 if other.is_forward else 0
            assert rivals <= {triple[end] for triple in triples if triple[1] == other.triple.relation}
    assert found >= 10


def test_the_seed_decides() -> None:
    triples = random_triples(3)
    first, again, other = sampled(triples), sampled(triples), sampled(triples, seed=1)
    assert first == again != other
    assert len({chain.id for chain in first}) == len(first)


def test_every_shape_is_found_and_relations_take_turns() -> None:
    chains = [chain for seed in range(3) for chain in sampled(random_triples(seed), count=30)]
    assert {(chain.shape, len(chain.facts)) for chain in chains} >= {
        ("chain", 1), ("chain", 2), ("chain", 3), ("intersection", 2), ("intersection", 3), ("intersection_inside", 3),
    }  # fmt: skip
    used = Counter(fact.triple.relation for chain in chains for fact in chain.facts)
    assert max(used.values()) < 2 * min(used.values())


def test_a_relation_that_seldom_gives_a_path_keeps_up(tmp_path: Path) -> None:
    """Four of five things that `b` leads to have no name, so that it gives a path for every fifth of `a`."""
    triples = [(f"h{n}", "a", f"t{n}") for n in range(200)] + [(f"x{n}", "b", f"y{n}") for n in range(200)]
    names = {end: (f"Name {end}",) for head, _, tail in triples for end in (head, tail)}
    names = {end: name for end, name in names.items() if end[0] != "y" or int(end[1:]) % 5 == 0}
    config = replace(LAX, hops=(1,), one_head=())
    store = store_of(tmp_path / "kg", triples, names)
    chains = [chain for seed in range(3) for chain in PathSampler(store, config, seed).sample(40)]
    assert len(chains) == 120
    assert sum(chain.facts[0].triple.relation == "b" for chain in chains) >= 36, "drawn blindly they are 17"


@pytest.mark.parametrize("count", [1, 7, 60])
def test_all_numbers_of_facts_have_equal_shares(count: int) -> None:
    shares = KgPathConfig(hops=(1, 2, 3, 4), intersections=0.4).shares
    assert sum(shares.values()) == pytest.approx(1)
    asked = share_out(shares, count)
    assert asked.total() == count
    by_hops, met = Counter[int](), Counter[bool]()
    for form, number in asked.items():
        by_hops[form.hops] += number
        met[bool(form.branches)] += number
    assert max(by_hops.values()) - min(by_hops[hops] for hops in (1, 2, 3, 4)) <= max(1, count // 20)
    if count == 60:
        assert {(form.shape, form.hops) for form in asked} == {
            ("chain", 1), ("chain", 2), ("chain", 3), ("chain", 4), ("intersection", 2), ("intersection", 3),
            ("intersection", 4), ("intersection_inside", 3), ("intersection_inside", 4),
        }  # fmt: skip
        assert met[True] == pytest.approx(0.4 * 45, abs=2)


@FEW
@given(st.integers(0, 10_000))
def test_facts_of_a_graph_are_those_of_reading_every_entity(seed: int) -> None:
    with TemporaryDirectory() as folder:
        store = random_store(Path(folder) / "kg", random_triples(seed))
        graph = Graph(store, replace(LAX, symmetric=("helps",)))
        edges = [Edge(relation, way) for relation in range(len(store.relation_names)) for way in (True, False)]
        for least, most in ((1, 1), (2, 3)):
            facts = Facts.of(graph, edges, least, most)
            found = {(row, facts[place]) for row in range(len(store)) for place in facts.leading_to(row)}
            expected = {
                (row, Incoming(edge, child))
                for child in range(len(store))
                for edge in edges
                for reached in [graph.reached(child, *edge).tolist()]
                if least <= len(reached) <= most
                for row in reached
            }
            assert found == expected and len(facts) == len(expected)
            assert sorted(np.concatenate([*facts.places_of.values(), []])) == list(range(len(facts)))


@FEW
@given(st.integers(0, 10_000))
def test_answers_differ_and_no_pair_of_relations_is_in_most(seed: int) -> None:
    config = replace(LAX, hops=(2, 3), max_per_answer=1, max_pair_share=0.05)
    chains = sampled(random_triples(seed), config, count=20)
    assert len({chain.answer.label for chain in chains}) == len(chains)
    assert _most_of_one_pair(chains) <= 3


def test_without_these_bounds_they_do() -> None:
    """Else what is held of every path would be held without a rule."""
    several = [sampled(random_triples(seed), replace(LAX, hops=(2, 3)), count=20) for seed in range(3)]
    assert all(len({chain.answer.label for chain in chains}) < len(chains) for chains in several)
    assert all(_most_of_one_pair(chains) > 3 for chains in several)


def _most_of_one_pair(chains: list[FactChain]) -> int:
    pairs = Counter(
        pair
        for chain in chains
        for pair in {tuple(sorted(two)) for two in combinations([f.triple.relation for f in chain.facts], 2)}
    )
    return max(pairs.values(), default=0)


def test_every_attempt_that_gives_none_is_counted_with_a_known_reason() -> None:
    for seed in range(5):
        with TemporaryDirectory() as folder:
            store = random_store(Path(folder) / "kg", random_triples(seed))
            sampler = PathSampler(store, replace(KgPathConfig(min_triples=1, max_attempts=50), hops=(1, 2)), 0)
            list(sampler.sample(50))
            assert sampler.rejected and set(sampler.rejected) <= set(REFUSALS)


def test_a_form_that_the_graph_lacks_leaves_its_share_to_others(tmp_path: Path) -> None:
    triples = [(f"a{n}", "r", f"b{n}") for n in range(20)] + [(f"b{n}", "s", f"c{n}") for n in range(8)]
    names = {end: (f"Name {end}",) for triple in triples for end in (triple[0], triple[2])}
    config = replace(LAX, hops=(1, 2, 3), intersections=0.5, one_head=(), max_shared=0.0, max_attempts=200)
    chains = list(PathSampler(store_of(tmp_path / "kg", triples, names), config, 0).sample(12))
    assert Counter((chain.shape, len(chain.facts)) for chain in chains) == {("chain", 1): 6, ("chain", 2): 6}


def test_one_entity_is_not_two_constraints(tmp_path: Path) -> None:
    """Who directed a film and acted in it is one start, whatever the graph says of other films."""
    triples = [("p1", "director", "d"), ("p2", "director", "d"), ("p1", "cast", "d"), ("p3", "cast", "d")]
    store = store_of(tmp_path / "kg", triples, {id: (f"Name {id}",) for id in ("p1", "p2", "p3", "d")})
    assert list(PathSampler(store, replace(LAX, hops=(2,), intersections=1.0), 0).sample(3)) == []


def test_a_start_that_says_what_is_to_be_found_is_left_out(tmp_path: Path) -> None:
    triples = [("c1", "country", "m"), ("c2", "country", "m"), ("c3", "country", "p")]
    names = {"c1": ("Mexico City",), "c2": ("Puebla",), "c3": ("Lima",), "m": ("Mexico",), "p": ("Peru",)}
    chains = PathSampler(store_of(tmp_path / "kg", triples, names), replace(LAX, hops=(1,), one_head=()), 0).sample(9)
    assert {chain.starts[0].label for chain in chains} == {"Puebla", "Lima"}


def test_a_start_that_has_another_name_of_what_is_to_be_found_is_left_out(tmp_path: Path) -> None:
    triples = [("a", "in", "p"), ("b", "in", "m"), ("c", "in", "u")]
    names = {"a": ("St. Petersburg Academy",), "p": ("Saint Petersburg", "St. Petersburg"), "b": ("Bolshoi",),
             "m": ("Moscow",), "c": ("Focus Museum",), "u": ("United States", "us")}  # fmt: skip
    chains = PathSampler(store_of(tmp_path / "kg", triples, names), replace(LAX, hops=(1,), one_head=()), 0).sample(9)
    assert {chain.starts[0].label for chain in chains} == {"Bolshoi", "Focus Museum"}


def test_a_bridge_that_says_what_is_to_be_found_is_left_out(tmp_path: Path) -> None:
    """Who stops at the son has the father's name."""
    triples = [("b1", "author", "son"), ("son", "father", "f1"), ("b2", "author", "p"), ("p", "father", "f2")]
    names = {"b1": ("Ay",), "b2": ("Bee",), "son": ("Al Alder",), "f1": ("Al Alder",), "p": ("Jo",), "f2": ("Bo",)}
    sampler = PathSampler(
        store_of(tmp_path / "kg", triples, names), replace(LAX, hops=(2,), intersections=0, one_head=()), 0
    )
    assert [chain.answer.label for chain in sampler.sample(5)] == ["Bo"] and sampler.rejected["told"]


def test_two_of_a_name_are_both_taken_for_the_start(tmp_path: Path) -> None:
    triples = [("p1", "director", "d1"), ("p2", "director", "d2"), ("p3", "director", "d3")]
    names = {"p1": ("Hamlet",), "p2": ("Twelfth Night", "hamlet"), "p3": ("Othello",)}
    store = store_of(tmp_path / "kg", triples, names | {f"d{n}": (f"Director {n}",) for n in (1, 2, 3)})
    graph, row, relation = Graph(store, LAX), store.row, store.relation_row("director")
    named = namesakes_in(store)
    link = Link(relation, True, PathNode(row("p1")))
    assert answers(graph, PathNode(row("d1"), (link,)), named).tolist() == [row("d1"), row("d2")]  # type: ignore[union-attr]
    chains = list(PathSampler(store, replace(LAX, hops=(1,), one_head=()), 0).sample(10))
    assert {chain.starts[0].label for chain in chains} == {"Twelfth Night", "Othello"}


def test_a_fact_that_can_be_spared_is_counted_as_such(tmp_path: Path) -> None:
    """Only one film was made by the director; that it has an actor adds nothing."""
    store = film_store(tmp_path / "kg")
    graph, row, relation = Graph(store, LAX), store.row, store.relation_row
    by_director = Link(relation("director"), False, PathNode(row("D2")))
    with_actor = Link(relation("cast member"), False, PathNode(row("A1")))
    root = PathNode(row("F2"), (by_director, with_actor))
    named = namesakes_in(store)
    counts = [left_without(graph, root, each, named, most_counted=9, most=99) for each in root.links]
    assert counts == [2, 1]


def test_a_frontier_that_is_too_broad_is_no_answer(tmp_path: Path) -> None:
    store = film_store(tmp_path / "kg")
    root = PathNode(store.row("F1"), (Link(store.relation_row("director"), False, PathNode(store.row("D1"))),))
    assert answers(Graph(store, LAX), root, namesakes_in(store), most=1) is None


def test_years_and_kinds_are_not_passed_and_roles_are_read(tmp_path: Path) -> None:
    config = replace(LAX, one_head=("director", "cast member", "based on", "year of publication", "place of birth"),
                     closed_heads=("cast member",))  # fmt: skip
    sampler = PathSampler(film_store(tmp_path / "kg"), config, 0)
    chains = list(sampler.sample(30))
    nodes = [node for chain in chains for node in (*chain.starts, *chain.found)]
    assert {fact.triple.relation for chain in chains for fact in chain.facts} & {"instance of", "occupation"} == set()
    assert not any(node.label == "1951" for chain in chains for node in chain.bridges)
    assert any(node.label == "1951" for chain in chains for node in chain.starts)
    roles = {
        (any(fact.triple.relation == "director" and fact.triple.tail == "D1" for fact in chain.facts), node.role)
        for chain in chains
        for node in (*chain.starts, *chain.found)
        if node.id == "D1"
    }
    assert roles == {(True, ""), (False, "composer")}, "he is a director there"
    assert {node.kind for node in nodes if node.label == "Cy Cedar"} == {"person"}
    assert sampler.rejected["no_path"] and set(sampler.rejected) <= {
        "no_path", "not_unique", "not_ruled_out", "shortcut", "spare_fact", "told", "repeated", "fan_out", "passed_end",
        "turns_back",
    }  # fmt: skip


def test_symmetric_relations_are_read_both_ways(tmp_path: Path) -> None:
    triples = [("a", "borders", "b"), ("c", "borders", "a"), ("c", "borders", "d")]
    graph = Graph(store_of(tmp_path / "kg", triples), replace(LAX, symmetric=("borders",)))
    row, borders = graph.store.row, graph.store.relation_row("borders")
    assert graph.reached(row("a"), borders, True).tolist() == sorted((row("b"), row("c")))
    assert graph.triple(row("a"), borders, True, row("c")).text == "c | borders | a"
    assert graph.num_sources(borders, True) == 4 and graph.num_triples(borders, True) == 6


def test_a_graph_without_the_form_ends(tmp_path: Path) -> None:
    store = store_of(tmp_path / "kg", [("a", "r", "b")], {"a": ("Ay",), "b": ("Bee",)})
    assert list(PathSampler(store, replace(LAX, hops=(4,), max_attempts=2), 0).sample(5)) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [("hops", ()), ("hops", (10,)), ("intersections", 1.1), ("min_functionality", -1.0), ("max_fan_out", 1),
     ("max_counted", 1), ("max_degree", 0), ("max_guess", 2.0), ("max_shared", -0.1), ("max_same", 0)],
)  # fmt: skip
def test_a_wrong_setting_is_named(field: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        KgPathConfig(**{field: value})  # type: ignore[arg-type]
    assert caught.value.field == field
