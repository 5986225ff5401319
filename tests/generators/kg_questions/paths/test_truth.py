"""Paths that are true of more than the graph: what proves little, is over, is guessed or is odd makes no question."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.retrieval.kg.support import Ids, store_of
from tests.support.kg_worlds import LAX
from trailforge.generators.kg_questions.paths.config import KgPathConfig
from trailforge.generators.kg_questions.paths.graph import Graph, KindReader
from trailforge.generators.kg_questions.paths.sampling import PathSampler
from trailforge.retrieval.kg import KgStore
from trailforge.schemas import FactChain

OURS = KgPathConfig()
TWO = replace(OURS, hops=(2,), intersections=1.0, min_triples=1, max_guess=1.0)
CHAINS = replace(LAX, intersections=0, one_head=())


def world(folder: Path, triples: list[Ids]) -> KgStore:
    """A store in which everything is named as its id is, with a capital letter."""
    ends = {end for head, _, tail in triples for end in (head, tail)}
    return store_of(folder / "kg", triples, {end: (end.capitalize(),) for end in ends})


def paths(folder: Path, triples: list[Ids], config: KgPathConfig, count: int = 9) -> list[FactChain]:
    return list(PathSampler(world(folder, triples), config, 0).sample(count))


def answers(chains: list[FactChain]) -> set[str]:
    return {chain.answer.id for chain in chains}


# Where two chains meet


def test_what_has_many_tails_does_not_meet_in_one(tmp_path: Path) -> None:
    """Two films may share a genre that the graph has of one of them alone."""
    triples = [("alien", "genre", "horror"), ("alien", "genre", "drama"), ("jaws", "genre", "horror"),
               ("jaws", "genre", "thriller"), ("heat", "genre", "drama")]  # fmt: skip
    assert paths(tmp_path, triples, TWO) == []
    assert paths(tmp_path / "lax", triples, replace(TWO, closed_lists=("genre",))) == [], "nor by one relation twice"


def test_a_country_of_today_and_one_of_the_past_are_no_two_facts(tmp_path: Path) -> None:
    triples = [("bologna", "country", "italy"), ("bologna", "country", "papal states"),
               ("calvino", "country of citizenship", "italy"), ("calvino", "country of citizenship", "kingdom"),
               ("rome", "country", "italy"), ("eco", "country of citizenship", "italy"),
               ("x", "country", "kingdom"), ("y", "country of citizenship", "papal states")]  # fmt: skip
    assert paths(tmp_path, triples, TWO) == []


MARRIED: list[Ids] = [
    ("bacall", "spouse", "bogart"), ("bacall", "spouse", "robards"), ("robards", "cause of death", "cancer"),
    ("dean", "cause of death", "cancer"), ("dean", "spouse", "ford"),
]  # fmt: skip


def test_a_list_is_told_apart_only_by_what_the_graph_says_of_all_on_it(tmp_path: Path) -> None:
    """Who died of what is known of one of two husbands: the other may have died of it too."""
    assert "robards" not in answers(paths(tmp_path, MARRIED, TWO))
    (tmp_path / "more").mkdir()
    more = [*MARRIED, ("bogart", "cause of death", "heart failure")]
    (chain,) = (chain for chain in paths(tmp_path / "more", more, TWO) if chain.answer.id == "robards")
    assert [fact.left_without for fact in chain.facts] == [2, 2]


def test_a_value_beside_which_there_may_be_others_tells_nobody_apart(tmp_path: Path) -> None:
    triples = [("trump", "child", "eric"), ("trump", "child", "ivanka"), ("eric", "educated at", "georgetown"),
               ("ivanka", "educated at", "wharton"), ("clinton", "educated at", "georgetown")]  # fmt: skip
    assert paths(tmp_path, triples, TWO) == []


def test_heads_are_a_list_only_where_the_graph_is_said_to_have_them_all(tmp_path: Path) -> None:
    triples = [("heat", "director", "mann"), ("ali", "director", "mann"), ("heat", "cast member", "pacino"),
               ("ali", "cast member", "smith"), ("scarface", "cast member", "pacino")]  # fmt: skip
    assert paths(tmp_path, triples, TWO) == []
    (tmp_path / "whole").mkdir()
    assert answers(paths(tmp_path / "whole", triples, replace(TWO, closed_heads=("director",)))) == {"heat"}


def test_a_fact_that_is_stated_both_ways_is_one(tmp_path: Path) -> None:
    store = world(tmp_path, [("ann", "spouse", "bob"), ("bob", "spouse", "ann"), ("ann", "spouse", "cy")])
    graph, row, spouse = Graph(store, replace(LAX, symmetric=("spouse",))), store.row, store.relation_row("spouse")
    both = {graph.triple(row("ann"), spouse, way, row("bob")) for way in (True, False)}
    assert len(both | {graph.triple(row("bob"), spouse, way, row("ann")) for way in (True, False)}) == 1
    assert graph.triple(row("cy"), spouse, True, row("ann")).text == "Ann | spouse | Cy"


# What is guessed, over, or odd


def test_what_is_guessed_is_no_answer_but_may_be_passed(tmp_path: Path) -> None:
    """One of two continents, and what every other leads to."""
    triples = [(f"land{n}", "continent", f"part{n % 2}") for n in range(20)]
    triples += [(f"town{n}", "river", "ob" if n < 4 else f"stream{n}") for n in range(20)]
    triples += [("ob", "mouth", "sea0"), *((f"stream{n}", "mouth", f"sea{n}") for n in range(4, 20))]
    chains = paths(tmp_path, triples, replace(CHAINS, hops=(1, 2), max_guess=0.1), 60)
    assert not answers(chains) & {"part0", "part1", "ob"} and answers(chains) >= {"stream4", "sea5"}
    assert any(node.id == "ob" for chain in chains for node in chain.bridges)


def test_what_is_over_or_disputed_is_not_asked_for(tmp_path: Path) -> None:
    triples = [(f"x{n}", relation, f"{relation}{n}") for n in range(12)
               for relation in ("head of state", "religion", "parent organization", "director")]  # fmt: skip
    chains = paths(tmp_path, triples, replace(OURS, hops=(1,), max_guess=1.0), 40)
    assert {fact.triple.relation for chain in chains for fact in chain.facts} == {"director"}


def test_what_is_no_more_is_named_and_not_found(tmp_path: Path) -> None:
    triples = [("prussia", "instance of", "historical country"), ("prussia", "instance of", "country"),
               ("italy", "instance of", "country"), ("kant", "lived in", "prussia"), ("eco", "lived in", "italy"),
               ("prussia", "founder", "albert"), ("page", "instance of", "Wikimedia list article"),
               ("kant", "book", "page"), ("eco", "book", "rose")]  # fmt: skip
    chains = paths(tmp_path, triples, replace(CHAINS, hops=(1, 2)), 40)
    assert answers(chains) == {"italy", "rose", "albert"}
    assert {start.id for chain in chains for start in chain.starts} == {"eco", "prussia"}


def test_a_fact_between_kinds_that_the_relation_hardly_joins_is_left_out(tmp_path: Path) -> None:
    triples = [(f"land{n}", "official language", f"tongue{n}") for n in range(60)]
    triples += [(f"land{n}", "instance of", "country") for n in range(60)]
    triples += [("islam", "official language", "arabic"), ("islam", "instance of", "religion")]
    config = replace(CHAINS, hops=(1,), min_kind_share=0.05)
    assert "arabic" not in answers(paths(tmp_path, triples, config, 80))
    (tmp_path / "all").mkdir()
    assert "arabic" in answers(paths(tmp_path / "all", triples, replace(config, min_kind_share=0.0), 80))


def test_a_birthplace_is_no_country(tmp_path: Path) -> None:
    kinds = {"albania": "country", "surrey": "non-metropolitan county", "ticino": "canton of switzerland",
             "tirana": "city", "aarau": "capital of a canton", "essen": "city of the state"}  # fmt: skip
    triples = [(f"who{place}", "place of birth", place) for place in kinds]
    triples += [(place, "instance of", kind) for place, kind in kinds.items()]
    assert answers(paths(tmp_path, triples, replace(CHAINS, hops=(1,)))) == {"tirana", "aarau", "essen"}


def test_a_grave_is_in_no_town(tmp_path: Path) -> None:
    kinds = {
        "glendale": "city of the united states",
        "highgate": "cemetery",
        "agra": "big city",
        "ticino": "canton of x",
    }
    triples = [(f"who{place}", "place of burial", place) for place in kinds]
    triples += [(place, "instance of", kind) for place, kind in kinds.items()]
    assert answers(paths(tmp_path, triples, replace(CHAINS, hops=(1,)))) == {"highgate"}


def test_a_kind_may_not_tell_what_is_found_later(tmp_path: Path) -> None:
    triples = [("ann", "born in", "pune"), ("pune", "instance of", "city of india"), ("pune", "lies in", "india"),
               ("bob", "born in", "lyon"), ("lyon", "instance of", "city"), ("lyon", "lies in", "france")]  # fmt: skip
    assert answers(paths(tmp_path, triples, replace(CHAINS, hops=(2,)))) == {"france"}


def test_the_same_relation_and_the_same_entity_do_not_come_again_and_again(tmp_path: Path) -> None:
    triples = [(f"p{n}", "father", f"p{n + 1}") for n in range(9)]
    assert paths(tmp_path, triples, replace(CHAINS, hops=(3,), max_same=2)) == []
    (tmp_path / "hub").mkdir()
    films = [(f"film{n}", "director", "mann") for n in range(6)] + [
        ("mann", "born in", "chicago"),
        ("ann", "born in", "lyon"),
    ]
    chains = paths(tmp_path / "hub", films, replace(CHAINS, hops=(2,), max_per_found=2))
    assert len(chains) == 2
    (tmp_path / "apart").mkdir()
    shared = paths(tmp_path / "apart", films, replace(CHAINS, hops=(1, 2), max_shared=0.4), 9)
    facts = [fact.triple for chain in shared for fact in chain.facts]
    assert len(facts) == len(set(facts))


# Kinds and roles


def reader(store: KgStore) -> KindReader:
    return KindReader(Graph(store, LAX), OURS)


def test_of_several_classes_a_usual_one_of_few_words_is_the_kind(tmp_path: Path) -> None:
    triples = [(f"town{n}", "instance of", "city") for n in range(30)]
    triples += [(f"town{n}", "instance of", "state or insular area capital") for n in range(40)]
    triples += [("town0", "instance of", "port"), ("istanbul", "instance of", "capital")]
    triples += [(f"town{n}", "instance of", "capital") for n in range(20)]
    store = world(tmp_path, triples)
    kinds = reader(store)
    assert kinds.kind(store.row("town0")) == "City", "one has too few ports to be asked for as such"
    assert kinds.kind(store.row("town35")) == "State or insular area capital"
    assert kinds.kind(store.row("istanbul")) == "Capital" and kinds.kind(store.row("city")) == ""


def test_a_role_is_told_of_who_has_one(tmp_path: Path) -> None:
    store = world(tmp_path, [("ann", "occupation", "actor"), ("ann", "occupation", "writer"),
                             ("bob", "occupation", "actor")])  # fmt: skip
    kinds = reader(store)
    assert (kinds.role(store.row("ann")), kinds.role(store.row("bob"))) == ("", "Actor")


def test_a_thing_with_the_name_of_a_class_is_no_thing(tmp_path: Path) -> None:
    """CoDEx has the class beside the entity."""
    store = store_of(
        tmp_path / "kg",
        [("c:disease", "cause", "x"), ("flu", "instance of", "disease"), ("ann", "cause of death", "q1")],
        {"disease": ("disease",), "q1": ("Disease",), "flu": ("Flu",)},
    )
    kinds = reader(store)
    assert not kinds.is_proper(store.row("q1")) and kinds.is_proper(store.row("flu"))
