"""Search a world with the project's BM25 for each question's documents, and decide by that which questions are kept.

A question is *clean* when a search in the words of each sub-question has the right document first. It is *misled* when
at one hop or more a look-alike is first instead, and another wording of the same fact has the right one first. No other
question is kept, and none of which a hop's document does not say what is looked up.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trailforge.generators.kg_questions.worlds.config import WorldConfig
from trailforge.generators.kg_questions.worlds.documents import Corpus, key_of
from trailforge.generators.kg_questions.worlds.files import NAME
from trailforge.generators.kg_questions.worlds.questions import WorldHop, WorldQuestion
from trailforge.generators.kg_questions.worlds.statements import keywords_of, statements_of
from trailforge.pipelines.sources import Demand, traits_of
from trailforge.retrieval import Retriever
from trailforge.rewards import mentions
from trailforge.schemas import Hop, KgNode, Passage, Question, SupportingDocument

_INSTEAD = "instead"
"""What stands in the place of questions that quotas ask for and the graph has not."""
_MOST_OF_ONE = 0.02
"""Share of the questions that may have one answer: what a guesser gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSearch:
    """One hop of a question with its search results, which is a line of `searches.jsonl`."""

    question_id: str
    kind: str
    """Kind of the question: `1 hop`, `2 hops`, `comparison`. Two facts that meet are two hops, and one search."""
    hop: int
    """Number of the hop, from 1."""
    query: str
    """The sub-question, with the names of what was found before."""
    answer: str
    document: str
    """Id of the document that states the answer."""
    title: str
    sentences: tuple[str, ...]
    """Sentences that state the answer."""
    rank: int | None
    """Rank of the document in a search for `query`, from 1; None when it is not among the passages."""
    first_title: str
    """Title of the document that is first."""
    is_misled: bool
    """Whether the first document is a look-alike."""
    reworded: str
    """A query that has the right document first; `query` itself where it does."""
    false_answer: str
    """The answer of the question when the look-alike of a misleading hop is believed, where the graph goes on from
    there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedQuestion:
    """A question of a world with the results of a search for each of its hops."""

    question: WorldQuestion
    searches: tuple[WorldSearch, ...]
    is_found_at_once: bool
    """Whether one search in the question's own words brings a passage that has the answer."""

    @property
    def is_misled(self) -> bool:
        """Tell whether a look-alike document is ranked first at some hop."""
        return any(search.is_misled for search in self.searches)


def rewordings(hop: WorldHop, about: KgNode) -> list[str]:
    """Return alternative queries for what a hop looks up: every way to state its fact about the entity `about`, and
    that entity's name with the relation.
    """
    queries = [hop.query]
    for fact in hop.facts:
        if about.id == hop.answer.id:
            continue  # two facts that meet: nothing is known but the question
        queries += [statement.query for statement in statements_of(fact, about, hop.answer)]
        queries += keywords_of(fact, about)
    return list(dict.fromkeys(queries))


def measure(
    questions: Iterable[WorldQuestion], corpus: Corpus, retriever: Retriever, passages: int
) -> Iterable[SearchedQuestion | None]:
    """Yield each question with its searches over the world's documents, of whose results the first `passages` are kept;
    None for one that is neither clean nor misled, as the module defines these.
    """
    searcher = _Searcher(corpus, retriever, passages, {each.id: each.text for each in corpus.documents})
    for question in questions:
        yield asyncio.run(searcher.measured(question))


@dataclass(slots=True)
class _Searcher:
    corpus: Corpus
    retriever: Retriever
    passages: int
    texts: dict[str, str]

    async def measured(self, question: WorldQuestion) -> SearchedQuestion | None:
        searches: list[WorldSearch] = []
        for place, hop, about in question.looked_up:
            search = await self._searched(question, place, hop, about)
            if search is None:
                return None
            searches.append(search)
        found = await self.retriever.retrieve(question.question, self.passages)
        golds = (question.answer.label, *question.answer.aliases)
        at_once = any(mentions(passage.text, gold) for passage in found for gold in golds)
        return SearchedQuestion(question=question, searches=tuple(searches), is_found_at_once=at_once)

    async def _searched(self, question: WorldQuestion, place: int, hop: WorldHop, about: KgNode) -> WorldSearch | None:
        document = self.corpus.of_entity[about.id]
        sentences = tuple(dict.fromkeys(self.corpus.sentences[about.id, key_of(fact)] for fact in hop.facts))
        if not self._states(document, sentences, hop, about):
            return None
        found = await self.retriever.retrieve(hop.query, self.passages)
        if not found:
            return None
        ranks = {passage.id: rank for rank, passage in enumerate(found, start=1)}
        alike = self.corpus.look_alikes.get(about.id)
        relations = alike.relations if alike else frozenset[str]()
        is_first = alike is not None and found[0].id == alike.document
        is_misled = is_first and all(fact.triple.relation in relations for fact in hop.facts)
        reworded = hop.query
        if found[0].id != document:
            if not is_misled:
                return None
            better = await self._first_that_finds(document, rewordings(hop, about))
            if better is None:
                return None
            reworded = better
        return WorldSearch(
            question_id=question.id,
            kind=kind_of(question),
            hop=place + 1,
            query=hop.query,
            answer=hop.answer.label,
            document=document,
            title=about.label,
            sentences=sentences,
            rank=ranks.get(document),
            first_title=found[0].title,
            is_misled=is_misled,
            reworded=reworded,
            false_answer=alike.false_answers.get(question.id, "") if alike and is_misled else "",
        )

    def _states(self, document: str, sentences: Sequence[str], hop: WorldHop, about: KgNode) -> bool:
        """Does the document have these sentences, and they the other ends of the facts?"""
        triples = [fact.triple for fact in hop.facts]
        ends = [each.tail_label if each.head == about.id else each.head_label for each in triples]
        text = self.texts[document]
        has_all = all(sentence in text for sentence in sentences)
        return has_all and all(any(mentions(sentence, end) for sentence in sentences) for end in ends)

    async def _first_that_finds(self, document: str, queries: Sequence[str]) -> str | None:
        for query in queries:
            found: list[Passage] = await self.retriever.retrieve(query, 1)
            if found and found[0].id == document:
                return query
        return None


@dataclass(slots=True)
class _Quota:
    """How many questions of one kind are still wanted."""

    misled: int
    clean: int
    at_once: int

    @property
    def left(self) -> int:
        return self.misled + self.clean


@dataclass(slots=True)
class Chooser:
    """Chooses searched questions in order until there are enough of each kind for each split; the splits share no
    entity.
    """

    config: WorldConfig
    chosen: dict[str, list[SearchedQuestion]] = field(default_factory=dict)
    """The chosen questions by split: `questions`, and `test` where one is wanted."""
    is_short: bool = False
    """Whether there were too few questions of one sort."""
    _quotas: dict[str, dict[str, _Quota]] = field(default_factory=dict)
    _owner: dict[str, str] = field(default_factory=dict)
    _answers: dict[str, Counter[str]] = field(default_factory=dict)

    def choose(self, candidates: Sequence[SearchedQuestion]) -> None:
        """Choose among the candidates: first with the wanted share of misled questions, then clean ones for missing
        misled ones or the reverse, and last any questions in place of those that quotas cannot get.
        """
        self.chosen = {split: [] for split in self._sizes()}
        self._answers = {split: Counter() for split in self._sizes()}
        self._owner = {}
        self._quotas = {split: _quotas_of(split, size, self.config) for split, size in self._sizes().items()}
        left = [each for each in candidates if not self._take(each, is_strict=True)]
        self.is_short = any(quota.left for quotas in self._quotas.values() for quota in quotas.values())
        left = [each for each in left if not self._take(each, is_strict=False)]
        if short := sum(quota.left for quota in self._quotas["questions"].values()) * bool(self.config.demand.quotas):
            self._quotas["questions"][_INSTEAD] = _Quota(misled=0, clean=short, at_once=short)
            for each in left:
                self._take(each, is_strict=False)

    def missing(self) -> dict[str, int]:
        """Return how many questions are still wanted, by kind (see `kind_of`), over all splits."""
        found: Counter[str] = Counter()
        for quotas in self._quotas.values():
            found.update({kind: quota.left for kind, quota in quotas.items() if kind != _INSTEAD})
        return dict(+found)

    @property
    def is_full(self) -> bool:
        """Tell whether every split has as many questions as are wanted, of whatever kinds."""
        return all(len(self.chosen[split]) == size for split, size in self._sizes().items())

    def _sizes(self) -> dict[str, int]:
        sizes = {"questions": self.config.questions, "test": self.config.test_questions}
        return {split: size for split, size in sizes.items() if size}

    def _take(self, each: SearchedQuestion, *, is_strict: bool) -> bool:
        kinds = {split: self._kind(split, each, is_strict) for split in self.chosen}
        splits = [split for split in self.chosen if self._may_take(split, kinds[split], each, is_strict)]
        if not splits:
            return False
        sizes = self._sizes()
        split = min(splits, key=lambda name: len(self.chosen[name]) / sizes[name])
        quota = self._quotas[split][kinds[split]]
        if (each.is_misled and quota.misled) or not quota.clean:
            quota.misled -= 1
        else:
            quota.clean -= 1
        quota.at_once -= each.is_found_at_once
        self._answers[split][each.question.answer.id] += 1
        self._owner.update(dict.fromkeys(each.question.entities, split))
        self.chosen[split].append(each)
        return True

    def _kind(self, split: str, each: SearchedQuestion, is_strict: bool) -> str:
        """What its quota is called: by the form of the question, or, where there are any, by quotas that people set."""
        demand = self.config.demand
        if split == "test" or not demand.quotas:
            return kind_of(each.question)
        names, left = names_of(demand), list[int]()
        for asked, name in zip(demand.quotas, names, strict=True):
            quota = self._quotas[split][name]
            takes_both = not is_strict and asked.misleads is None
            left.append(quota.left if takes_both else quota.misled if each.is_misled else quota.clean)
        traits = replace(traits_of(as_question(each)), is_blurred=each.question.is_blurred)
        place = demand.quota_of(traits, left)
        return names[place] if place is not None else _INSTEAD

    def _may_take(self, split: str, kind: str, each: SearchedQuestion, is_strict: bool) -> bool:
        quota = self._quotas[split].get(kind)
        if quota is None or (not (quota.misled if each.is_misled else quota.clean) and (is_strict or not quota.left)):
            return False
        if each.is_found_at_once and quota.at_once <= 0:
            return False
        if self._answers[split][each.question.answer.id] >= most_per_answer(self._sizes()[split]):
            return False
        return all(self._owner.get(entity, split) == split for entity in each.question.entities)


def most_per_answer(questions: int) -> int:
    """Return how many questions may share an answer, out of this number of questions."""
    return max(1, int(_MOST_OF_ONE * questions))


def kind_of(question: WorldQuestion) -> str:
    """Return a question's kind, by which quotas count it: `1 hop`, `2 hops`, `comparison`."""
    if question.form == "comparison":
        return question.form
    return f"{question.num_facts} hop{'s' if question.num_facts > 1 else ''}"


def names_of(demand: Demand) -> list[str]:
    """Return the kinds that the quotas of a demand ask for in a world."""
    return [f"{place}. {quota}" for place, quota in enumerate(demand.quotas, start=1)]


def as_question(each: SearchedQuestion) -> Question:
    """Return the question as a `Question`, the form that all readers of questions take."""
    question = each.question
    return Question(
        id=question.id,
        question=question.question,
        answer=question.answer.label,
        answer_aliases=question.answer.aliases,
        decomposition=tuple(Hop(question=hop.question, answer=hop.answer.label) for hop in question.hops),
        dataset=NAME,
        num_hops=len(each.searches),
        supporting=tuple(SupportingDocument(title=search.title, facts=search.sentences) for search in each.searches),
    )


def _quotas_of(split: str, size: int, config: WorldConfig) -> dict[str, _Quota]:
    """Of a split: those of the configuration, or, where people set some, those."""
    demand = config.demand
    if split == "test" or not demand.quotas:
        return _quotas(size, config)
    quotas: dict[str, _Quota] = {}
    for name, asked, count in zip(names_of(demand), demand.quotas, demand.counts(size), strict=True):
        share = config.look_alikes if asked.misleads is None else float(asked.misleads)
        misled = round(count * share)
        # One document has a description and the fact that leads on from it.
        is_free = asked.hops == 1 + bool(asked.blurred) or asked.shape == "comparison"
        at_once = count if is_free else max(1, int(count * config.found_at_once)) * bool(config.found_at_once)
        quotas[name] = _Quota(misled=misled, clean=count - misled, at_once=at_once)
    return quotas


def _quotas(size: int, config: WorldConfig) -> dict[str, _Quota]:
    compared = round(size * config.comparisons)
    counts = {"comparison": compared} if compared else {}
    for place, hops in enumerate(config.hops):
        share = (size - compared) // len(config.hops) + (place < (size - compared) % len(config.hops))
        counts[f"{hops} hop{'s' if hops > 1 else ''}"] = share
    quotas: dict[str, _Quota] = {}
    before = 0
    for kind, count in counts.items():
        # Rounded together, so that two odd kinds do not lose a question each.
        misled = round((before + count) * config.look_alikes) - round(before * config.look_alikes)
        before += count
        is_free = kind in ("comparison", "1 hop")
        at_once = count if is_free else int(count * config.found_at_once)
        quotas[kind] = _Quota(misled=misled, clean=count - misled, at_once=at_once)
    return quotas


def figures_of(chosen: dict[str, list[SearchedQuestion]], corpus: Corpus, config: WorldConfig) -> dict[str, Any]:
    """Return the measured figures of the chosen questions over the world's documents, with `config.passages` passages a
    search.
    """
    every = [each for questions in chosen.values() for each in questions]
    needed = {search.document for each in every for search in each.searches}
    alike = {like.document for like in corpus.look_alikes.values()}
    return {
        "documents": len(corpus.documents),
        "gold_documents": len(needed),
        "look_alikes": len(alike),
        "distractors": len(corpus.documents) - len(needed | alike),
        "passages": config.passages,
        **{split: _of_split(questions) for split, questions in chosen.items()},
    }


def _of_split(questions: Sequence[SearchedQuestion]) -> dict[str, Any]:
    answers = [each.question.answer.label for each in questions]
    count = len(questions)
    longer = [each for each in questions if kind_of(each.question) not in ("comparison", "1 hop")]
    return {
        "count": count,
        "by_kind": dict(sorted(Counter(kind_of(each.question) for each in questions).items())),
        "misled": sum(each.is_misled for each in questions),
        "misled_at_first_search": sum(each.searches[0].is_misled for each in questions),
        "blurred": sum(each.question.is_blurred for each in questions),
        "misled_share": round(sum(each.is_misled for each in questions) / count, 4),
        "most_frequent_answer": round(max(map(answers.count, answers)) / count, 4),
        "found_at_once": round(sum(each.is_found_at_once for each in longer) / len(longer), 4) if longer else None,
    }


def describe(figures: dict[str, Any]) -> str:
    """Return the figures of `figures_of` as text for people."""
    lines = [
        f"{figures['documents']:,} documents: {figures['gold_documents']:,} that questions need, "
        f"{figures['look_alikes']:,} look-alikes, {figures['distractors']:,} others"
    ]
    for split in ("questions", "test"):
        if found := figures.get(split):
            kinds = ", ".join(f"{number:,} of {kind}" for kind, number in found["by_kind"].items())
            lines.append(
                f"{split}: {found['count']:,} ({kinds}); a look-alike is first for {found['misled']:,} "
                f"({found['misled_share']:.0%}), at the first search for {found['misled_at_first_search']:,}; "
                f"most frequent answer {found['most_frequent_answer']:.1%}"
            )
            if found["found_at_once"] is not None:
                lines[-1] += f"; one search finds {found['found_at_once']:.0%} of the longer ones"
    return "\n".join(lines)
