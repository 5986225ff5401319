"""Paths of five to nine facts: as many as asked for, one answer, and every start that is described told apart."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.retrieval.kg.support import Ids, store_of
from tests.support.kg_worlds import LAX, NAMES
from trailforge.generators.kg_questions.paths.blurring import described_in
from trailforge.generators.kg_questions.paths.config import Form, KgPathConfig
from trailforge.generators.kg_questions.paths.sampling import PathSampler
from trailforge.generators.kg_questions.wording import compose
from trailforge.generators.kg_questions.work import demanded_paths, traits_of_chain
from trailforge.pipelines.sources import Demand, Quota
from trailforge.rewards import mentions
from trailforge.schemas import FactChain, InvalidInput

PEOPLE = [f"{name}{end}" for name in NAMES for end in ("a", "o", "u", "i", "e")]
TRAITS = {f"t{number}": [f"{name}{number}" for name in NAMES[:6]] for number in range(8)}
ENTITIES = [*PEOPLE, *(value for values in TRAITS.values() for value in values)]
RELATIONS = ("leads", "knows", *TRAITS)
LONG = replace(
    LAX, hops=(5, 6, 7), intersections=0.3, max_same=3, max_fan_out=24, max_degree=20, max_attempts=12,
    closed_lists=RELATIONS, closed_heads=RELATIONS, one_head=("leads", "knows"),
)  # fmt: skip


@cache
def random_graph(seed: int) -> list[Ids]:
    """People who lead and know few, and traits that many share."""
    draw = random.Random(seed)
    led = [(one, relation, draw.choice(PEOPLE)) for relation in ("leads", "knows") for one in PEOPLE]
    return led + [(one, name, draw.choice(values)) for one in PEOPLE for name, values in TRAITS.items()]


@cache
def sampled(seed: int, config: KgPathConfig = LONG, count: int = 6) -> list[FactChain]:
    kinds = [(name, "instance of", "T") for name in ENTITIES]
    names = {name: (f"{name} Vale",) for name in ENTITIES} | {"T": ("thing",)}
    with TemporaryDirectory() as folder:
        store = store_of(Path(folder) / "kg", [*random_graph(seed), *kinds], names)
        return list(PathSampler(store, config, 0).sample(count))


def answers_of(chain: FactChain, held: set[Ids], dropped: int | None = None) -> set[str]:
    """Who satisfies the facts, all or all but one: entity after entity tried for each thing that is found."""
    facts = [fact.triple for number, fact in enumerate(chain.facts) if number != dropped]
    found = [node.id for node in chain.found]

    def fits(value: dict[str, str]) -> bool:
        ends = [(value.get(f.head, f.head), f.relation, value.get(f.tail, f.tail)) for f in facts
                if not {f.head, f.tail} & {*found} - value.keys()]  # fmt: skip
        return all(end in held for end in ends)

    partial: list[dict[str, str]] = [{}]
    for node in found:
        partial = [each for known in partial for entity in ENTITIES if fits(each := {**known, node: entity})]
    return {value[chain.answer.id] for value in partial}


@pytest.mark.parametrize("seed", [0, 1])
def test_one_entity_answers_a_long_path_and_each_fact_is_needed(seed: int) -> None:
    held = {*random_graph(seed)}
    for chain in sampled(seed):
        assert len(chain.facts) in LONG.hops and described_in(chain)
        assert len({fact.triple for fact in chain.facts}) == len(chain.facts)
        assert answers_of(chain, held) == {chain.answer.id}
        for number in range(len(chain.facts)):
            assert len(answers_of(chain, held, number)) > 1
        question = compose(chain).question
        assert not any(mentions(question, node.label) for node in chain.found)


def test_the_random_graphs_have_paths_of_these_lengths() -> None:
    """Else what is held of all would be held of none."""
    lengths = Counter(len(chain.facts) for seed in (0, 1) for chain in sampled(seed))
    assert set(lengths) == {5, 6, 7}


def test_a_long_form_counts_every_triple_and_shares_its_length_over_ways() -> None:
    shares = KgPathConfig(hops=(4, 7)).shares
    assert sum(share for form, share in shares.items() if form.hops == 7) == pytest.approx(0.5)
    assert {form.describing for form in shares if form.hops == 4} == {0}
    assert {form.describing for form in shares if form.hops == 7} == {3, 4, 5, 6}
    assert Form(1, (), 6).shape == "intersection_inside" and Form(0, (1, 1), 5).shape == "intersection"
    with pytest.raises(InvalidInput, match="from 1 to 9"):
        KgPathConfig(hops=(10,))


def test_a_quota_of_five_hops_takes_paths_whose_descriptions_count_as_one() -> None:
    config = demanded_paths(LAX, Demand(quotas=(Quota(share=1, hops=5),)))
    assert config.hops == (5, 6, 7, 8, 9)
    chains = [chain for seed in (0, 1) for chain in sampled(seed)]
    traits = [traits_of_chain(each) for each in chains]
    assert all(
        each.is_blurred and (each.hops or 99) < len(chain.facts) for each, chain in zip(traits, chains, strict=True)
    )
    assert any(each.hops == 5 for each in traits)
