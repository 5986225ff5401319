"""Sample questions of many facts as random trees, grown from the answer, and keep those that the whole graph confirms.

Each intermediate entity is identified by one fact that leads to it alone, or by two facts together, neither of which
does so by itself. In every question at least one starting entity is described by two facts, too, instead of being
named. No fact is taken that the question could spare: without any of them the answer may be another one.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice

import numpy as np

from trailforge.generators.kg_questions.paths.config import KIND_RELATIONS, KgPathConfig
from trailforge.generators.kg_questions.paths.graph import Graph, KindReader, relations_named
from trailforge.generators.kg_questions.paths.query import Link, PathNode, answers, chain_of, left_without, links_of
from trailforge.generators.kg_questions.wording import PROMPTS, RELATIONS
from trailforge.generators.kg_questions.worlds.documents import FactKey
from trailforge.generators.kg_questions.worlds.names import WorldNames
from trailforge.generators.kg_questions.worlds.questions import YEAR, WorldQuestion, of_chain, reads_well
from trailforge.retrieval.kg import KgStore

_LEAST_REACHED, _MOST_REACHED = 5, 60
"""Entities that one of two facts may lead to: too many for one look, few enough to be looked through."""
_MOST_OPTIONS = 40
"""Facts of an entity that are looked at."""
_BRANCHES = 3
"""Ways to tell one entity that are tried."""
_PAIRED = 0.9
"""How often two facts are tried before one."""
_TRIES = 2000
"""For one question, before the graph is held to have no more."""
_MOST_WORDS = 110
_MOST_COUNTED = 2
_MOST_FOLLOWED = 500
"""Entities, of those that one on the way may be, that are followed up to the answer."""
_WAYS = 10_000


@dataclass(frozen=True, slots=True)
class TreeQuestion:
    """A question in words with the tree of facts that it asks for."""

    question: WorldQuestion
    root: PathNode


@dataclass(frozen=True, slots=True)
class _Way:
    """A fact by which an entity may be told."""

    relation: int
    is_forward: bool
    """From what it is told by to the entity?"""
    child: int


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in a tree an entity is told, seen from below."""

    relation: int
    is_forward: bool
    """From the entity to the one above it?"""
    beside: frozenset[int] | None
    """What the other fact leads to that tells the one above; None where there is no other."""
    above: _Place | None
    """None where the one above is the answer."""


class _DeadEnd(Exception):
    """What is grown cannot become a question."""


class TreeSampler:
    """Samples questions over one graph; no answer, and no set of facts, comes twice."""

    def __init__(self, store: KgStore, names: WorldNames, seed: int) -> None:
        config = KgPathConfig()
        self._store, self._names = store, names
        self._random = random.Random(f"{seed} trees")
        self._graph = Graph(store, config)
        self._kinds = KindReader(self._graph, config)
        self._left_out = relations_named(store, (*KIND_RELATIONS.split("|"), *config.kinds, *config.roles))
        self._tells_role = relations_named(store, config.tells_role)
        self._named = lru_cache(4096)(lambda row: store.namesakes(store.label_of(row)))
        self._reached = lru_cache(1 << 18)(self._find_reached)
        self._ways = lru_cache(1 << 16)(self._find_ways)
        self._used: Counter[int] = Counter()
        self._seen: set[str] = set()

    def sample(self, facts: int) -> Iterator[TreeQuestion]:
        """Yield questions of this number of facts, until none has been found for a long time."""
        left = _TRIES
        while left:
            left -= 1
            row = self._random.randrange(len(self._store))
            if self._used[row] or not self.is_page(row):
                continue
            try:
                found = self._proved(self._grow(row, facts, frozenset({row}), None))
            except _DeadEnd:
                continue
            self._used[row] += 1
            left = _TRIES
            yield found

    def is_page(self, row: int) -> bool:
        """Tell whether an entity has a clear name, and so gets a page."""
        return self._names.is_clear(row) and not YEAR.fullmatch(self._store.label_of(row))

    def _grow(self, row: int, facts: int, rows: frozenset[int], place: _Place | None) -> PathNode:
        """An entity told by so many facts in all. Raises `_DeadEnd`. `place`: None for the answer."""
        ways = [way for way in self._ways(row) if way.child not in rows]
        ways = self._random.sample(ways, min(len(ways), _MOST_OPTIONS))
        pairs = list(islice(self._pairs(row, ways, place), _BRANCHES)) if facts > 1 else []
        alone = [(way,) for way in ways if self.is_page(way.child) and self._reach(way) == 1]
        alone = alone[:_BRANCHES] if self._is_open(None, place) else []
        is_paired = facts == 2 or self._random.random() < _PAIRED  # the last two tell what stands at the bottom
        told = [*pairs, *alone] if is_paired else [*alone, *pairs]
        for each in told[:_BRANCHES]:
            with contextlib.suppress(_DeadEnd):
                return self._with(row, each, facts, rows | {way.child for way in each}, place)
        raise _DeadEnd

    def _with(
        self, row: int, ways: tuple[_Way, ...], facts: int, rows: frozenset[int], place: _Place | None
    ) -> PathNode:
        """The entity told by these, and what they lead from by the facts that are left."""
        left = facts - len(ways)
        pages = [way for way in ways if self.is_page(way.child)]
        if left and not pages:
            raise _DeadEnd
        cut = self._random.randint(0, left) if len(pages) > 1 else left
        shares = dict(zip((way.child for way in pages), (cut, left - cut), strict=False))
        links: list[Link] = []
        for way in ways:
            share = shares.get(way.child, 0)
            beside = next((self._reached(other) for other in ways if other is not way), None)
            below = _Place(way.relation, way.is_forward, beside, place)
            child = self._grow(way.child, share, rows, below) if share else PathNode(way.child)
            rows |= {node.row for node in child.below()}
            links.append(Link(way.relation, way.is_forward, child))
        return PathNode(row, tuple(links))

    def _pairs(self, row: int, ways: list[_Way], place: _Place | None) -> Iterator[tuple[_Way, _Way]]:
        """Two facts, each of which leads to others too, that together lead to this entity alone."""
        several = [way for way in ways if _LEAST_REACHED <= self._reach(way) <= _MOST_REACHED]
        for number, one in enumerate(several):
            for other in several[:number]:
                if one.relation == other.relation or one.child == other.child:
                    continue
                found = self._reached(one), self._reached(other)
                if found[0] & found[1] == {row} and all(self._is_open(each, place) for each in found):
                    yield other, one

    def _is_open(self, entities: frozenset[int] | None, place: _Place | None) -> bool:
        """Is there more than one answer if what stands at this place may be any of these? None: anything."""
        while place is not None:
            if entities is None:
                number = self._graph.num_sources(place.relation, not place.is_forward)
                some = np.unique(np.linspace(0, number - 1, min(number, _MOST_FOLLOWED)).astype(int))
                entities = frozenset(self._graph.sources(place.relation, not place.is_forward, some).tolist())
            else:
                ways = (_Way(place.relation, place.is_forward, each) for each in islice(entities, _MOST_FOLLOWED))
                entities = frozenset[int]().union(*map(self._reached, ways))
            entities = entities if place.beside is None else entities & place.beside
            if len(entities) < _MOST_COUNTED:
                return False
            place = place.above
        return entities is None or len(entities) >= _MOST_COUNTED

    def _find_reached(self, way: _Way) -> frozenset[int]:
        return frozenset(self._graph.reached(way.child, way.relation, way.is_forward).tolist())

    def _reach(self, way: _Way) -> int:
        return len(self._reached(way))

    def _find_ways(self, row: int) -> list[_Way]:
        ways: list[_Way] = []
        for is_forward, side in ((False, self._store.out), (True, self._store.into)):
            for relation in side.relations_of(row).tolist():
                if relation in self._left_out or relation in self._graph.symmetric:
                    continue
                for child in side.neighbours_of(row, relation).tolist()[:_MOST_OPTIONS]:
                    if self.is_page(child) or YEAR.fullmatch(self._store.label_of(child)):
                        ways.append(_Way(relation, is_forward, child))
        return ways

    def _proved(self, root: PathNode) -> TreeQuestion:
        """The question of a tree. Raises `_DeadEnd` where the graph has another answer, or one without all facts."""
        if not is_blurred(root):
            raise _DeadEnd
        matches: dict[int, int] = {}
        for node in root.below():
            found = answers(self._graph, node, self._named, _WAYS)
            matches[node.row] = 0 if found is None else len(found)
            if node.links and matches[node.row] != 1:
                raise _DeadEnd
        spare = {"most_counted": _MOST_COUNTED, "most": _WAYS}
        left = [left_without(self._graph, root, link, self._named, **spare) for _, link in links_of(root)]
        if min(left) < _MOST_COUNTED:
            raise _DeadEnd
        chain = chain_of(self._graph, root, self._kinds, matches, left, self._tells_role)
        question = of_chain(self._names.renamed(chain))
        if chain.id in self._seen or not reads_well(question, _MOST_WORDS):
            raise _DeadEnd
        self._seen.add(chain.id)
        return TreeQuestion(question, root)


class WorldFacts:
    """The facts of a closed world, including those of look-alikes; what is not stated here is false in it.

    The entities that satisfy a question are counted here independently of the graph from which the questions were
    drawn.
    """

    def __init__(self, store: KgStore) -> None:
        self._store = store
        self._reached: defaultdict[tuple[str, str, bool], set[str]] = defaultdict(set)

    def add(self, facts: Iterable[FactKey]) -> None:
        """Add facts, as keys of subject, relation and object."""
        for head, relation, tail in facts:
            self._reached[head, relation, True].add(tail)
            self._reached[tail, relation, False].add(head)

    def remove(self, facts: Iterable[FactKey]) -> None:
        """Remove facts, which are false from then on."""
        for head, relation, tail in facts:
            self._reached[head, relation, True].discard(tail)
            self._reached[tail, relation, False].discard(head)

    def satisfying(self, node: PathNode, believed: Mapping[int, str] | None = None) -> set[str]:
        """Return the ids of all entities that satisfy a tree. `believed` maps row numbers in the tree to ids: such a
        node is taken to be that entity, whatever leads to it. None believes nothing.
        """
        if believed and node.row in believed:
            return {believed[node.row]}
        if not node.links:
            return {self._store.id_of(node.row)}
        ends = [
            set().union(
                *(
                    self._reached.get((known, self._store.relation_id(link.relation), link.is_forward), set())
                    for known in self.satisfying(link.child, believed)
                )
            )
            for link in node.links
        ]
        return set.intersection(*ends)

    def answers_of_others(self, root: PathNode, kind_of: Callable[[str], str]) -> set[str]:
        """Return the other answers to a question that calls an entity a country, for readers who take it for a
        constituent country or for its sovereign state. Empty where every reading has the same answer or none. `kind_of`
        returns the kind of an entity by its id.
        """
        own, ends = self._store.id_of(root.row), set[str]()
        for node in root.below():
            entity = self._store.id_of(node.row)
            if not node.links or not _is_country(kind_of(entity)):
                continue
            alike = [
                set().union(*(self._reached_in_words(known, link) for known in self.satisfying(link.child)))
                for link in node.links
            ]
            others = set.intersection(*alike) | self._reached_as(entity, "country")
            for other in others - {entity}:
                if _is_country(kind_of(other)):
                    ends |= self.satisfying(root, {node.row: other})
        return ends - {own}

    def _reached_in_words(self, known: str, link: Link) -> set[str]:
        """What relations that are worded as a link is lead to from an entity."""
        words = self._words
        said = words.get((link.relation, link.is_forward))
        alike = [way for way, each in words.items() if each == said and each] or [(link.relation, link.is_forward)]
        return set().union(
            *(self._reached.get((known, self._store.relation_id(row), forward), set()) for row, forward in alike)
        )

    def _reached_as(self, known: str, label: str) -> set[str]:
        rows = relations_named(self._store, (label,))
        return set().union(*(self._reached.get((known, self._store.relation_id(row), True), set()) for row in rows))

    @cached_property
    def _words(self) -> dict[tuple[int, bool], str]:
        """The words of relations in questions, by row and way; without those that have none of their own."""
        phrases = PROMPTS.phrases(RELATIONS)
        return {
            (row, is_forward): phrases[names[0].casefold()]["tail" if is_forward else "head"].get("says", "")
            for row, names in enumerate(self._store.relation_names)
            if names[0].casefold() in phrases
            for is_forward in (True, False)
        }

    def bears_out(self, root: PathNode) -> bool:
        """Tell whether each entity of a tree is the only one that satisfies the facts below it."""
        return all(self.satisfying(node) == {self._store.id_of(node.row)} for node in root.below())


def _is_country(kind: str) -> bool:
    """Is it a country, or a constituent one, as a question does not tell apart?"""
    return kind == "country" or kind.endswith(" country")


def is_blurred(root: PathNode) -> bool:
    """Tell whether a starting entity is described by two facts instead of being named."""
    return any(len(node.links) == 2 and not any(link.child.links for link in node.links) for node in root.below())


def describe_tree(store: KgStore, root: PathNode) -> list[dict[str, object]]:
    """Return a tree as JSON values: a list of its entities by id, each after those from which it is found, which are
    given by position in the list, relation and direction.
    """
    nodes = list(root.below())
    return [
        {
            "id": store.id_of(node.row),
            "from": [
                (nodes.index(link.child), store.relation_id(link.relation), "forward" if link.is_forward else "back")
                for link in node.links
            ],
        }
        for node in nodes
    ]
