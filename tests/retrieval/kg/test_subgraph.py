"""The triples around entities: which, in what order, how many; and the tool that joins it with matching."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.retrieval.kg.support import Ids, store_of
from trailforge.retrieval.kg import KgStore, KgTool, KgToolConfig, SubgraphLimits, find_subgraph
from trailforge.schemas import InvalidInput, estimate_tokens

HUB = [("hub", "P1", f"a{n}") for n in range(700)] + [(f"b{n}", "P2", "hub") for n in range(700)]
HUB += [("hub", f"R{n}", "a0") for n in range(20)] + [("lone", "P2", "hub")]
HUB += [("z", "P1", f"a{n}") for n in range(600)] + [("hub", "P1", "z")]
HUB_NAMES = {"hub": ["Hub"]} | {f"{side}{n}": [f"{side}{n}"] for n in range(700) for side in "ab"}
HUB_NAMES |= {"a555": ["Needle in hay"], "lone": ["Lone"], "b600": ["Far away", "Distant"], "z": ["Other hub"]}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> KgStore:
    """A store with an entity of over a thousand triples."""
    return store_of(tmp_path_factory.mktemp("hub") / "store", HUB, HUB_NAMES)


def lines(store: KgStore, entities: list[str], *phrases: str) -> list[str]:
    return [triple.text for triple in find_subgraph(store, entities, phrases)]


def test_both_directions_and_the_asked_relation_first(store: KgStore) -> None:
    found = lines(store, ["Q5"], "Paris", "capital city")
    assert found[0] == "France | capital | Paris"
    assert sorted(found[1:]) == ["Paris | country | France", "Paris | country | Paris"]
    assert sorted(lines(store, ["Q4"], "who")) == [
        "Albert Einstein | employer | Princeton University",
        "Marie Curie | employer | Princeton University",
    ]
    assert lines(store, ["Q4"], "Marie Curie")[0] == "Marie Curie | employer | Princeton University"


def test_no_triple_comes_twice(store: KgStore) -> None:
    found = lines(store, ["Q1", "Q2", "Q1"], "born")
    assert len(found) == len(set(found)) == 3
    assert found[0] == "Albert Einstein | place of birth | Ulm"


def test_an_entity_without_triples_and_no_entity(store: KgStore) -> None:
    assert lines(store, ["Q12"], "x") == [] == lines(store, [], "x")
    with pytest.raises(InvalidInput, match="no entity 'Q13'"):
        find_subgraph(store, ["Q13"])


@pytest.mark.parametrize("limits", [(1, 1024), (100, 1024), (100, 20), (1000, 100_000), (7, 1)])
def test_limits_hold_and_are_used(hub: KgStore, limits: tuple[int, int]) -> None:
    most = SubgraphLimits(max_triples=limits[0], max_tokens=limits[1])
    triples = find_subgraph(hub, ["hub"], ["needle"], most)
    everything = find_subgraph(hub, ["hub"], ["needle"], SubgraphLimits(max_triples=10**6, max_tokens=10**9))
    tokens = sum(estimate_tokens(triple.text + "\n") for triple in triples)
    assert len(triples) <= most.max_triples and tokens <= most.max_tokens
    assert triples == everything[: len(triples)]
    if len(triples) < min(most.max_triples, len(everything)):
        following = everything[len(triples)]
        assert tokens + estimate_tokens(following.text + "\n") > most.max_tokens


def test_tokens_are_counted_by_who_is_given(hub: KgStore) -> None:
    limits = SubgraphLimits(max_tokens=10)
    assert len(find_subgraph(hub, ["hub"], (), limits, lambda text: 5)) == 2
    assert find_subgraph(hub, ["hub"], (), limits, lambda text: 11) == []


@pytest.mark.parametrize("name", ["max_triples", "max_tokens"])
def test_a_limit_below_one_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        SubgraphLimits(**{name: 0})


def test_a_hub_shows_each_relation_and_what_is_asked_for(hub: KgStore) -> None:
    """Of 1,400 triples: the neighbour of a wanted name, the links to other entities, and every relation."""
    assert lines(hub, ["hub"], "needle")[0] == "Hub | P1 | Needle in hay"
    assert lines(hub, ["hub", "lone"], "Lone")[0] == "Lone | P2 | Hub"
    assert lines(hub, ["hub", "b600"], "distant")[0] == "Far away | P2 | Hub"
    assert lines(hub, ["hub"], "R7")[0] == "Hub | R7 | a0"
    shown = {line.split(" | ")[1] for line in lines(hub, ["hub"])}
    assert shown == {"P1", "P2"} | {f"R{n}" for n in range(20)}


def test_the_link_between_two_hubs_is_found_without_their_names(hub: KgStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when their names have words that too many names have."""
    monkeypatch.setattr(import_module("trailforge.retrieval.kg.subgraph"), "_MOST_NAMES", 0)
    for entities in (["hub", "z"], ["z", "hub"]):
        assert lines(hub, entities, "other")[0] == "Hub | P1 | Other hub"


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(*[st.sampled_from("abcdef")] * 3), min_size=1, max_size=40),
    st.lists(st.sampled_from("abcdefg"), max_size=3),
)
def test_all_triples_of_the_entities_and_none_else(triples: list[Ids], phrases: list[str]) -> None:
    """Without limits that bind; ranked by shared words of relation and other end."""
    with tempfile.TemporaryDirectory() as folder:
        store = store_of(Path(folder) / "store", triples)
        entity = triples[0][0]
        found = [(t.head, t.relation, t.tail) for t in find_subgraph(store, [entity], phrases)]
        assert sorted(found) == sorted({t for t in triples if entity in (t[0], t[2])})
        wanted = set(phrases) - {"a"}  # a function word
        ends = [(relation, {head, tail} - {entity}) for head, relation, tail in found]
        shared = [len(wanted & {relation, *others}) for relation, others in ends]
        assert shared == sorted(shared, reverse=True)


def test_the_tool_joins_matching_and_ranking(store: KgStore) -> None:
    result = KgTool(store).search(["Albrt Einstein", "nobody at all"], ["birthplace"], "Where was Einstein born?")
    assert [m.matches[0].entity_id if m.matches else None for m in result.entities] == ["Q1", None]
    assert [m.mention for m in result.entities] == ["Albrt Einstein", "nobody at all"]
    assert result.triples[0].text == "Albert Einstein | place of birth | Ulm"
    assert all("Q1" in (t.head, t.tail) for t in result.triples)


def test_namesakes_are_searched_while_they_are_near_and_not_too_many(store: KgStore) -> None:
    for config, searched in (
        (KgToolConfig(), 3),
        (KgToolConfig(entities_per_mention=2), 2),
        (KgToolConfig(max_behind=0.0), 2),
        (KgToolConfig(entities_per_mention=1), 1),
    ):
        (found,) = KgTool(store, config).search(["Paris"]).entities
        assert (found.searched, len(found.matches)) == (searched, 3)
    one = KgTool(store, KgToolConfig(entities_per_mention=1)).search(["Paris"])
    assert {t.head for t in one.triples} == {"Q5", "Q7"}
    assert {t.head for t in KgTool(store).search(["Paris"]).triples} == {"Q5", "Q6", "Q7"}
    assert [each.searched for each in KgTool(store).search(["nobody at all"]).entities] == [0]


def test_triples_are_ranked_by_mention_and_relation_and_by_the_sub_query_where_none_is_named(store: KgStore) -> None:
    tool, query = KgTool(store), "Which country is the university of the employer in?"
    asked = tool.search(["Albert Einstein"], ["place of birth"], query)
    assert asked.triples[0].text == "Albert Einstein | place of birth | Ulm"
    unsaid = tool.search(["Albert Einstein"], [], query)
    assert unsaid.triples[0].text == "Albert Einstein | employer | Princeton University"
