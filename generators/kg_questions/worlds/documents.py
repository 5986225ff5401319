"""Write the documents of a world: one per entity with a few facts each, look-alikes, and documents that no question
needs.

A gold fact is stated by one document alone, that of the entity from which it is looked up. Where a look-alike is
wanted, that document states it in words which the sub-question has not, and the look-alike's states another value in
the sub-question's own. No value of a look-alike makes a second answer to any question.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from trailforge.generators.kg_questions.paths.config import KIND_RELATIONS, KgPathConfig
from trailforge.generators.kg_questions.paths.graph import Graph, relations_named
from trailforge.generators.kg_questions.wording import PERSON, article_of, capital, mention_of
from trailforge.generators.kg_questions.worlds.config import WorldConfig
from trailforge.generators.kg_questions.worlds.names import WorldNames
from trailforge.generators.kg_questions.worlds.questions import YEAR, WorldHop, WorldQuestion, is_of_years
from trailforge.generators.kg_questions.worlds.statements import Statement, statements_of
from trailforge.retrieval import words_of
from trailforge.retrieval.kg import KgStore
from trailforge.schemas import Document, KgFact, KgNode, KgTriple

FactKey = tuple[str, str, str]
"""The head, relation and tail of a fact, by id."""
_FEW = 3
"""What a false value may lead on to."""
_NEAR = 40
"""Years between a false year and the right one, at most."""
_SOURCES = 10
"""Entities among which one of the same kind is looked for."""
_TRIES = 40
"""Values that are tried for a look-alike."""
_SPARE = 1.1
"""Questions that a look-alike is made for, for one that is to be misled: not every one comes first."""
_JOINED = 0.35
"""Share of pairs of sentences with one subject that become one."""


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A document before it is written."""

    node: KgNode
    row: int | None
    """Of the entity, or of the one that it is like; None of a made-up one."""
    facts: dict[FactKey, tuple[KgFact, KgNode]] = field(default_factory=dict)
    """What it has to state, with the end that is looked for."""
    chosen: dict[FactKey, Statement] = field(default_factory=dict)
    is_quiet: bool = False
    """Does it go by pronouns, where it can?"""
    is_loud: bool = False
    """Does it say its name in every sentence?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAlike:
    """A document that a search may mistake for another one."""

    title: str
    document: str
    false_answers: dict[str, str]
    """The answer that a question gets when the look-alike is believed, by question; empty where the trail ends
    before."""
    relations: frozenset[str]
    """Ids of the relations that the look-alike states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """All documents of a world, in random order."""

    documents: tuple[Document, ...] = ()
    of_entity: dict[str, str] = field(default_factory=dict)
    """Id of each entity's document."""
    sentences: dict[tuple[str, FactKey], str] = field(default_factory=dict)
    """The sentence that states a fact in an entity's document, by entity and fact."""
    look_alikes: dict[str, LookAlike] = field(default_factory=dict)
    """Look-alikes, by the entity that they are like."""
    triples: tuple[KgTriple, ...] = ()
    """All triples that the documents state."""
    kinds: dict[str, str] = field(default_factory=dict)
    """Kinds of the entities with documents, where they are known."""


def key_of(fact: KgFact) -> FactKey:
    """Return the triple of a fact, by which facts are compared."""
    return fact.triple.head, fact.triple.relation, fact.triple.tail


class CorpusWriter:
    """Writes the documents that the questions of a world need, and further ones."""

    def __init__(self, store: KgStore, names: WorldNames, config: WorldConfig) -> None:
        paths = KgPathConfig()
        self._store, self._names, self._config = store, names, config
        self._graph = Graph(store, paths)
        self._one_head = relations_named(store, paths.one_head)
        self._years = frozenset(row for row, each in enumerate(store.relation_names) if is_of_years(each[0]))
        self._passed_over = relations_named(store, (*KIND_RELATIONS.split("|"), *paths.kinds, *paths.roles))
        self._drafts: dict[str, _Draft] = {}
        self._alike: dict[str, _Draft] = {}
        self._made_up: dict[str, _Draft] = {}
        self._stated: dict[FactKey, KgTriple] = {}
        self._false: dict[str, dict[str, str]] = {}
        self._gold: set[FactKey] = set()
        self._led: set[tuple[str, str, bool]] = set()
        """Entity, relation and direction of every gold fact: nothing new may be found this way."""

    def write(self, questions: Sequence[WorldQuestion]) -> Corpus:
        """Write the documents that these questions need, look-alikes, and documents that no question needs, in random
        order.
        """
        for question in questions:
            for _, hop, about in question.looked_up:
                self._take_up(hop, about)
        draw = random.Random(f"{self._config.seed} look-alikes")
        share = self._config.look_alikes and min(1.0, self._config.look_alikes * _SPARE)
        settled: set[tuple[str, FactKey]] = set()
        for question in questions:
            places = [each for each in question.looked_up if len(each[1].facts) == 1]
            if places and draw.random() < share:
                place, hop, about = draw.choice(places)
                if (about.id, key_of(hop.facts[0])) not in settled:
                    self._mislead(question, place, hop, about, draw)
            settled.update((about.id, key_of(fact)) for _, hop, about in question.looked_up for fact in hop.facts)
        self._add_distractors()
        return self._finished()

    def _take_up(self, hop: WorldHop, about: KgNode) -> None:
        draft = self._drafts.setdefault(about.id, self._draft_of(about.id))
        ends = {about.id: about, hop.answer.id: hop.answer}
        for fact in hop.facts:
            other = fact.known if fact.found == about.id else fact.found
            node = ends.get(other) or self._names.node(self._store.row(other))
            draft.facts.setdefault(key_of(fact), (fact, node))
            self._gold.add(key_of(fact))
            self._led.add((fact.known, fact.triple.relation, fact.is_forward))
            if self._store.relation_row(fact.triple.relation) in self._graph.symmetric:
                self._led.add((fact.known, fact.triple.relation, not fact.is_forward))

    def _draft_of(self, entity: str) -> _Draft:
        row = self._store.row(entity)
        return _Draft(node=self._names.node(row), row=row)

    # Look-alikes

    def _mislead(self, question: WorldQuestion, place: int, hop: WorldHop, about: KgNode, draw: random.Random) -> None:
        """Word one fact unlike its sub-question, and set a look-alike beside it that words another one like it."""
        (fact,) = hop.facts
        value, end = self._false_value(question, place, hop, draw)
        if value is None:
            return
        asked = frozenset(words_of(hop.query)) - frozenset(words_of(about.label))
        ways = statements_of(fact, about, hop.answer)
        draft = self._drafts[about.id]
        draft.is_quiet = True
        draft.chosen[key_of(fact)] = min(ways, key=lambda way: way.shared(asked))
        like = self._alike.get(about.id)
        if like is None:
            title = self._names.mistakable(self._store.row(about.id))
            node = KgNode(id=f"{about.id}~", label=title, aliases=(), kind=about.kind, role=draft.node.role, matches=1)
            like = self._alike[about.id] = _Draft(node=node, row=self._store.row(about.id), is_loud=True)
        false = self._false_fact(fact, like.node, value)
        statement = max(statements_of(false, like.node, value), key=lambda way: way.shared(asked))
        like.facts[key_of(false)] = (false, value)
        like.chosen[key_of(false)] = statement
        self._led.add((value.id, fact.triple.relation, not fact.is_forward))
        if about.id not in self._false:
            self._add_false_fillers(like, draw)
        self._false.setdefault(about.id, {})[question.id] = end

    def _add_false_fillers(self, like: _Draft, draw: random.Random) -> None:
        """One or two facts that nobody asks for, as other entities have them; no years, which might not fit."""
        kept_out = self._one_head | self._graph.symmetric | self._years
        fillers = [relation for relation, _ in self._fillers(like.row) if relation not in kept_out]
        for relation in draw.sample(fillers, min(draw.choice((0, 1, 1, 2)), len(fillers))):
            source, row = self._any_triple(relation, True, like.node.kind, draw)
            tail, label = self._names.node(row), self._store.relation_id(relation)
            if (tail.id, label, False) in self._led:
                continue
            fact = self._false_fact(self._names.fact(source, relation, row), like.node, tail)
            if label not in (other.triple.relation for other, _ in like.facts.values()):
                like.facts[key_of(fact)] = (fact, tail)
                self._led.add((tail.id, label, False))

    def _false_fact(self, fact: KgFact, like: KgNode, value: KgNode) -> KgFact:
        """The same relation between others, `like` in place of what is known."""
        head, tail = (like, value) if fact.is_forward else (value, like)
        labels = {"head_label": head.label, "tail_label": tail.label}
        triple = replace(fact.triple, head=head.id, tail=tail.id, **labels)
        return replace(fact, triple=triple, known=like.id, found=value.id)

    def _false_value(
        self, question: WorldQuestion, place: int, hop: WorldHop, draw: random.Random
    ) -> tuple[KgNode | None, str]:
        """Another value of a hop's relation, and where who believes it ends.

        Where the relation leads to what has one such relation alone, to a made-up one: no birthplace is given twice.
        Otherwise one that leads on, and to another answer, if there is any. None when nothing fits.
        """
        (fact,) = hop.facts
        relation = self._store.relation_row(fact.triple.relation)
        onward = question.hops[place + 1] if question.form == "chain" and place + 1 < len(question.hops) else None
        if not fact.is_forward or relation in self._one_head or relation in self._graph.symmetric:
            value = self._names.made_up(hop.answer, f"{question.id} {place}")
            return value, self._made_up_end(question, place + 1, value, draw) if onward else value.label
        spare: KgNode | None = None
        for _ in range(_TRIES):
            kind = hop.about.kind if hop.about else ""
            _, row = self._any_triple(relation, fact.is_forward, kind, draw)
            node = self._names.node(row)
            if not self._may_be_false(question, hop, node, row):
                continue
            if onward is None:
                return node, node.label
            spare = spare or node
            if end := self._end_of(row, onward.facts[0], question):
                return node, end
        return spare, ""

    def _any_triple(self, relation: int, is_forward: bool, kind: str, draw: random.Random) -> tuple[int, int]:
        """What a relation leads from and to somewhere in the graph: from something of this kind, if that is found."""
        sources = self._graph.sources(relation, is_forward)
        some = [int(draw.choice(sources)) for _ in range(_SOURCES)]
        source = next((each for each in some if self._names.node(each).kind == kind), some[0])
        return source, int(draw.choice(self._graph.reached(source, relation, is_forward)))

    def _may_be_false(self, question: WorldQuestion, hop: WorldHop, node: KgNode, row: int) -> bool:
        (fact,) = hop.facts
        is_year = bool(YEAR.fullmatch(node.label))
        if node.id == hop.answer.id or node.id in question.entities or node.label == node.id:
            return False
        if is_year and not (YEAR.fullmatch(hop.answer.label) and abs(int(node.label) - int(hop.answer.label)) <= _NEAR):
            return False
        if node.kind != hop.answer.kind or not (is_year or self._names.is_clear(row)):
            return False
        return (node.id, fact.triple.relation, not fact.is_forward) not in self._led

    def _made_up_end(self, question: WorldQuestion, place: int, known: KgNode, draw: random.Random) -> str:
        """What the next hop finds from a made-up value, which then has a document too."""
        hop = question.hops[place]
        value, end = self._false_value(question, place, hop, draw)
        if value is None:
            return ""
        false = self._false_fact(hop.facts[0], known, value)
        self._led.add((value.id, false.triple.relation, not false.is_forward))
        self._made_up[known.id] = _Draft(node=known, row=None, facts={key_of(false): (false, value)})
        return end

    def _end_of(self, row: int, onward: KgFact, question: WorldQuestion) -> str:
        """What the next hop finds from a false value, which the value's document then states; empty if nothing."""
        relation = self._store.relation_row(onward.triple.relation)
        found = self._graph.reached(row, relation, onward.is_forward)
        if not len(found) or len(found) > _FEW:
            return ""
        end = self._names.node(int(found[0]))
        if end.id == question.answer.id:
            return ""
        about = self._names.node(row)
        triple = self._graph.triple(row, relation, onward.is_forward, int(found[0]))
        ends = (self._store.row(triple.head), self._store.row(triple.tail))
        fact = self._names.fact(ends[0], relation, ends[1], is_forward=triple.head == about.id)
        key, draft = key_of(fact), self._drafts.get(about.id)
        if key in self._gold and not (draft and key in draft.facts):
            return ""  # another document states it
        draft = self._drafts.setdefault(about.id, _Draft(node=about, row=row))
        draft.facts.setdefault(key, (fact, end))
        return end.label if question.num_facts == 2 else ""

    # The others

    def _add_distractors(self) -> None:
        rows = list(range(len(self._store)))
        if len(rows) > 50 * (self._config.distractors + 1):
            rows = random.Random(f"{self._config.seed} rows").sample(rows, 50 * (self._config.distractors + 1))
        else:
            random.Random(f"{self._config.seed} rows").shuffle(rows)
        left = self._config.distractors
        for row in rows:
            if not left:
                return
            key = self._store.id_of(row)
            if key in self._drafts or not self._names.is_clear(row) or not self._fillers(row):
                continue
            self._drafts[key] = _Draft(node=self._names.node(row), row=row)
            left -= 1

    def _fillers(self, row: int | None) -> list[tuple[int, int]]:
        """Relations and tails that an entity's document may state besides."""
        found: list[tuple[int, int]] = []
        if row is None:
            return found
        for relation in self._store.out.relations_of(row).tolist():
            if relation in self._passed_over:
                continue
            for tail in self._store.out.neighbours_of(row, relation).tolist():
                triple = self._store.triple(row, relation, tail)
                key = (triple.head, triple.relation, triple.tail)
                if key not in self._gold and triple.tail_label != triple.tail:
                    found.append((relation, tail))
        return found

    # Writing

    def _finished(self) -> Corpus:
        sentences: dict[tuple[str, FactKey], str] = {}
        written: list[tuple[str, str, str]] = []
        alike = {like.node.id: like for like in self._alike.values()}
        drafts = self._drafts | self._made_up | alike
        for key, draft in drafts.items():
            draw = random.Random(f"{self._config.seed} document {key}")
            lines = self._lines(draft, draw)
            sentences |= {(key, fact): line for facts, line in lines for fact in facts}
            written.append((key, draft.node.label, " ".join(line for _, line in lines)))
        random.Random(f"{self._config.seed} order").shuffle(written)
        ids = {key: f"{number:05d}" for number, (key, _, _) in enumerate(written, start=1)}
        return Corpus(
            documents=tuple(Document(id=ids[key], title=title, text=text) for key, title, text in written),
            of_entity={key: ids[key] for key in self._drafts},
            sentences=sentences,
            look_alikes={
                key: LookAlike(
                    title=like.node.label,
                    document=ids[like.node.id],
                    false_answers=self._false[key],
                    relations=frozenset(fact.triple.relation for fact, _ in like.facts.values()),
                )
                for key, like in self._alike.items()
            },
            triples=tuple(self._stated[key] for key in sorted(self._stated)),
            kinds={each.node.id: each.node.kind for each in drafts.values() if each.node.kind},
        )

    def _lines(self, draft: _Draft, draw: random.Random) -> list[tuple[list[FactKey], str]]:
        """Its sentences, each with the facts that it has to state."""
        told: list[tuple[FactKey, Statement]] = []
        for key, (fact, other) in draft.facts.items():
            self._stated[key] = fact.triple
            told.append((key, draft.chosen.get(key) or self._unlike(told, fact, draft.node, other, draw)))
        room = self._config.max_facts - len(told)
        if not draft.is_loud and draft.row is not None and room > 0:
            fillers = self._fillers(draft.row)
            for relation, tail in draw.sample(fillers, min(room, len(fillers))):
                fact = self._names.fact(draft.row, relation, tail)
                if key_of(fact) not in draft.facts:
                    self._stated[key_of(fact)] = fact.triple
                    told.append((key_of(fact), self._unlike(told, fact, draft.node, self._names.node(tail), draw)))
        draw.shuffle(told)
        intro = _intro(draft.node, is_past=draft.row is not None and self._names.is_past(draft.row))
        lines: list[tuple[list[FactKey], str]] = [([], intro)] if intro else []
        while told:
            key, statement = told.pop(0)
            keys, sentence = [key], _with_subject(statement, draft, bool(lines), draw)
            may_join = statement.predicate and told and told[0][1].predicate and not draft.is_loud
            if may_join and " and " not in sentence and draw.random() < _JOINED:
                key, statement = told.pop(0)
                keys, sentence = [*keys, key], f"{sentence} and {statement.predicate}"
            lines.append((keys, sentence if sentence.endswith(".") else f"{sentence}."))
        return lines

    @staticmethod
    def _unlike(
        told: Sequence[tuple[FactKey, Statement]], fact: KgFact, known: KgNode, found: KgNode, draw: random.Random
    ) -> Statement:
        """A way to state a fact that the document has not used, if there is one."""
        used = {statement.form for _, statement in told}
        ways = statements_of(fact, known, found)
        return draw.choice([way for way in ways if way.form not in used] or ways)


def _intro(node: KgNode, *, is_past: bool) -> str:
    """`Metropolis is a film.`; empty where it is not known what it is."""
    noun = node.role if node.kind == PERSON else node.kind
    if not noun or noun == PERSON:
        return ""
    name = mention_of(node)
    name = node.label if name == f"the {node.kind} {node.label}" else name
    verb = "was" if is_past else "are" if name.endswith((" Mountains", " Islands", " Alps")) else "is"
    return f"{capital(name)} {verb} {article_of(noun)} {noun}."


def _with_subject(statement: Statement, draft: _Draft, is_after: bool, draw: random.Random) -> str:
    """The sentence, with a pronoun or a noun for the name where one is clear."""
    node = draft.node
    if not statement.predicate or not is_after or draft.is_loud or not node.kind:
        return statement.text
    if node.kind == PERSON:
        substitutes = [f"The {node.role}"] if node.role else []
    else:
        substitutes = ["It", "It", f"The {node.kind}"]
    if not substitutes or (not draft.is_quiet and draw.random() < 0.5):
        return statement.text
    return f"{draw.choice(substitutes)} {statement.predicate}"
