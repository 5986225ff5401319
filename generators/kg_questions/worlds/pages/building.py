"""Plan the pages that answer given questions: which facts each states, which are look-alikes, and how searches find
them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace

from trailforge.generators.kg_questions.paths.config import KIND_RELATIONS, KgPathConfig
from trailforge.generators.kg_questions.paths.graph import Graph, relations_named
from trailforge.generators.kg_questions.paths.query import Link
from trailforge.generators.kg_questions.worlds.documents import FactKey, key_of
from trailforge.generators.kg_questions.worlds.names import WorldNames
from trailforge.generators.kg_questions.worlds.pages.trees import TreeQuestion, TreeSampler, WorldFacts
from trailforge.generators.kg_questions.worlds.pages.writing import PageDraft, PageWriter, WrittenPage
from trailforge.generators.kg_questions.worlds.questions import WorldHop, WorldQuestion
from trailforge.generators.kg_questions.worlds.searches import rewordings
from trailforge.generators.kg_questions.worlds.statements import keywords_of, statements_of
from trailforge.retrieval import PageTools, RetrieverConfig
from trailforge.retrieval.kg import KgStore
from trailforge.retrieval.pages import OpenedPage, Paging, open_pages
from trailforge.schemas import Document, KgFact, KgNode, KgTriple

_MOST_FACTS = 12
"""Facts of a page that no question may need."""
_MOST_NAMES = 2
"""Other names of an entity."""
_TRIES = 20
"""Values that are tried for a false fact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedHop:
    """One hop of a question with the page that answers it, which is a line of `hops.jsonl`."""

    question_id: str
    hop: int
    """Number of the hop, from 1."""
    query: str
    """A search, with the names of what was found before, that has the page among its passages."""
    answer: str
    answer_names: tuple[str, ...]
    """All names of the hop's answer in the world."""
    page: str
    """Id of the page that is needed."""
    title: str
    parts: tuple[int, ...]
    """Parts of the page in which the sentences stand."""
    sentences: tuple[str, ...]
    """Sentences that state the answer."""
    rank: int
    """Rank of the page's first passage in that search, from 1."""
    queries: tuple[str, ...]
    """A search for each fact that the page has to state. Where two of them tell the answer, each finds others, too."""
    half_fits: tuple[str, ...]
    """Ids of pages of others that satisfy one of two facts: only their pages show that they miss the other."""
    look_alike: str
    """Id of a page that may be taken for it; empty where there is none."""
    false_answer: str
    """The answer that the question gets when that page is believed at this hop; empty where the trail ends before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageWorld:
    """All pages of a world, and the questions of which every hop can be found by search."""

    documents: tuple[Document, ...]
    questions: tuple[TreeQuestion, ...]
    hops: dict[str, tuple[SearchedHop, ...]]
    """Hops of each question, by question."""
    triples: tuple[KgTriple, ...]
    """All triples that the pages state, look-alikes included."""
    kinds: dict[str, str]
    """Kinds of the entities with pages, where they are known."""
    other_names: dict[str, tuple[str, ...]]
    """Other names of each entity."""
    of_two_readings: int = 0
    """Number of questions that were left out as `country` has two readings there, with two answers."""


class PageBuilder:
    """Collects the facts that pages state, and writes the pages."""

    def __init__(self, store: KgStore, names: WorldNames, sampler: TreeSampler, seed: int) -> None:
        paths = KgPathConfig()
        self._store, self._names, self._sampler = store, names, sampler
        self._graph = Graph(store, paths)
        self._left_out = relations_named(store, (*KIND_RELATIONS.split("|"), *paths.kinds, *paths.roles))
        self._random = random.Random(f"{seed} pages")
        self._drafts: dict[str, PageDraft] = {}
        self._alike: dict[str, PageDraft] = {}
        self._home: dict[FactKey, str] = {}
        self._questions: list[TreeQuestion] = []
        self._made_up: dict[str, KgNode] = {}
        """Values of false facts that no graph has, by id."""
        self._many_tails, self._one_head = (relations_named(store, each) for each in (paths.many_tails, paths.one_head))
        self._false: dict[tuple[str, str], str] = {}
        self._half_fits: dict[tuple[str, int], list[str]] = {}
        """Those that share one fact with an entity, by the entity and the fact's relation."""
        self._other_names: dict[str, tuple[str, ...]] = {}
        self.facts = WorldFacts(store)
        self.of_two_readings = 0
        """Questions that were left out as `country` can be read in two ways there, with two answers."""

    def take(self, asked: TreeQuestion) -> bool:
        """Add the facts that a question needs; returns False, and adds none, where a page of another question already
        states one of them.
        """
        needed = [(key_of(fact), about) for _, hop, about in asked.question.looked_up for fact in hop.facts]
        if any(self._home.get(key, about.id) != about.id for key, about in needed):
            return False
        for _, hop, about in asked.question.looked_up:
            for fact in hop.facts:
                other = fact.known if fact.found == about.id else fact.found
                self._state(about.id, fact, self._names.node(self._store.row(other)))
        self._questions.append(asked)
        return True

    def fill(self, pages: int, half_fits: int) -> None:
        """Add further facts to the questions' pages, and pages that no question needs, until there are `pages` pages.

        The first of these are of other entities that satisfy one of two facts which together identify an entity: up to
        `half_fits` for each such fact.
        """
        for asked in self._questions:
            for node in asked.root.below():
                for link in node.links if len(node.links) > 1 else ():
                    self._add_half_fits(node.row, link, half_fits)
        for key in tuple(self._drafts):
            self._add_facts(key)
        rows = self._random.sample(range(len(self._store)), len(self._store))
        for row in rows:
            if len(self._drafts) >= pages:
                return
            key = self._store.id_of(row)
            if key not in self._drafts and self._sampler.is_page(row):
                self._add_facts(key)

    def mislead(self, per_question: int) -> None:
        """Add `per_question` look-alike pages at most for hops of each question, none of which gives any question a
        second answer.

        First the questions are dropped that the pages do not have exactly one answer to: pages also state past facts,
        and a constituent country may be taken for a country.
        """
        borne = [each for each in self._questions if self.facts.bears_out(each.root)]
        self._questions = [each for each in borne if not self.facts.answers_of_others(each.root, self._kind)]
        self.of_two_readings = len(borne) - len(self._questions)
        for asked in self._questions:
            places = {about.id: about for _, _, about in asked.question.looked_up}
            left = per_question
            for about in self._random.sample(list(places.values()), len(places)):
                if left and self._add_look_alike(asked, about):
                    left -= 1

    def _add_half_fits(self, row: int, link: Link, most: int) -> None:
        """Pages of others than this entity to which a link leads as well, each of which states that."""
        reached = self._graph.reached(link.child.row, link.relation, link.is_forward).tolist()
        others = [other for other in reached if other != row and self._sampler.is_page(other)]
        told_of = self._names.node(link.child.row)
        found = self._half_fits.setdefault((self._store.id_of(row), link.relation), [])
        for other in self._random.sample(others, min(len(others), most)):
            ends = (link.child.row, other) if link.is_forward else (other, link.child.row)
            fact = self._names.fact(ends[0], link.relation, ends[1], is_forward=link.is_forward)
            entity = self._store.id_of(other)
            if self._home.get(key_of(fact), entity) == entity:
                self._state(entity, fact, told_of)
                found.append(entity)

    def _state(self, entity: str, fact: KgFact, other: KgNode) -> None:
        draft = self._drafts.get(entity) or self._new_draft(entity)
        draft.facts.setdefault(key_of(fact), (fact, other))
        self._home[key_of(fact)] = entity
        self.facts.add([key_of(fact)])

    def _new_draft(self, entity: str) -> PageDraft:
        row = self._store.row(entity)
        node = self._names.node(row)
        others = [name for name in node.aliases if self._is_own(name)][:_MOST_NAMES]
        others = others or [self._names.made_up(node, f"other name of {entity}").label]
        self._other_names[entity] = tuple(others)
        draft = self._drafts[entity] = PageDraft(id="", node=node, row=row, other_names=tuple(others))
        return draft

    def _is_own(self, name: str) -> bool:
        return len(name) > 3 and name[:1].isupper() and len(self._store.namesakes(name)) == 1

    def _add_facts(self, entity: str) -> None:
        row = self._store.row(entity)
        ways = [
            (relation, tail)
            for relation in self._store.out.relations_of(row).tolist()
            if relation not in self._left_out
            for tail in self._store.out.neighbours_of(row, relation).tolist()
            if self._store.is_named(tail)
        ]
        for relation, tail in self._random.sample(ways, min(len(ways), _MOST_FACTS)):
            fact = self._names.fact(row, relation, tail)
            if key_of(fact) not in self._home:
                self._state(entity, fact, self._names.node(tail))

    # Look-alikes

    def _add_look_alike(self, asked: TreeQuestion, about: KgNode) -> bool:
        """A page that is easily taken for one that the question needs. False where none fits."""
        row = self._store.row(about.id)
        title = self._names.mistakable(row)
        like = KgNode(id=f"{about.id}~", label=title, aliases=(), kind=about.kind, role=about.role, matches=1)
        false: dict[FactKey, tuple[KgFact, KgNode]] = {}
        for _, hop, owner in asked.question.looked_up:
            if owner.id == about.id:
                for number, fact in enumerate(hop.facts):
                    is_kept = len(hop.facts) > 1 and number == 0  # it fits half of a description
                    false |= self._false_fact(asked.question, fact, about, like, is_kept=is_kept)
        have = self._alike.get(about.id)
        new = [key for key in false if have is None or key not in have.facts]
        if not false or (have is not None and self._speaks_twice(have, false)):
            return False
        self.facts.add(new)
        if not all(self.facts.bears_out(each.root) for each in self._questions):
            self.facts.remove(new)
            return False
        draft = have or self._alike.setdefault(about.id, PageDraft(id="", node=like, row=None, other_names=()))
        draft.facts.update(false)
        ends = self.facts.satisfying(asked.root, {row: like.id})
        self._false[asked.question.id, about.id] = self._label(next(iter(ends))) if len(ends) == 1 else ""
        return True

    @staticmethod
    def _speaks_twice(have: PageDraft, false: dict[FactKey, tuple[KgFact, KgNode]]) -> bool:
        """Does a look-alike say another value of one of these relations already?"""
        said = {fact.triple.relation for fact, _ in have.facts.values()}
        return any(key not in have.facts and fact.triple.relation in said for key, (fact, _) in false.items())

    def _false_fact(
        self, question: WorldQuestion, fact: KgFact, about: KgNode, like: KgNode, *, is_kept: bool
    ) -> dict[FactKey, tuple[KgFact, KgNode]]:
        """The fact with the look-alike in place of the entity, and another value at its other end unless it is kept.

        A made-up value where the graph's own have another such fact already: nobody dies in two places.
        """
        is_head = fact.triple.head == about.id
        own = fact.triple.tail if is_head else fact.triple.head
        other = self._names.node(self._store.row(own))
        relation = self._store.relation_row(fact.triple.relation)
        if not is_kept and (relation in self._one_head if is_head else relation not in self._many_tails):
            other = self._names.made_up(other, f"{like.id} {fact.triple.relation}")
            self._made_up[other.id] = other
        elif not is_kept:
            sources = self._graph.sources(relation, not is_head)
            some = (self._names.node(int(self._random.choice(sources))) for _ in range(_TRIES))
            fits = (each for each in some if each.id not in {own, about.id, *question.entities})
            found = next((each for each in fits if each.kind == other.kind and each.label != each.id), None)
            if found is None:
                return {}
            other = found
        head, tail = (like, other) if is_head else (other, like)
        triple = replace(fact.triple, head=head.id, tail=tail.id, head_label=head.label, tail_label=tail.label)
        is_known = fact.known == about.id
        ends = {"known": like.id, "found": other.id} if is_known else {"known": other.id, "found": like.id}
        return {(head.id, triple.relation, tail.id): (replace(fact, triple=triple, **ends), other)}

    def _kind(self, entity: str) -> str:
        return self._names.node(self._store.row(entity)).kind

    def _label(self, entity: str) -> str:
        if entity in self._made_up:
            return self._made_up[entity].label
        if entity.endswith("~"):
            return self._alike[entity.removesuffix("~")].node.label
        return self._names.label(self._store.row(entity))

    # Writing

    def written(self, words: int, paging: Paging, passages: int, seed: int) -> PageWorld:
        """Return the world with its pages written, each of at least `words` words, and the questions of which a search
        finds every hop among its first `passages` passages. `paging` cuts documents into pages.
        """
        drafts = [*self._drafts.values(), *self._alike.values()]
        random.Random(f"{seed} order").shuffle(drafts)
        for number, draft in enumerate(drafts, start=1):
            draft.id = f"{number:05d}"
        writer = PageWriter(self._names, self._other_names, words, seed)
        pages = {draft.node.id: writer.write(draft) for draft in drafts}
        documents = tuple(pages[draft.node.id].document for draft in drafts)
        tools = open_pages(documents, RetrieverConfig(kind="bm25"), paging=paging).tools
        measured = {each.question.id: self._searched(each, pages, tools, paging, passages) for each in self._questions}
        hops = {key: found for key, found in measured.items() if found is not None}
        return PageWorld(
            documents=documents,
            questions=tuple(each for each in self._questions if each.question.id in hops),
            hops=hops,
            triples=tuple(fact.triple for draft in drafts for fact, _ in draft.facts.values()),
            kinds={draft.node.id: draft.node.kind for draft in drafts if draft.node.kind},
            other_names=self._other_names,
            of_two_readings=self.of_two_readings,
        )

    def _searched(
        self, asked: TreeQuestion, pages: dict[str, WrittenPage], tools: PageTools, paging: Paging, passages: int
    ) -> tuple[SearchedHop, ...] | None:
        """The hops of a question; None where an agent's search does not find the page of one."""
        found: list[SearchedHop] = []
        for place, hop, about in asked.question.looked_up:
            page = pages[about.id]
            search = asyncio.run(_first_found(page.document.id, self._searches_of(hop, about), tools, passages))
            if search is None:
                return None
            opened = OpenedPage(page.document.id, page.document.title, page.document.text, paging.words)
            sentences = tuple(page.sentences[key_of(fact)] for fact in hop.facts)
            parts = {opened.part_at(opened.text.index(sentence)) for sentence in sentences}
            false = self._false.get((asked.question.id, about.id))
            found.append(
                SearchedHop(
                    question_id=asked.question.id,
                    hop=place + 1,
                    query=search[0],
                    answer=hop.answer.label,
                    answer_names=self.names_of(hop),
                    page=page.document.id,
                    title=page.document.title,
                    parts=tuple(sorted(parts)),
                    sentences=sentences,
                    rank=search[1],
                    queries=tuple(self._queries_of(fact, hop)[0] for fact in hop.facts),
                    half_fits=tuple(pages[each].document.id for each in self._half_fits_of(hop, about)),
                    look_alike="" if false is None else pages[f"{about.id}~"].document.id,
                    false_answer=false or "",
                )
            )
        return tuple(found)

    def _queries_of(self, fact: KgFact, hop: WorldHop) -> list[str]:
        """Searches for one fact: as a sentence says it, and by the name that is known with the relation."""
        known = self._names.node(self._store.row(fact.known))
        return [*(each.query for each in statements_of(fact, known, hop.answer)), *keywords_of(fact, known)]

    def _searches_of(self, hop: WorldHop, about: KgNode) -> list[str]:
        """All searches for what a hop looks up; where two facts meet, for each of them alone as well."""
        alone = [query for fact in hop.facts for query in self._queries_of(fact, hop)] if len(hop.facts) > 1 else []
        return list(dict.fromkeys([*rewordings(hop, about), *alone]))

    def _half_fits_of(self, hop: WorldHop, about: KgNode) -> list[str]:
        if len(hop.facts) < 2:
            return []
        relations = [self._store.relation_row(fact.triple.relation) for fact in hop.facts]
        shared = [entity for each in relations for entity in self._half_fits.get((about.id, each), ())]
        return list(dict.fromkeys(shared))

    def names_of(self, hop: WorldHop) -> tuple[str, ...]:
        """Return all names of the entity that a hop finds."""
        others = (*hop.answer.aliases, *self._other_names.get(hop.answer.id, ()))
        return tuple(dict.fromkeys((hop.answer.label, *others)))


async def _first_found(page: str, queries: Iterable[str], tools: PageTools, passages: int) -> tuple[str, int] | None:
    """The first query that has a passage of the page among its passages, and its rank."""
    for query in queries:
        for rank, hit in enumerate(await tools.search(query, passages), start=1):
            if hit.page == page:
                return query, rank
    return None
