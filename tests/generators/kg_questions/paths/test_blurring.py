"""Starts that are described: by facts that are true of one entity alone, none of them needless, and never by name."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.retrieval.kg.support import Ids, store_of
from tests.support.kg_worlds import LAX, NAMES, RELATIONS, answers_by_trying
from trailforge.generators.kg_questions.paths.blurring import count_hops, described_in
from trailforge.generators.kg_questions.paths.config import KgPathConfig
from trailforge.generators.kg_questions.paths.sampling import PathSampler
from trailforge.generators.kg_questions.wording import compose
from trailforge.generators.kg_questions.work import demanded_paths, sample_by_quota, traits_of_chain
from trailforge.pipelines.sources import Demand, Quota
from trailforge.retrieval.kg import KgStore, build_kg, open_source
from trailforge.rewards import mentions
from trailforge.schemas import FactChain, InvalidInput, KgNode

BLURRED = replace(LAX, hops=(1, 2), intersections=0.0, blurred=1.0)
PEOPLE = [f"{name}{end}" for name in NAMES for end in ("a", "o")]
KINDS: list[Ids] = [(name, "instance of", "T") for name in PEOPLE]


def random_graph(seed: int) -> list[Ids]:
    """Facts of many with few: what some share is shared by several."""
    draw = random.Random(seed)
    few = PEOPLE[:8]
    return [(one, relation, draw.choice(few)) for one in PEOPLE for relation in RELATIONS if draw.random() < 0.7]


def sampled(triples: list[Ids], config: KgPathConfig = BLURRED, count: int = 12) -> list[FactChain]:
    names = {name: (f"{name} Vale",) for name in PEOPLE} | {"T": ("thing",)}
    with TemporaryDirectory() as folder:
        store = store_of(Path(folder) / "kg", [*triples, *KINDS], names)
        return list(PathSampler(store, config, 0).sample(count))


def satisfying(chain: FactChain, start: KgNode, held: set[Ids], entities: list[str], left_out: int | None) -> set[str]:
    """Entities of which all facts of a description are held, but for one of them."""
    facts = [fact.triple for number, fact in enumerate(chain.leading_to(start)) if number != left_out]
    found = set()
    for each in entities:
        ends = [
            (each if f.head == start.id else f.head, f.relation, each if f.tail == start.id else f.tail) for f in facts
        ]
        if all(end in held for end in ends):
            found.add(each)
    return found


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000))
def test_a_description_is_true_of_one_entity_alone_and_has_no_needless_fact(seed: int) -> None:
    """By trying every entity of a random graph, for the description and for the whole question."""
    triples = random_graph(seed)
    for chain in sampled(triples):
        for start in described_in(chain):
            facts = chain.leading_to(start)
            assert len(facts) in (2, 3) and satisfying(chain, start, {*triples}, PEOPLE, None) == {start.id}
            for number in range(len(facts)):
                assert len(satisfying(chain, start, {*triples}, PEOPLE, number)) > 1
            wording = compose(chain)
            assert not mentions(wording.question, start.label) and mentions(wording.question, "thing")
            assert answers_by_trying(chain, triples, PEOPLE) == {chain.answer.id}


def test_the_random_graphs_of_these_tests_have_descriptions() -> None:
    """Else what is held of all would be held of none."""
    assert sum(bool(described_in(chain)) for seed in range(6) for chain in sampled(random_graph(seed))) > 6


def test_as_many_paths_are_blurred_as_are_asked_for() -> None:
    for share in (0.0, 0.25):
        chains = [each for seed in range(3) for each in sampled(random_graph(seed), replace(BLURRED, blurred=share))]
        assert sum(bool(described_in(each)) for each in chains) == pytest.approx(share * len(chains), abs=3)
    with pytest.raises(InvalidInput, match="from 0 to 1"):
        KgPathConfig(blurred=2)


def test_descriptions_keep_to_the_bound_on_pairs_of_relations() -> None:
    config = replace(BLURRED, max_pair_share=0.05)
    per_graph = [sampled(random_graph(seed), config, 20) for seed in range(6)]
    assert any(described_in(each) for chains in per_graph for each in chains)
    for chains in per_graph:
        pairs = Counter(
            pair for each in chains for pair in {*combinations(sorted(fact.triple.relation for fact in each.facts), 2)}
        )
        assert max(pairs.values(), default=0) <= 3


FILMS: list[Ids] = [
    ("alien", "director", "scott"), ("blade", "director", "scott"), ("alien", "genre", "horror"),
    ("jaws", "genre", "horror"), ("jaws", "director", "spiel"), ("alien", "composer", "gold"),
    ("blade", "composer", "vang"), ("jaws", "composer", "will"),
    *((film, "instance of", "film") for film in ("alien", "blade", "jaws")),
]  # fmt: skip
OPEN = replace(
    BLURRED,
    hops=(1,),
    closed_heads=(),
    closed_lists=(),
    one_head=("composer",),
    many_tails=(),
    excluded=("instance of",),
)


@pytest.mark.parametrize(
    ("more", "is_told"),
    [
        ([], False),
        ([("blade", "genre", "thriller")], True),
        ([("blade", "sequel", "x")], False),
    ],
)
def test_who_lacks_a_fact_is_not_ruled_out_by_that(tmp_path: Path, more: list[Ids], is_told: bool) -> None:
    """Of Scott's films the one of horror: only where the graph knows the genre of his other film."""
    triples = [*FILMS, *more]
    names = {end: (end.capitalize(),) for head, _, tail in triples for end in (head, tail)}
    chains = list(PathSampler(store_of(tmp_path / "kg", triples, names), OPEN, 0).sample(20))
    told = {
        start.id: {f.triple.tail for f in each.leading_to(start)} for each in chains for start in described_in(each)
    }
    assert ("alien" in told) == is_told
    assert not is_told or told["alien"] == {"scott", "horror"}


def test_quotas_ask_for_starts_that_are_described_and_for_named_ones() -> None:
    quotas = (Quota(share=1, hops=2, blurred=True), Quota(share=1, hops=1, blurred=False))
    demand = Demand(quotas=quotas)
    config = demanded_paths(replace(BLURRED, blurred=0.0), demand)
    assert config.hops == (1,) and config.blurred == 0.5
    names = {name: (f"{name} Vale",) for name in PEOPLE} | {"T": ("thing",)}
    with TemporaryDirectory() as folder:
        store = store_of(Path(folder) / "kg", [*random_graph(2), *KINDS], names)
        found = list(sample_by_quota(PathSampler(store, config, 0), demand, 6))
    traits = [traits_of_chain(each) for each in found]
    assert {(each.hops, each.is_blurred) for each in traits} == {(2, True), (1, False)}
    assert all(each.shape == "chain" for each in traits)
    assert [count_hops(each) for each in found] == [each.hops for each in traits]


def test_descriptions_of_codex_are_true_of_one_entity_of_its_triples(data_dir: Path, tmp_path: Path) -> None:
    """Told from the published triples, without the store."""
    import pyarrow.parquet as pq

    source = data_dir / "kg" / "codex_labelled_triples.parquet"
    files: dict[str, Any] = {name: [data_dir / "kg" / f"codex_{name}.jsonl.gz"] for name in ("entities", "relations")}
    build_kg(open_source(source, **files), tmp_path / "kg")
    config = KgPathConfig(hops=(1, 2), intersections=0.0, blurred=1.0, max_pair_share=1.0)
    chains = list(PathSampler(KgStore.open(tmp_path / "kg"), config, 1).sample(60))
    rows = pq.read_table(source).to_pylist()
    heads, tails = defaultdict[tuple[str, str], set[str]](set), defaultdict[tuple[str, str], set[str]](set)
    for row in rows:
        heads[row["relation"], row["tail"]].add(row["head"])
        tails[row["head"], row["relation"]].add(row["tail"])
    described = [(chain, start) for chain in chains for start in described_in(chain)]
    assert len(described) >= 8
    for chain, start in described:
        sharing = [
            heads[f.triple.relation, f.triple.tail]
            if f.triple.head == start.id
            else tails[f.triple.head, f.triple.relation]
            for f in chain.leading_to(start)
        ]
        assert set.intersection(*sharing) == {start.id}, [fact.triple.text for fact in chain.facts]
        assert all(len(each) > 1 for each in sharing) and not mentions(compose(chain).question, start.label)
