"""Sample random paths, grown backwards from the answer, and keep those that the whole graph confirms.

`facts` says which facts lead to one entity or along a closed list, and where a path of a form may end. Growing looks at
the single entities; what is grown is counted over the graph. Relations that stand in few paths so far are drawn more
often, and no answer, and no pair of relations, comes too often.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from math import ceil

import numpy as np

from trailforge.filters.kg import is_named
from trailforge.generators.kg_questions.paths.blurring import Blurring, described_in
from trailforge.generators.kg_questions.paths.config import Form, KgPathConfig, most_wanting, share_out
from trailforge.generators.kg_questions.paths.facts import (
    Edge,
    FactCounts,
    FactRules,
    Facts,
    Incoming,
    Pool,
    Reach,
    Slot,
    forms_below,
)
from trailforge.generators.kg_questions.paths.graph import Graph, KindReader, relations_named
from trailforge.generators.kg_questions.paths.query import (
    Fame,
    Link,
    PathNode,
    answers,
    chain_of,
    has_shortcut,
    left_without,
    links_of,
    pairs_in,
    pairs_with,
)
from trailforge.retrieval.kg import KgStore
from trailforge.schemas import FactChain, KgTriple

_TRIES = 12
"""Facts tried for one place of a path before the path is given up."""
_MOST_MISSED = 6
"""Times in a row that a form gives no path: then the graph has no more of it."""
_MISS_WEIGHT = 0.05
"""What a failed try of a relation counts against a path that has it, when the next one is drawn."""
_MOST_OPTIONS = 100
"""Facts of one kind that are looked at for one place, however many lead there."""
_MOST_BLURRED = 20
"""Descriptions of the starts of one path that are tried."""
_FEWEST_OF_PAIR = 3
"""Paths that a pair of relations may have however few are sampled."""


class _Unfit(Exception):
    """What is grown cannot become a path; the argument is the reason."""


@dataclass(frozen=True, slots=True)
class _Grown:
    """What a path has so far."""

    rows: set[int]
    relations: list[int]


@dataclass(frozen=True, slots=True)
class _Path:
    """What was grown and counted, and may be taken."""

    root: PathNode
    chain: FactChain
    known_by: int


class PathSampler:
    """Samples paths of one store. `rejected` counts, by reason (`shortage.LACKS`), the attempts that gave no path."""

    def __init__(self, store: KgStore, config: KgPathConfig, seed: int) -> None:
        self.config = config
        self._store, self._seed, self._random = store, seed, random.Random(seed)
        self._graph = Graph(store, config)
        self._kinds = KindReader(self._graph, config)
        self._rules = FactRules(self._graph, self._kinds, config)
        self._tells_role = relations_named(store, config.tells_role)
        self._by_heart = relations_named(store, config.by_heart)
        self._fame = Fame(store, self._by_heart, config.known_share)
        self._used = np.zeros(len(store.relation_names))
        self._per_found: Counter[int] = Counter()
        self._per_answer: Counter[str] = Counter()
        self._pairs: Counter[tuple[int, int]] = Counter()
        self._most_of_pair = 0
        self._found: list[int] = []
        """How many facts each path has that was found."""
        self._paths_of: defaultdict[KgTriple, list[int]] = defaultdict(list)
        """By fact: numbers of the paths that have it."""
        self._pools: dict[Form, dict[Edge, Pool]] = {}
        self._named = lru_cache(4096)(lambda row: store.namesakes(store.label_of(row)))
        self.rejected: Counter[str] = Counter()
        self._blurring = Blurring(self._graph, self._kinds, self._rules, self._named, config)
        self._num_blurred = 0

    def sample(self, count: int) -> Iterator[FactChain]:
        """Yield up to `count` paths, each once; fewer when the graph has no more of the wanted forms.

        What a form lacks of its share goes to forms with as many facts, then to others, and last to the spare ones.
        """
        self._most_of_pair = max(_FEWEST_OF_PAIR, ceil(self.config.max_pair_share * count))
        for shares in (self.config.shares, self.config.spare_shares):
            for chain in self._sample_forms(shares, count):
                count -= 1
                yield chain

    def _sample_forms(self, shares: dict[Form, float], count: int) -> Iterator[FactChain]:
        asked = share_out(shares, count)
        found: Counter[Form] = Counter()
        missed: Counter[Form] = Counter()
        while found.total() < count:
            open_forms = [
                form for form in asked | Counter(shares) if missed[form] < _MOST_MISSED and self._pools_of(form)
            ]
            if not open_forms:
                return
            form = self._random.choice(most_wanting(open_forms, asked, found))
            chain = self._of_form(form)
            missed[form] = 0 if chain else missed[form] + 1
            if chain:
                found[form] += 1
                yield chain

    def count_facts(self) -> FactCounts:
        """Count the facts of the graph, and those that the configuration's rules allow paths to follow."""
        return self._rules.count_facts()

    def with_config(self, config: KgPathConfig) -> PathSampler:
        """Return a sampler of the same graph and seed for other paths, which has sampled none yet."""
        return PathSampler(self._store, config, self._seed)

    @cached_property
    def _reach(self) -> Reach:
        config, rules = self.config, self._rules
        rows = np.arange(len(self._store))
        single = Facts.of(self._graph, rules.single, 1, 1)
        listed = Facts.of(self._graph, rules.listed, 2, config.max_fan_out)
        return Reach(single, listed, self._store.degrees(rows) <= config.max_degree)

    def _pools_of(self, form: Form) -> dict[Edge, Pool]:
        """What paths of a form may end with, by relation, as far as it is not used up."""
        if form not in self._pools:
            facts, places = self._reach.last_facts(form)
            fits = np.zeros(len(facts), bool)
            fits[places] = True
            by_edge = {edge: places[fits[places]] for edge, places in facts.places_of.items()}
            self._pools[form] = {edge: Pool(some, self._seed) for edge, some in by_edge.items() if len(some)}
        return self._pools[form]

    def _of_form(self, form: Form) -> FactChain | None:
        """The least known of some paths; as many attempts are made for each as for the first, and no more in all than
        for one.
        """
        pools, grown = self._pools_of(form), list[_Path]()
        left = self.config.max_attempts
        while left and pools and len(grown) < self.config.choices:
            left -= 1
            edge = self._draw(list(pools))
            place = pools[edge].take()
            if place is None:
                del pools[edge]
                continue
            try:
                grown.append(self._attempt(form, place))
            except _Unfit as reason:
                self.rejected[str(reason)] += 1
                self._used[edge.relation] += _MISS_WEIGHT
                continue
            pools[edge].gives = True
            if len(grown) == 1:
                left = min(left, (self.config.max_attempts - left) * (self.config.choices - 1))
        if not grown:
            return None
        path = min(grown, key=lambda path: path.known_by)
        return self._take(path if form.describing else self._blurred(path))

    def _blurred(self, path: _Path) -> _Path:
        """The path with a start described, while fewer have one than are wanted and the graph has such facts of it."""
        if self._num_blurred < self.config.blurred * (len(self._found) + 1) and not described_in(path.chain):
            for root, start in islice(self._blurring.blur(path.root), _MOST_BLURRED):
                if chain := self._proved(root, frozenset((start,))):
                    path = replace(path, root=root, chain=chain)
                    break
        self._num_blurred += bool(described_in(path.chain))
        return path

    def _draw(self, edges: list[Edge]) -> Edge:
        """One of some relations, more often one that few paths have."""
        weights = 1 / (1 + self._used[[edge.relation for edge in edges]]) ** 2
        return self._random.choices(edges, weights.tolist())[0]

    def _attempt(self, form: Form, place: int) -> _Path:
        """The path of a form that ends with the fact at a place. Raises `_Unfit`."""
        facts = self._reach.single if form.stem else self._reach.listed
        row = int(facts.rows[place])
        if self._per_answer[self._store.label_of(row).casefold()] >= self.config.max_per_answer:
            raise _Unfit("answered")
        if why := self._why_not_found(row):
            raise _Unfit(why)
        root = self._grow(row, form, _Grown({row}, []), None, facts[place])
        if all(link.relation in self._by_heart for _, link in links_of(root)):
            raise _Unfit("by_heart")
        known_by = self._fame.of(root)
        if self._fame.most is not None and known_by > self._fame.most:
            raise _Unfit("well_known")
        path = _Path(root, self._counted(root), known_by)
        if not form.describing:
            return path
        found = self._blurring.lengthen(root, form.describing, self._proved, self._random)
        if found is None:
            raise _Unfit("not_described")
        return replace(path, root=found[0], chain=found[1])

    def _take(self, path: _Path) -> FactChain:
        """The path's record; what comes after is to differ from it."""
        root, chain = path.root, path.chain
        for fact in chain.facts:
            self._paths_of[fact.triple].append(len(self._found))
        self._found.append(len(chain.facts))
        self._per_answer[chain.answer.label.casefold()] += 1
        self._per_found.update(node.row for node in root.below() if node.links)
        relations = [link.relation for _, link in links_of(root)]
        self._pairs.update(pairs_in(relations))
        for relation in relations:
            self._used[relation] += 1
        return chain

    # Growing

    def _grow(self, row: int, form: Form, grown: _Grown, up: Edge | None, first: Incoming | None = None) -> PathNode:
        """An entity with all that leads to it. `up`: the fact that leads on from it; `first`: one that has to lead to
        it. Raises `_Unfit`.
        """
        belows = forms_below(form)
        links: list[Link] = []
        if len(belows) > 1:  # the fact along a closed list comes first: it may lead from either chain
            fits = first is None or self._reach.of(belows[0])[first.child]
            may_turn = first is None or self._reach.of(belows[1])[first.child]
            belows = belows[::-1] if may_turn and (not fits or self._random.random() < 0.5) else belows
        for below in belows:
            met = links[0].relation if links else None
            slot = Slot(row=row, form=below, up=up, meets=len(belows) > 1, met=met)
            links.append(self._link(slot, grown, None if links else first))
        return PathNode(row, tuple(links))

    def _link(self, slot: Slot, grown: _Grown, first: Incoming | None) -> Link:
        """A fact that leads to an entity, with all that leads to its other end. Raises `_Unfit`."""
        why = "no_path"
        for edge, child in [first] if first else self._options(slot):
            if child in grown.rows:
                continue
            why = self._why_unfit(slot, edge, child, grown)
            if not why:
                grown.rows.add(child)
                grown.relations.append(edge.relation)
                if slot.form == Form(0):
                    return Link(edge.relation, edge.is_forward, PathNode(child))
                return Link(edge.relation, edge.is_forward, self._grow(child, slot.form, grown, edge))
        raise _Unfit(why)

    def _options(self, slot: Slot) -> list[Incoming]:
        """Facts that may lead to an entity, some in the order of chance: relations that few paths have come first."""
        facts = self._met(slot) if slot.met is not None else self._leading(slot)
        number = Counter(fact.edge.relation for fact in facts)
        weights = [1 / (1 + self._used[fact.edge.relation]) ** 2 / number[fact.edge.relation] for fact in facts]
        keys = [self._random.random() ** (1 / weight) for weight in weights]
        order = sorted(range(len(facts)), key=keys.__getitem__, reverse=True)
        return [facts[place] for place in order[:_TRIES]]

    def _leading(self, slot: Slot) -> list[Incoming]:
        """Facts that lead to an entity alone, or along a closed list where facts meet."""
        facts = self._reach.listed if slot.meets else self._reach.single
        leads = self._reach.of(slot.form)
        places = [place for place in facts.leading_to(slot.row) if leads[facts.children[place]]]
        return [facts[place] for place in self._some(places)]

    def _met(self, slot: Slot) -> list[Incoming]:
        """Facts that may meet one along a closed list."""
        leads = self._reach.of(slot.form)
        found: list[Incoming] = []
        for is_forward, side in ((False, self._store.out), (True, self._store.into)):
            for relation in side.relations_of(slot.row).tolist():
                edge = Edge(relation, is_forward)
                if edge in self._rules.meeting and relation != slot.met:
                    children = self._graph.reached(slot.row, relation, not is_forward)
                    found += [Incoming(edge, child) for child in self._some(children[leads[children]].tolist())]
        return found

    def _some(self, items: list[int]) -> list[int]:
        return items if len(items) <= _MOST_OPTIONS else self._random.sample(items, _MOST_OPTIONS)

    def _why_unfit(self, slot: Slot, edge: Edge, child: int, grown: _Grown) -> str:
        """Why this fact may not lead to the entity of the slot; empty if it may."""
        if slot.form != Form(0) and (why := self._why_not_passed(child)):
            return why
        if any(self._pairs[pair] >= self._most_of_pair for pair in pairs_with(edge.relation, grown.relations)):
            return "common_pair"
        return self._rules.why_unfit(slot, edge, child)

    def _why_not_found(self, row: int) -> str:
        """Why an entity can be no answer; empty if it can."""
        if self._per_found[row] >= self.config.max_per_found:
            return "used_up"
        return "" if self._kinds.is_proper(row) and not self._kinds.is_gone(row) else "no_thing"

    def _why_not_passed(self, row: int) -> str:
        """Why an entity can be no bridge; empty if it can."""
        return self._why_not_found(row) or ("passed_end" if self._kinds.kind(row) in self.config.ends else "")

    def _proved(self, root: PathNode, described: frozenset[int]) -> FactChain | None:
        """As `_counted`; None where that raises, or earlier paths have two of the relations together too often."""
        pairs = pairs_in([link.relation for _, link in links_of(root)])
        if any(self._pairs[pair] >= self._most_of_pair for pair in pairs):
            return None
        try:
            return self._counted(root, described)
        except _Unfit:
            return None

    def _counted(self, root: PathNode, described: frozenset[int] = frozenset()) -> FactChain:
        """The record of a tree that the whole graph bears out. `described`: rows of starts for which `Blurring` has
        ruled out shortcuts and all others. Raises `_Unfit`."""
        if max(Counter(link.relation for _, link in links_of(root)).values()) > self.config.max_same:
            raise _Unfit("same_relation")
        if self._gives_away(root):
            raise _Unfit("told")
        if not described and has_shortcut(self._graph, root):
            raise _Unfit("shortcut")
        most = self.config.max_fan_out * 100
        matches: dict[int, int] = {}
        for node in root.below():
            found = answers(self._graph, node, self._named, most)
            matches[node.row] = 0 if found is None else len(found)
            if node.links and matches[node.row] != 1:
                raise _Unfit("not_unique")
            if len(node.links) > 1 and node.row not in described and not self._rules_others_out(node):
                raise _Unfit("not_ruled_out")
        left: list[int] = []
        for _, link in links_of(root):
            counted = self.config.max_counted
            left.append(left_without(self._graph, root, link, self._named, most_counted=counted, most=most))
            if left[-1] < 2:
                raise _Unfit("spare_fact")
        chain = chain_of(self._graph, root, self._kinds, matches, left, self._tells_role)
        if self._repeats(chain):
            raise _Unfit("repeated")
        return chain

    def _rules_others_out(self, node: PathNode) -> bool:
        """Of two facts that meet: does one lead along a closed list, and does the graph tell of each other entity on
        it what it has in the place of the other fact?
        """
        for link, other in (node.links, node.links[::-1]):
            if Edge(link.relation, link.is_forward) not in self._rules.lists:
                continue
            rivals = self._graph.reached(link.child.row, link.relation, link.is_forward)
            if all(
                len(self._graph.reached(int(row), other.relation, not other.is_forward))
                for row in rivals
                if row != node.row
            ):
                return True
        return False

    def _repeats(self, chain: FactChain) -> bool:
        """Has it too many facts of an earlier path, or all? Who answers one answers part of the other."""
        length, most = len(chain.facts), self.config.max_shared
        shared = Counter(number for fact in chain.facts for number in self._paths_of[fact.triple])
        return any(
            count > most * min(length, self._found[number]) or count == length == self._found[number]
            for number, count in shared.items()
        )

    def _gives_away(self, root: PathNode) -> bool:
        """Does a start's name, a kind, or an earlier finding's name have in it a name of what is to be found: Mexico
        City in Mexico, or a state of Mexico?
        """
        known = [self._store.label_of(node.row) for node in root.below() if not node.links]
        known += [self._kinds.kind(node.row) for node in root.below()]
        for names in (self._store.names_of(node.row) for node in root.below() if node.links):
            if any(is_named(text, name) for text in known for name in names):
                return True
            known.append(names[0])
        return False
