"""Made-up graphs for paths and questions: random ones, and a small one of films that can be read."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

from tests.retrieval.kg.support import Ids, store_of
from trailforge.generators.kg_questions.paths.config import KgPathConfig
from trailforge.retrieval.kg import KgStore
from trailforge.schemas import FactChain, KgFact, KgNode, KgTriple

NAMES = "Alba Brix Corun Delm Essa Fyrd Gond Haim Ilmo Jask Kerr Lund".split()
RELATIONS = "likes helps follows fears".split()
LAX = KgPathConfig(
    hops=(1, 2, 3, 4), intersections=0.5, max_degree=9, max_fan_out=4, min_functionality=0.0, min_triples=1,
    max_guess=1.0, many_tails=(), closed_lists=tuple(RELATIONS), closed_heads=tuple(RELATIONS),
    one_head=tuple(RELATIONS), symmetric=(), max_per_found=99, max_per_answer=99, max_pair_share=1.0, max_shared=1.0,
    max_same=4, max_attempts=40,
)  # fmt: skip
"""Takes every path that the graph bears out."""

FILMS = {
    "F1": ("Red Dust", "RD"), "F2": ("Blue Rain",), "F3": ("Grey Snow",), "A1": ("Ann Ash",), "A2": ("Bob Birch",),
    "D1": ("Cy Cedar", "C. Cedar"), "D2": ("Di Dogwood",), "T1": ("Elmton",), "T2": ("Firton",), "B1": ("Tall Trees",),
    "W1": ("Gil Gum",), "film": ("film",), "human": ("human",), "year": ("year",), "Y1": ("1951",),
    "Y2": ("1952",), "novel": ("novel",),
    "composer": ("composer",), "city": ("city",),
}  # fmt: skip
FACTS: list[Ids] = [
    ("F1", "instance of", "film"), ("F2", "instance of", "film"), ("F3", "instance of", "film"),
    ("A1", "instance of", "human"), ("A2", "instance of", "human"), ("D1", "instance of", "human"),
    ("D2", "instance of", "human"), ("W1", "instance of", "human"), ("T1", "instance of", "city"),
    ("T2", "instance of", "city"), ("Y1", "instance of", "year"), ("B1", "instance of", "novel"),
    ("D1", "occupation", "composer"),
    ("F1", "director", "D1"), ("F2", "director", "D2"), ("F3", "director", "D1"),
    ("F1", "cast member", "A1"), ("F2", "cast member", "A1"), ("F2", "cast member", "A2"), ("F3", "cast member", "A2"),
    ("D1", "place of birth", "T1"), ("D2", "place of birth", "T2"), ("A1", "place of birth", "T2"),
    ("F1", "based on", "B1"), ("B1", "author", "W1"), ("W1", "place of birth", "T1"),
    ("F1", "year of publication", "Y1"), ("F2", "year of publication", "Y1"), ("F3", "year of publication", "Y2"),
    ("Y2", "instance of", "year"),
]  # fmt: skip


def random_triples(seed: int) -> list[Ids]:
    """About forty triples among `NAMES`, which are ids and labels."""
    rng = random.Random(seed)
    return [(rng.choice(NAMES), rng.choice(RELATIONS), rng.choice(NAMES)) for _ in range(rng.randint(20, 45))]


def random_store(folder: Path, triples: list[Ids]) -> KgStore:
    """A store of them; the names differ from the ids, as a label must."""
    return store_of(folder, triples, {name: (f"{name} Vale",) for name in NAMES})


def film_store(folder: Path) -> KgStore:
    """The graph of films."""
    return store_of(folder, FACTS, FILMS)


def answers_by_trying(
    chain: FactChain, triples: list[Ids], entities: list[str], dropped: int | None = None
) -> set[str]:
    """Who satisfies a chain, by trying every entity in the place of all that is found; without one fact if so told."""
    held = set(triples)
    found = [node.id for node in chain.found]
    facts = [fact.triple for number, fact in enumerate(chain.facts) if number != dropped]
    answers = set()
    for chosen in product(entities, repeat=len(found)):
        value = dict(zip(found, chosen, strict=True))
        ends = [(value.get(fact.head, fact.head), fact.relation, value.get(fact.tail, fact.tail)) for fact in facts]
        if all(end in held for end in ends):
            answers.add(value[found[-1]])
    return answers


def fact(
    head: str, relation: str, tail: str, *, backward: bool = False, left: int = 9, aliases: tuple[str, ...] = ()
) -> KgFact:
    """A fact between entities whose ids are their labels in small letters, followed from its head unless told."""
    known, found = (tail, head) if backward else (head, tail)
    return KgFact(
        triple=KgTriple(
            head=head.lower(), relation=f"R:{relation}", tail=tail.lower(),
            head_label=head, relation_label=relation, tail_label=tail,
        ),
        known=known.lower(), found=found.lower(), relation_aliases=aliases, fan_out=1, left_without=left,
    )  # fmt: skip


def node(label: str, kind: str = "", role: str = "", *aliases: str, matches: int = 1) -> KgNode:
    """An entity whose id is its label in small letters."""
    return KgNode(id=label.lower(), label=label, aliases=aliases, kind=kind, role=role, matches=matches)


def chain_to(answer: KgNode, *facts: KgFact, starts: tuple[KgNode, ...], bridges: tuple[KgNode, ...] = ()) -> FactChain:
    """A chain of such facts."""
    meets = [each.id for each in (*bridges, answer) if sum(one.found == each.id for one in facts) > 1]
    shape = "chain" if not meets else "intersection" if meets == [answer.id] else "intersection_inside"
    return FactChain(id="c", shape=shape, facts=facts, starts=starts, bridges=bridges, answer=answer)


DUST = chain_to(
    node("Elmton", "city", "", "Elm City"),
    fact("Red Dust", "director", "Cy Cedar"),
    fact("Cy Cedar", "place of birth", "Elmton", aliases=("born in",)),
    starts=(node("Red Dust", "film"),),
    bridges=(node("Cy Cedar", "person", "film director", "C. Cedar"),),
)
"""In which city was the director of the film Red Dust born?"""
