"""HippoRAG 2 (Gutiérrez et al., 2025): a graph of phrases and passages, searched from the facts nearest to a question.

Facts join phrases, phrases of one meaning are joined, and a passage is joined to the phrases of its facts. A search
takes the facts nearest to the question, has those filtered that do not belong to it, and ranks passages by personalised
PageRank from the phrases of what is left and, faintly, from passages near to the question. Where no fact is left,
passages come in the order of their embeddings.

`hippo_rag` is built by a model: facts are triples (two calls a passage), and the filter is one call a question.
`hippo_rag_plain` asks none: a fact is a sentence about the names in it and its title, and the filter keeps facts about
names in the question.

Not as published: prompts are ours; phrases are one when they are but for accents, capitals, marks and an article;
pronouns are none; those with other numbers are not of one meaning; and of many phrases not all are compared.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from trailforge.inference import INTEGER, Sampling, fill, list_schema, object_schema
from trailforge.retrieval.backends.declaration import Backend, FoundPassage, Workbench
from trailforge.retrieval.backends.facts import (
    FactTable,
    NearRows,
    StatedFact,
    model_triples,
    plan_model_triples,
)
from trailforge.retrieval.backends.graph import Link, NameFinder, PassageGraph, Place, key_of, linked, min_max, row_of
from trailforge.retrieval.backends.vectors import EmbeddedTexts, Vectors, best_rows, embed
from trailforge.retrieval.backends.writing import PROMPTS, ask_in_shards
from trailforge.schemas import ITEM_ERRORS, Document, RetrievalError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_BY_EMBEDDING = "near to the question"
_PER_SHARD = 32
"""Passages that a model reads at once."""
_ROWS = 1024
"""Phrases whose neighbours are looked up at once."""
_LISTS = 16
"""Lists of phrases that are compared at once."""
_LOST = "lost.npy"
_VECTORS = ("passages", "facts", "phrases")
_NUMBER = re.compile(r"\d+")
_USEFUL = object_schema(useful=list_schema(INTEGER))


@dataclass(frozen=True, slots=True, kw_only=True)
class HippoRagConfig:
    """Settings of HippoRAG 2: the numbers of the paper and its released code, except for sampling, which suits models
    that reason."""

    facts: Literal["sentences", "model"] = "model"
    filter: Literal["entities", "model", "none"] = "model"
    """Facts that a search keeps: those about a name in the question, where the walk then also begins; those near to it
    that a model finds useful (the paper's recognition memory); or all that are near to it."""
    top_facts: int = 5
    top_phrases: int = 5
    """Number of phrases of those facts at which the walk begins."""
    name_weight: float = 2.0
    """Weight of a name in the question, compared with a fact's score, with the filter by entities."""
    damping: float = 0.5
    passage_weight: float = 0.05
    """Weight of passages near to the question, where a walk begins, compared with that of phrases."""
    synonym_similarity: float = 0.8
    """Cosine from which on two phrases are joined."""
    synonyms: int = 100
    """Largest number of phrases that one is joined to, the nearest."""
    compared_up_to: int = 25_000
    """Number of phrases up to which each is compared with all others; among more with those of so many near lists that
    99 of 100 that are near enough are found."""
    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 8192
    """Largest number of tokens of a reply, thoughts included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HippoRagPlainConfig(HippoRagConfig):
    """Settings of HippoRAG without a model; facts and filter are trailforge's own."""

    facts: Literal["sentences"] = "sentences"
    filter: Literal["entities", "none"] = "entities"


@dataclass(frozen=True, slots=True)
class FactGraph:
    """The graph, facts and vectors that an index stores."""

    table: FactTable
    finder: NameFinder
    passages: Vectors
    facts: Vectors
    phrases: Vectors
    graph: PassageGraph
    """The graph whose nodes are phrases, then passages."""
    lost: int
    """Number of passages without facts, because a model's replies could not be used."""
    searched: tuple[int, float] = (0, 1.0)
    """See `NearRows.searched`, of synonyms."""

    def save(self, folder: Path) -> None:
        """Write the graph, facts and vectors to files in a folder."""
        for name in _VECTORS:
            getattr(self, name).save(folder / f"{name}.npy")
        self.table.save(folder)
        self.finder.save(folder)
        self.graph.save(folder)
        np.save(folder / _LOST, [self.lost, *self.searched])

    @classmethod
    def open(cls, folder: Path) -> FactGraph:
        """Open the files that `save` wrote, memory-mapped. Raises `RetrievalError` for other files."""
        vectors = {name: Vectors.open(folder / f"{name}.npy") for name in _VECTORS}
        lost, lists, recall = _open_figures(folder / _LOST)
        return cls(
            table=FactTable.open(folder),
            finder=NameFinder.open(folder),
            graph=PassageGraph.open(folder),
            lost=int(lost),
            searched=(int(lists), recall),
            **vectors,
        )


def _open_figures(path: Path) -> list[float]:
    """`lost`, and `searched`: an index from before there were lists has `lost` alone."""
    try:
        return [*np.load(path).astype(float).ravel().tolist(), 0.0, 1.0][:3]
    except (OSError, ValueError, EOFError, TypeError) as error:
        raise RetrievalError(f"{path} is missing or damaged ({error}): build the index again") from error


class NearFacts(NamedTuple):
    """The facts and phrases at which a search begins."""

    facts: dict[int, float]
    """Score of each fact by its row, 0 to 1 among all facts, best first."""
    names: list[int]
    """Rows of phrases that the question names."""


class HippoRagIndex:
    """An `Index` that walks from facts to passages."""

    def __init__(
        self, parts: FactGraph, documents: Sequence[Document], config: HippoRagConfig, tools: Workbench
    ) -> None:
        self.parts = parts
        self.documents, self._config, self._tools = documents, config, tools
        self._phrases = parts.table.phrases
        self._passages_with = np.bincount(parts.table.held.indices, minlength=len(self._phrases.keys)).tolist()

    @property
    def stats(self) -> dict[str, Any]:
        """Return sizes, how many passages have no facts because a model's reply could not be used, and how synonyms
        were searched unless all phrases were compared."""
        parts, (lists, recall) = self.parts, self.parts.searched
        sizes = {"facts": len(parts.facts), "phrases": len(parts.phrases), "lost_passages": parts.lost}
        return sizes | ({"synonym_lists": lists, "synonym_recall": recall} if lists else {})

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """Return the best `k` passages with reasons; see `Index.find`."""
        vector = await self._tools.vectors.query(query)
        near = await asyncio.to_thread(self.near, query, vector)
        if self._config.filter == "model" and near.facts:
            near = near._replace(facts=await self._recognised(query, near.facts))
        return await asyncio.to_thread(self._ranked, vector, near, k)

    def save(self, folder: Path) -> None:
        """Write the index into a folder; see `Index.save`."""
        self.parts.save(folder)

    def places_of(self, name: str) -> list[Place]:
        """Return the phrases that a name stands for; see `LinkedIndex.places_of`."""
        row = self._phrases.rows.get(key_of(name))
        return [] if row is None else [("phrase", row)]

    def text_of(self, place: Place) -> str:
        """Return the text of a phrase or fact; see `LinkedIndex.text_of`."""
        kind, row = place
        return self._phrases.keys[row] if kind == "phrase" else self.parts.table.facts[row].text

    def links_of(self, place: Place) -> Iterator[Link]:
        """Return the neighbours of a node: phrases and the facts about them, facts and the passages that state them."""
        (kind, row), table = place, self.parts.table
        if kind == "phrase":
            yield from linked("fact", table.facts_of, row)
        elif kind == "fact":
            yield from linked("phrase", table.about, row)
            yield from linked("passage", table.stated, row)
        else:
            yield from linked("fact", self._facts_of_passage, row)

    @functools.cached_property
    def _facts_of_passage(self) -> csr_array:
        return self.parts.table.stated.T.tocsr()

    async def _recognised(self, query: str, facts: dict[int, float]) -> dict[int, float]:
        """The facts that a model holds useful, best first as before; as published none if its reply cannot be used."""
        rows = list(facts)
        numbered = "\n".join(f"{number}. {self.parts.table.facts[row].text}" for number, row in enumerate(rows, 1))
        prompt = fill(PROMPTS.text("hippo_rag_filter"), question=query, facts=numbered)
        try:
            reply = await self._tools.model.json(
                prompt, _USEFUL, purpose="filter_facts", sampling=_sampling(self._config)
            )
        except ITEM_ERRORS:
            return {}
        useful = set(reply["useful"])
        return {row: facts[row] for number, row in enumerate(rows, 1) if number in useful}

    def near(self, query: str, vector: np.ndarray) -> NearFacts:
        """Return the facts nearest to a query, and the phrases that the query names. `vector` is its embedding.

        With `filter: entities` only facts about these phrases are returned; otherwise no phrases are.
        """
        scores = min_max(self.parts.facts.scores(vector).astype(np.float64))
        if self._config.filter != "entities":
            return NearFacts(dict(best_rows(scores, self._config.top_facts)), [])
        keys = self.parts.finder.question_names(query, self._phrases.rows)
        names = [self._phrases.rows[key] for key in keys if key in self._phrases.rows]
        about = [row_of(self.parts.table.facts_of, name)[0] for name in names]
        among = np.unique(np.concatenate(about)) if about else np.zeros(0, np.int32)
        best = best_rows(scores[among], self._config.top_facts)
        return NearFacts({int(among[place]): score for place, score in best}, names)

    def begin(self, near: NearFacts) -> dict[int, float]:
        """Return the phrases at which the walk begins, with their weights: the mean over a phrase's facts of the fact's
        score, divided by the number of passages with the phrase."""
        found = defaultdict[int, list[float]](list)
        for fact, score in near.facts.items():
            for phrase in row_of(self.parts.table.about, fact)[0].tolist():
                found[phrase].append(score / self._passages_with[phrase])
        means = {phrase: sum(scores) / len(scores) for phrase, scores in found.items()}
        best = sorted(means, key=lambda phrase: (-round(means[phrase], 6), phrase))[: self._config.top_phrases]
        seeds = {phrase: means[phrase] for phrase in best if means[phrase] > 0}
        for name in near.names:
            seeds[name] = max(seeds.get(name, 0.0), self._config.name_weight / self._passages_with[name])
        return seeds

    def _ranked(self, vector: np.ndarray, near: NearFacts, k: int) -> list[FoundPassage]:
        dense = self.parts.passages.scores(vector).astype(np.float64)
        seeds = self.begin(near)
        if not seeds:
            why = f"no fact fits; {_BY_EMBEDDING}"
            return [FoundPassage.of(self.documents[row], score, why) for row, score in best_rows(dense, k)]
        phrases = len(self._phrases.keys)
        reset = np.concatenate([np.zeros(phrases), min_max(dense) * self._config.passage_weight])
        reset[list(seeds)] = list(seeds.values())
        scores = self.parts.graph.page_rank(reset, self._config.damping)[phrases:]
        own = (1 - self._config.damping) * reset[phrases:] / reset.sum()
        # As shares of the best score: of a large corpus' scores, which add up to 1, few digits would be left.
        best = best_rows(scores / scores.max(initial=1e-300), k)
        why = {row: self._why(row, near, seeds, bool(scores[row] > 2 * own[row])) for row, _ in best}
        return [FoundPassage.of(self.documents[row], score, why[row]) for row, score in best]

    def _why(self, row: int, near: NearFacts, seeds: dict[int, float], is_reached: bool) -> str:
        """In one line: facts that it states, else phrases where the walk began that it holds, else what led there."""
        table = self.parts.table
        held = set(row_of(table.held, row)[0].tolist())
        stated = [table.facts[fact].text for fact in near.facts if row in row_of(table.stated, fact)[0]]
        if stated:
            return f"states: {' | '.join(stated)}"
        if held & seeds.keys():
            return f"speaks of {', '.join(self._phrases.keys[phrase] for phrase in seeds if phrase in held)}"
        return f"reached from {', '.join(map(self._phrases.keys.__getitem__, seeds))}" if is_reached else _BY_EMBEDDING


async def _build(
    documents: Sequence[Document], config: HippoRagConfig, tools: Workbench, before: HippoRagIndex | None = None
) -> HippoRagIndex:
    """`before`: an index of the first documents. A model is asked about the others alone, and vectors are taken where
    they are of the same texts. Names in sentences are found anew everywhere, which takes seconds: new titles are names
    in old texts."""
    finder = await asyncio.to_thread(NameFinder.of, documents)
    statements, lost = _state_sentences(documents, finder), 0
    if config.facts == "model":
        first = len(before.documents) if before else 0
        replies = await ask_in_shards(
            "triples",
            lambda document: model_triples(document, _sampling(config), tools.model),
            documents[first:],
            tools,
            _PER_SHARD,
        )
        statements, lost = _state_triples(replies, first), replies.count(None)
        if before:
            statements, lost = chain(before.parts.table.statements(), statements), before.parts.lost + lost
    table = await asyncio.to_thread(FactTable.of, statements, len(documents))
    vectors: dict[str, Vectors] = {}
    for name in _VECTORS:
        texts = _texts(name, documents, table)
        if before:
            rows = {text: row for row, text in enumerate(_texts(name, before.documents, before.parts.table))}
            vectors[name] = await _embed_new(name, texts, rows, getattr(before.parts, name), tools)
        else:
            vectors[name] = await embed(name, texts, tools)
    limits = config.synonym_similarity, config.synonyms, config.compared_up_to
    near = await asyncio.to_thread(NearRows.of, vectors["phrases"], *limits)
    synonyms = await _find_synonyms(table.phrases.keys, near, tools)
    nodes = len(table.phrases.keys) + len(documents)
    graph = await asyncio.to_thread(lambda: PassageGraph.of(nodes, *table.edges(synonyms)))
    parts = FactGraph(table=table, finder=finder, graph=graph, lost=lost, searched=near.searched, **vectors)
    return HippoRagIndex(parts, documents, config, tools)


async def _add(index: Any, documents: Sequence[Document], config: HippoRagConfig, tools: Workbench) -> HippoRagIndex:
    return await _build(documents, config, tools, index)


def _texts(of: str, documents: Sequence[Document], table: FactTable) -> Sequence[str]:
    """What is embedded of each of `_VECTORS`."""
    if of == "passages":
        return EmbeddedTexts(documents)
    return [fact.text for fact in table.facts] if of == "facts" else table.phrases.keys


async def _embed_new(
    name: str, texts: Sequence[str], rows: dict[str, int], known: Vectors, tools: Workbench
) -> Vectors:
    """The vectors of texts, of which `known` has some, at these rows."""
    new = [text for text in dict.fromkeys(texts) if text not in rows]
    matrix = known.with_more(await embed(name, new, tools)).matrix
    rows = rows | {text: len(known) + place for place, text in enumerate(new)}
    return Vectors(matrix[[rows[text] for text in texts]])


def _state_sentences(documents: Sequence[Document], finder: NameFinder) -> Iterator[StatedFact]:
    for row, text, names in finder.sentences(documents):
        title = documents[row].title
        if names:
            yield StatedFact(row, f"{title}. {text}" if title and text != title else text, tuple(dict.fromkeys(names)))


def _state_triples(replies: Sequence[Sequence[Sequence[str]] | None], first: int) -> Iterator[StatedFact]:
    for row, triples in enumerate(replies, first):
        for subject, relation, object in triples or ():
            phrases = key_of(subject), key_of(object)
            if all(phrases):
                yield StatedFact(row, f"{subject} {relation} {object}", phrases)


async def _find_synonyms(phrases: Sequence[str], near: NearRows, tools: Workbench) -> csr_array:
    """Cosine of each phrase with those of its meaning, shape (phrases, phrases). A phrase of one or two letters has
    none, though others may have it; nor are two of one meaning whose numbers differ, however alike they are."""
    from scipy.sparse import csr_array

    async def join(pieces: Sequence[tuple[int, Any]]) -> np.ndarray:
        return await asyncio.to_thread(near.find, [number for number, _ in pieces])

    part, per_shard = ("synonyms", _ROWS) if near.lists is None else ("synonyms-by-list", _LISTS)
    found = near.best(np.concatenate([np.zeros((0, 3)), *await tools.map(part, join, near.pieces(phrases), per_shard)]))
    one, other = found[:, 0].astype(np.int32), found[:, 1].astype(np.int32)
    has_meaning = np.array([sum(map(str.isalnum, phrase)) > 2 for phrase in phrases], bool)
    known: dict[tuple[str, ...], int] = {}
    numbers = np.array([known.setdefault(tuple(_NUMBER.findall(phrase)), len(known)) for phrase in phrases], np.int32)
    is_one = has_meaning[one] & (numbers[one] == numbers[other])
    return csr_array((found[is_one, 2], (one[is_one], other[is_one])), shape=(len(phrases), len(phrases)))


def _sampling(config: HippoRagConfig) -> Sampling:
    return Sampling(temperature=config.temperature, top_p=config.top_p, max_tokens=config.max_tokens)


def _open(folder: Path, documents: Sequence[Document], config: HippoRagConfig, tools: Workbench) -> HippoRagIndex:
    return HippoRagIndex(FactGraph.open(folder), documents, config, tools)


def _asks_model(config: HippoRagConfig) -> list[str]:
    return [part for part, where in (("build", config.facts), ("find", config.filter)) if where == "model"]


BACKEND = Backend(
    name="hippo_rag",
    plain="hippo_rag_plain",
    packages=("scipy",),
    config=HippoRagConfig,
    build=_build,
    open=_open,
    add=_add,
    asks_model=_asks_model,
    estimate=lambda documents, config: plan_model_triples(documents) if config.facts == "model" else (),
)
PLAIN = replace(BACKEND, name=BACKEND.plain, plain="", config=HippoRagPlainConfig)
