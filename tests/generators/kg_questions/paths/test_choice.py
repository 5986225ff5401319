"""Which paths are taken of those that a graph has: little known ones, and of spare numbers of facts only what lacks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.generators.kg_questions.paths.test_truth import CHAINS, answers, paths, world
from tests.retrieval.kg.support import Ids
from trailforge.generators.kg_questions.paths.config import KgPathConfig
from trailforge.generators.kg_questions.paths.query import Fame, Link, PathNode
from trailforge.generators.kg_questions.paths.sampling import PathSampler
from trailforge.generators.kg_questions.paths.shortage import describe_shortage
from trailforge.schemas import FactChain, InvalidInput

ALONE = replace(CHAINS, hops=(1,), max_per_answer=1, max_attempts=200, excluded=("likes",))


def towns(count: int) -> list[Ids]:
    """In each town one was born who is told of often, and one who is not."""
    born = [(f"{who}{n}", "place of birth", f"town{n}") for n in range(count) for who in ("star", "clerk")]
    return born + [(f"star{n}", "likes", f"thing{each}") for n in range(count) for each in range(5)]


def starts(chains: list[FactChain]) -> Counter[str]:
    return Counter(start.id.rstrip("0123456789") for chain in chains for start in chain.starts)


def test_the_least_known_of_some_paths_is_taken(tmp_path: Path) -> None:
    (tmp_path / "any").mkdir()
    by_chance = starts(paths(tmp_path / "any", towns(30), ALONE, 15))
    least = starts(paths(tmp_path, towns(30), replace(ALONE, choices=12), 15))
    assert by_chance.total() == least.total() == 15
    assert by_chance["star"] >= 4 and least["clerk"] == 15


def test_a_path_that_rests_on_well_known_entities_alone_is_refused_and_counted(tmp_path: Path) -> None:
    sampler = PathSampler(world(tmp_path, towns(30)), replace(ALONE, known_share=0.5), 0)
    chains = list(sampler.sample(60))
    assert starts(chains) == {"clerk": 30} and sampler.rejected["well_known"]
    every = sampler.with_config(replace(ALONE, max_per_answer=9))
    assert starts(list(every.sample(60))) == {"clerk": 30, "star": 30} and not every.rejected["well_known"]


def test_known_by_heart_alone_is_not_asked(tmp_path: Path) -> None:
    triples = [(f"ann{n}", "place of birth", f"town{n}") for n in range(5)]
    triples += [(f"town{n}", "country", f"land{n}") for n in range(5)]
    triples += [(f"land{n}", "continent", f"part{n}") for n in range(5)]
    config = replace(CHAINS, hops=(1, 2), by_heart=("country", "continent"), max_shared=1.0)
    sampler = PathSampler(world(tmp_path, triples), config, 0)
    chains = list(sampler.sample(40))
    asked = {tuple(fact.triple.relation for fact in chain.facts) for chain in chains}
    assert asked == {("place of birth",), ("place of birth", "country")} and sampler.rejected["by_heart"]


def test_what_a_path_rests_on(tmp_path: Path) -> None:
    """Of a chain the least known entity, but for facts that are known by heart; where chains meet, the best known."""
    triples = [("film", "director", "di"), ("di", "born", "town"), ("town", "country", "land"), ("bo", "born", "town"),
               ("film", "cast", "bo"), ("film", "cast", "cy"), ("cy", "cast", "x")]  # fmt: skip
    store = world(tmp_path, triples)
    row, of = store.row, store.relation_row

    def node(name: str, *links: Link) -> PathNode:
        return PathNode(row(name), links)

    film = node("film")
    di = node("di", Link(of("director"), True, film))
    town = node("town", Link(of("born"), True, di))
    fame = Fame(store, {of("country")}, 1.0)
    assert [store.degree_of(row(name)) for name in ("film", "di", "town", "cy")] == [3, 2, 3, 2]
    assert (fame.of(di), fame.of(town)) == (3, 2)
    assert fame.of(node("land", Link(of("country"), True, node("town", Link(of("born"), True, node("bo")))))) == 2
    from_film = node("land", Link(of("country"), True, node("town", Link(of("cast"), True, film))))
    assert fame.of(from_film) == 3 and Fame(store, (), 1.0).of(from_film) == 3
    assert Fame(store, {of("director"), of("born")}, 1.0).of(town) == 3, "only the film has to be known"
    met = node("bo", Link(of("cast"), True, film), Link(of("born"), False, node("town")))
    assert fame.of(met) == 3
    assert fame.most is None and Fame(store, (), 0.5).most == 2


def test_spare_paths_are_taken_where_the_wanted_ones_give_out(tmp_path: Path) -> None:
    triples = [(f"a{n}", "r", f"b{n}") for n in range(20)] + [(f"b{n}", "s", f"c{n}") for n in range(6)]
    config = replace(CHAINS, hops=(2,), spare_hops=(1,))
    chains = paths(tmp_path, triples, config, 15)
    assert [len(chain.facts) for chain in chains] == [2] * 6 + [1] * 9
    (tmp_path / "few").mkdir()
    assert [len(chain.facts) for chain in paths(tmp_path / "few", triples, config, 4)] == [2] * 4
    (tmp_path / "none").mkdir()
    assert len(paths(tmp_path / "none", triples, replace(config, spare_hops=()), 15)) == 6


def test_spare_paths_are_proposed_where_there_are_none(tmp_path: Path) -> None:
    triples = [(f"a{n}", "r", f"b{n}") for n in range(20)] + [(f"b{n}", "s", f"c{n}") for n in range(6)]
    sampler = PathSampler(world(tmp_path, triples), replace(CHAINS, hops=(2,)), 0)
    found = len(list(sampler.sample(15)))
    assert "with `paths: {spare_hops: [1]}` in the preset it gives 15" in describe_shortage(found, sampler, 15)
    spare = sampler.with_config(replace(sampler.config, spare_hops=(1,)))
    assert "spare_hops" not in describe_shortage(len(list(spare.sample(99))), spare, 99)


def test_the_seed_alone_decides_what_is_chosen(tmp_path: Path) -> None:
    sampler = PathSampler(world(tmp_path, towns(20)), replace(ALONE, choices=4, spare_hops=(1,)), 3)
    first, again = list(sampler.sample(12)), list(sampler.with_config(sampler.config).sample(12))
    assert first == again and len(first) == 12


def test_a_city_is_not_in_a_city(tmp_path: Path) -> None:
    triples = [("galata", "located in", "istanbul"), ("galata", "instance of", "city"), ("nice", "located in", "var"),
               ("istanbul", "instance of", "city"), ("nice", "instance of", "city"),
               ("var", "instance of", "state")]  # fmt: skip
    sampler = PathSampler(world(tmp_path, triples), replace(CHAINS, hops=(1,)), 0)
    assert answers(list(sampler.sample(9))) == {"var"} and sampler.rejected["same_kind"]


@pytest.mark.parametrize(("field", "value"), [("choices", 0), ("known_share", 1.5), ("spare_hops", (10,))])
def test_a_wrong_choice_is_named(field: str, value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        KgPathConfig(**{field: value})  # type: ignore[arg-type]
    assert caught.value.field == field
