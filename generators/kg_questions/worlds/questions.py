"""Make the questions of a world: paths of the graph under the world's names, with what each hop looks up, and
comparisons.

A world is closed: a fact that its documents do not state does not hold in it. So any relation may be followed either
way wherever the graph has one entity at its end, which in the open world would prove nothing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trailforge.generators.kg_questions.paths.blurring import count_hops, described_in
from trailforge.generators.kg_questions.paths.config import KIND_RELATIONS, KgPathConfig
from trailforge.generators.kg_questions.paths.graph import relations_named
from trailforge.generators.kg_questions.paths.sampling import PathSampler
from trailforge.generators.kg_questions.wording import compose, mention_of, phrase_of
from trailforge.generators.kg_questions.worlds.config import WorldConfig
from trailforge.generators.kg_questions.worlds.names import WorldNames
from trailforge.retrieval.kg import KgStore
from trailforge.rewards import mentions
from trailforge.schemas import FactChain, KgFact, KgNode, word_comparison

WorldForm = Literal["chain", "intersection", "comparison"]
YEAR = re.compile(r"\d{3,4}")
_MOST_WORDS = 40
_LEFT_OVER = re.compile(r"[#{}|]|\b(?:which|the) one\b", re.IGNORECASE)
"""What words by rule leave where the graph does not say what something is."""
_BATCH = 50
"""Paths that are sampled at once."""
_MOST_IDLE = 4
"""Batches in a row without a path of which a start is described."""
_ROUNDS = 20
"""Draws for each entity of the graph, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldHop:
    """One step to an answer: a document to find, and what to read there."""

    question: str
    """The hop's question, which refers to the answers of earlier hops as `#k`."""
    query: str
    """The hop's question with the names of those answers."""
    answer: KgNode
    facts: tuple[KgFact, ...]
    """Facts that the document states: one, or two that meet. Empty where there is nothing to look up."""
    about: KgNode | None
    """The entity whose document states the facts: the known end of one fact; where facts meet, the end that they lead
    to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldQuestion:
    """A question that a world may contain, with its hops."""

    id: str
    form: WorldForm
    question: str
    hops: tuple[WorldHop, ...]
    num_facts: int
    """Number of facts; those of a description count as one."""
    entities: frozenset[str]
    """Ids of all entities that the question rests on, years aside."""
    is_blurred: bool = False
    """Whether it was to describe one of its starts."""

    @property
    def answer(self) -> KgNode:
        """Return the entity that the last hop finds."""
        return self.hops[-1].answer

    @property
    def looked_up(self) -> list[tuple[int, WorldHop, KgNode]]:
        """Return the hops that a search is made for: their place, the hop, and the entity whose document it needs."""
        return [(place, hop, hop.about) for place, hop in enumerate(self.hops) if hop.about is not None]


def path_config(
    store: KgStore, config: WorldConfig, hops: int, most_per_answer: int, *, blurred: bool = False
) -> KgPathConfig:
    """Return which paths questions of a closed world follow, with `hops` facts and at most four times `most_per_answer`
    paths to one answer: the rules that guard against facts missing from a graph do not apply. `blurred` gives paths for
    questions with `hops` hops of which one is a description.
    """
    every = tuple(names[0] for names in store.relation_names)
    return KgPathConfig(
        hops=(hops - blurred,),
        intersections=config.intersections,
        blurred=float(blurred),
        min_functionality=0,
        min_triples=1,
        max_guess=1,
        min_kind_share=0,
        many_tails=(),
        closed_lists=every,
        closed_heads=every,
        one_head=every,
        needs_kind=(),
        places=(),
        excluded=tuple(KIND_RELATIONS.split("|")),
        gone=(),
        of_today=(),
        impersonal=(),
        max_same=2,
        max_per_found=4 * most_per_answer,
        max_per_answer=4 * most_per_answer,
        max_pair_share=1,
        max_shared=1,
    )


def sample_questions(
    store: KgStore, names: WorldNames, config: WorldConfig, hops: int, most_per_answer: int, *, blurred: bool = False
) -> Iterator[WorldQuestion]:
    """Yield questions over paths of `hops` facts until the graph has no more. `blurred` yields only those that describe
    a starting entity as one of these facts, until hardly any are left.
    """
    paths = path_config(store, config, hops, most_per_answer, blurred=blurred)
    sampler = PathSampler(store, paths, config.seed * 10 + hops)
    idle = 0
    while idle < _MOST_IDLE and (chains := list(sampler.sample(_BATCH))):  # in batches, each of which has all forms
        found = [chain for chain in chains if described_in(chain)] if blurred else chains
        idle = 0 if found else idle + 1
        for chain in found:
            is_askable = _is_askable(store, names, chain)
            question = of_chain(names.renamed(chain), is_blurred=blurred) if is_askable else None
            if question is not None and reads_well(question):
                yield question


def _is_askable(store: KgStore, names: WorldNames, chain: FactChain) -> bool:
    """Have all entities clear names, has what is known a document, and is no two facts' order mixed by a meeting?"""
    rows = {node.id: store.row(node.id) for node in (*chain.starts, *chain.found)}
    knowns = [*chain.starts, *chain.bridges]
    if any(YEAR.fullmatch(node.label) for node in knowns if chain.shape == "chain"):
        return False
    return all(YEAR.fullmatch(store.label_of(row)) or names.is_clear(row) for row in rows.values())


def of_chain(chain: FactChain, *, is_blurred: bool = False) -> WorldQuestion:
    """Return the question for a path under the world's names, hop by hop. `is_blurred` says that one of its starting
    entities is described.
    """
    wording = compose(chain)
    nodes = {node.id: node for node in (*chain.starts, *chain.found)}
    hops: list[WorldHop] = []
    for text, node in zip(wording.sub_questions, chain.found, strict=True):
        facts = chain.leading_to(node)
        query = text
        for number, earlier in enumerate(hops, start=1):
            query = query.replace(f"#{number}", mention_of(earlier.answer))
        about = nodes[facts[0].known] if len(facts) == 1 else node
        hops.append(WorldHop(question=text, query=query, answer=node, facts=facts, about=about))
    return WorldQuestion(
        id=chain.id,
        form="chain" if chain.shape == "chain" else "intersection",
        question=wording.question,
        hops=tuple(hops),
        num_facts=count_hops(chain) if is_blurred else len(chain.facts),
        entities=frozenset(node.id for node in nodes.values() if not YEAR.fullmatch(node.label)),
        is_blurred=is_blurred,
    )


def reads_well(question: WorldQuestion, most_words: int = _MOST_WORDS) -> bool:
    """Tell whether a question has at most `most_words` words, and names neither its answer nor an intermediate one."""
    text = question.question
    if len(text.split()) > most_words or _LEFT_OVER.search(text):
        return False
    if question.form == "comparison":
        return True
    return not any(mentions(text, hop.answer.label) for hop in question.hops)


def sample_comparisons(
    store: KgStore, names: WorldNames, config: WorldConfig, most_per_answer: int
) -> Iterator[WorldQuestion]:
    """Yield questions that ask which of two things of a kind has the earlier year: born, founded, published …"""
    draw = random.Random(f"{config.seed} comparisons")
    groups = _with_years(store, names)
    used: dict[int, int] = {}
    seen: set[tuple[int, int, int]] = set()
    for _ in range(len(store) * _ROUNDS if groups else 0):
        relation, rows = draw.choice(groups)
        one, other = draw.sample(rows, 2)
        years = [_year_of(store, row, relation) for row in (one, other)]
        first, second = ((one, other) if int(years[0]) < int(years[1]) else (other, one)) if all(years) else (one, one)
        key = (relation, min(one, other), max(one, other))
        if years[0] == years[1] or first == second or key in seen or used.get(first, 0) >= most_per_answer:
            continue
        used[first] = used.get(first, 0) + 1
        seen.add(key)
        yield _comparison(store, names, relation, (one, other), first)


def _with_years(store: KgStore, names: WorldNames) -> list[tuple[int, list[int]]]:
    """Groups of two or more entities of one kind that a relation leads to a year from."""
    groups: dict[tuple[int, str], list[int]] = {}
    for relation in sorted(_years(store)):
        for row in range(len(store)):
            if len(store.out.neighbours_of(row, relation)) == 1 and names.is_clear(row) and names.family(row):
                groups.setdefault((relation, names.family(row)), []).append(row)
    return [(relation, rows) for (relation, _), rows in sorted(groups.items()) if len(rows) > 1]


def _years(store: KgStore) -> frozenset[int]:
    """Relations that are called after years or dates, and lead to year numbers."""
    return relations_named(store, (each[0] for each in store.relation_names if is_of_years(each[0])))


def is_of_years(label: str) -> bool:
    """Tell whether a relation's label speaks of a year."""
    return "year" in label.casefold().split()


def _year_of(store: KgStore, row: int, relation: int) -> str:
    tails: np.ndarray = store.out.neighbours_of(row, relation)
    label = store.label_of(int(tails[0]))
    return label if YEAR.fullmatch(label) else ""


def _comparison(store: KgStore, names: WorldNames, relation: int, rows: tuple[int, int], first: int) -> WorldQuestion:
    hops: list[WorldHop] = []
    for row in rows:
        tail = int(store.out.neighbours_of(row, relation)[0])
        about, year, fact = names.node(row), names.node(tail), names.fact(row, relation, tail)
        phrase = phrase_of(fact, about.kind)
        text = (
            phrase.ask.replace("{x}", mention_of(about))
            or f"What is the {fact.triple.relation_label} of {about.label}?"
        )
        hops.append(WorldHop(question=text, query=text, answer=year, facts=(fact,), about=about))
    nodes = [hop.about for hop in hops if hop.about is not None]
    question = _earlier(hops[0].facts[0], nodes)
    last = word_comparison(question, {node.label: [number] for number, node in enumerate(nodes, start=1)})
    winner = nodes[rows.index(first)]
    hops.append(WorldHop(question=last, query=last, answer=winner, facts=(), about=None))
    return WorldQuestion(
        id=f"{'-'.join(node.id for node in nodes)}-{hops[0].facts[0].triple.relation}",
        form="comparison",
        question=question,
        hops=tuple(hops),
        num_facts=2,
        entities=frozenset(node.id for node in nodes),
    )


def _earlier(fact: KgFact, nodes: list[KgNode]) -> str:
    """`Which film was released earlier, Heat or Dune?`"""
    kind = nodes[0].kind
    back = KgFact(
        triple=fact.triple, known=fact.found, found=fact.known, relation_aliases=(), fan_out=1, left_without=1
    )
    says = phrase_of(back, kind).says
    either = f"{nodes[0].label} or {nodes[1].label}"
    subject = "Who" if kind == "person" else f"Which {kind}" if kind else "Which"
    if says.endswith(" in {x}"):
        return f"{subject} {says.removesuffix(' in {x}')} earlier, {either}?"
    return f"{subject} has the earlier {fact.triple.relation_label}, {either}?"
