"""Facts of passages: triples and sentences in a table by row, and statements about any number of entities."""

from __future__ import annotations

import asyncio
import json
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trailforge.inference import NUMBER, TEXT, Asker, Sampling, fill, list_schema, object_schema
from trailforge.retrieval.backends.declaration import PlannedCalls, passage_tokens, plan_calls
from trailforge.retrieval.backends.graph import (
    KnownNames,
    NameFinder,
    count_places,
    key_of,
    open_sparse,
    row_of,
    save_sparse,
)
from trailforge.retrieval.backends.vectors import Vectors, load_faiss, sampled_rows
from trailforge.retrieval.backends.writing import PROMPTS
from trailforge.retrieval.indexes.texts import MappedDocuments, write_texts
from trailforge.schemas import ContextOverflow, Document, MalformedReply

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_FACTS = "facts.arrow"
_MATRICES = ("about", "facts_of", "stated", "held")
_TRIPLE = ("subject", "relation", "object")
_PRONOUNS = frozenset(
    "he she it they him her them his hers its their theirs this that these those who which i we you".split()
)
"""Name nothing, unless the passage has a name that is written so: half of all passages would be joined by them."""
_NAMES_PER_TOKEN, _TRIPLES_PER_TOKEN = 0.66, 3.6
"""Tokens of the two replies per token of passage: a strong model's, over 24 passages of MuSiQue."""
_JOIN_EFFORTS = (8, 16, 32, 64, 128)
"""Lists searched for what is near to a row."""
_JOIN_RECALL = 0.99
"""Share of near rows for which that number is set. Where the most lists give less, all rows are compared."""
_JOIN_SAMPLE = 1_000
"""Rows over which that share is measured."""
_JOIN_AT_ONCE = 50
"""Rows of these that are compared with all at once: of millions, each row of cosines takes megabytes."""
_LEAST_TO_LIST = 1_000
"""Rows. Fewer are all compared."""
_JOIN_BLOCK = 16_384
"""Rows whose lists are looked up at once."""


_ENTITY = object_schema(name=TEXT, type=TEXT, description=TEXT, importance=NUMBER)
_FACT = object_schema(fact=TEXT, completeness=NUMBER, entities=list_schema(TEXT))
_SCHEMA = object_schema(entities=list_schema(_ENTITY), facts=list_schema(_FACT))
_NAMES = object_schema(names=list_schema(TEXT))
_TRIPLES = object_schema(triples=list_schema(object_schema(**dict.fromkeys(_TRIPLE, TEXT))))
_USUAL_IMPORTANCE = 50.0
"""Of an entity that a fact names and a reply does not describe."""


class StatedFact(NamedTuple):
    """A fact with the passage that states it; a fact in two passages gives two of these."""

    passage: int
    """Row of the passage."""
    text: str
    """Text of the fact."""
    phrases: tuple[str, ...]
    """Keys of what the fact is about; for a triple, subject and object."""


@dataclass(frozen=True, slots=True)
class FactTable:
    """The facts of a corpus in a table, each once however many passages state it."""

    phrases: KnownNames
    facts: Sequence[Document]
    """Texts of the facts, kept like those of a corpus."""
    about: csr_array
    """Matrix with 1 where a fact is about a phrase, shape (facts, phrases)."""
    facts_of: csr_array
    """Transpose of `about`, shape (phrases, facts)."""
    stated: csr_array
    """Number of times that each passage states each fact, shape (facts, passages)."""
    held: csr_array
    """Matrix with 1 where a passage states a fact about a phrase, shape (passages, phrases)."""

    @classmethod
    def of(cls, statements: Iterable[StatedFact], passages: int) -> FactTable:
        """Make a table of what passages state; `passages` is their number. Facts and phrases get row numbers in the
        order in which they first occur."""
        phrases, facts = dict[str, int](), dict[tuple[str, tuple[int, ...]], int]()
        places, stated = array("i"), array("i")
        for passage, text, named in statements:
            rows = tuple(sorted({phrases.setdefault(phrase, len(phrases)) for phrase in named}))
            stated.extend((facts.setdefault((text, rows), len(facts)), passage))
        for (_, rows), fact in facts.items():
            places.extend(each for row in rows for each in (fact, row))
        about = count_places(places, (len(facts), len(phrases)))
        often = count_places(stated, (len(facts), passages))
        held = (often.T @ about).tocsr()
        held.data[:] = 1
        texts = [Document(id=str(row), title="", text=text) for row, (text, _) in enumerate(facts)]
        return cls(KnownNames(list(phrases)), texts, about, about.T.tocsr(), often, held)

    def save(self, folder: Path) -> None:
        """Write the table of facts to files in a folder."""
        self.phrases.save(folder)
        write_texts(self.facts, folder / _FACTS)
        for name in _MATRICES:
            save_sparse(folder, name, getattr(self, name))

    @classmethod
    def open(cls, folder: Path) -> FactTable:
        """Open the files that `save` wrote, memory-mapped. Raises `RetrievalError` for other files."""
        facts = MappedDocuments.open(folder / _FACTS)
        return cls(KnownNames.open(folder), facts, *(open_sparse(folder, name) for name in _MATRICES))

    def statements(self) -> Iterator[StatedFact]:
        """Yield each fact with each passage that states it, passage by passage; a fact that a passage states twice
        comes once."""
        stating = self.stated.T.tocsr()
        for passage in range(stating.shape[0]):
            for fact in row_of(stating, passage)[0]:
                about: list[int] = row_of(self.about, fact)[0].tolist()
                yield StatedFact(passage, self.facts[fact].text, tuple(self.phrases.keys[row] for row in about))

    def edges(self, synonyms: csr_array) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges of the graph, phrases before passages, shape (edges, 2), and their weights.

        `synonyms` has the cosine of phrases with one meaning, shape (phrases, phrases). A fact weighs 1 for each of its
        phrases, shared among the others; a triple's two have all of it. As in the released code, what joins two phrases
        has an edge from each end, so that it counts twice beside the edge of passage and phrase, and being synonyms
        takes the place of sharing facts.
        """
        from scipy.sparse import diags_array

        others = np.maximum(self.about.sum(axis=1) - 1, 1)
        shared = (self.about.T @ diags_array(self.stated.sum(axis=1) / others) @ self.about).tocsr()
        shared = (shared - shared.multiply(synonyms > 0) + synonyms).tocoo()
        one, other = shared.coords
        is_pair = one != other
        passages, phrases = self.held.nonzero()
        pairs = np.stack([one[is_pair], other[is_pair]], 1), np.stack([passages + len(self.phrases.keys), phrases], 1)
        return np.concatenate(pairs), np.concatenate([shared.data[is_pair], np.ones(len(passages))])


@dataclass(frozen=True, slots=True)
class Lists:
    """Rows of a matrix of vectors, divided into many lists, each around a centre: which rows are in a list, and which
    rows look for near ones in it.

    Each list is compared with all rows that search it in one product, which takes a fifth of the time of searching the
    lists row by row (faiss' IVF).
    """

    members: tuple[np.ndarray, ...]
    """Rows in each list."""
    searching: tuple[np.ndarray, ...]
    """Rows that search each list."""
    effort: int
    """Number of lists that a row searches."""
    recall: float
    """Share of near rows that are found, measured over a sample of rows."""


@dataclass(frozen=True, slots=True)
class NearRows:
    """A search, for each row of a matrix, for up to `most` other rows whose cosine with it is at least `least`.

    It works in numbered pieces, which a build spreads over shards: a piece is a row where all pairs are compared, and a
    list (`Lists`) where an approximate search is used.
    """

    matrix: np.ndarray
    """Vectors of length 1, shape (rows, dimension), float32."""
    least: float
    most: int
    lists: Lists | None = None
    """The lists of an approximate search; None: all rows are compared."""

    @classmethod
    def of(cls, vectors: Vectors, least: float, most: int, compared_up_to: int) -> NearRows:
        """Return a search among these vectors, which compares all pairs where there are up to `compared_up_to` of them,
        and searches lists where there are more. The same vectors give the same lists; a row searches as many as find 99
        of 100 near rows in a sample; where no number does, all are compared."""
        exact = cls(vectors.matrix, least, most)
        if len(vectors) <= max(compared_up_to, _LEAST_TO_LIST):
            return exact
        sampled = sampled_rows(len(vectors), _JOIN_SAMPLE)
        parts = [sampled[start : start + _JOIN_AT_ONCE].tolist() for start in range(0, len(sampled), _JOIN_AT_ONCE)]
        wanted = np.concatenate([exact.find(part) for part in parts])[:, :2].astype(np.int64)
        if not len(wanted):
            return exact
        centres = _find_centres(vectors.matrix)
        count = centres.ntotal
        own = _nearest_lists(centres, vectors.matrix, 1)
        most = min(count, _JOIN_EFFORTS[-1])
        hits = _nearest_lists(centres, vectors.matrix[wanted[:, 0]], most) == own[wanted[:, 1]]
        for effort in (effort for effort in _JOIN_EFFORTS if effort < count // 2):
            recall = float(hits[:, :effort].any(axis=1).mean())
            if recall >= _JOIN_RECALL:
                searching = _rows_by_list(_nearest_lists(centres, vectors.matrix, effort), count)
                return replace(exact, lists=Lists(_rows_by_list(own, count), searching, effort, round(recall, 4)))
        return exact

    @property
    def searched(self) -> tuple[int, float]:
        """Return how many lists a row searches, 0 where all rows are compared, and the share of near rows found."""
        return (0, 1.0) if self.lists is None else (self.lists.effort, self.lists.recall)

    def pieces(self, texts: Sequence[str]) -> list[tuple[int, Any]]:
        """Return the number of each piece of the search with the texts of the rows in it. `texts` are those of all
        rows."""
        if self.lists is None:
            return list(enumerate(texts))
        return [(number, [texts[row] for row in rows]) for number, rows in enumerate(self.lists.members)]

    def find(self, pieces: Sequence[int]) -> np.ndarray:
        """Return the near rows that are found in the pieces with these numbers, the best for each row: row, other row
        and cosine, shape (pairs, 3), float64. Results of several calls for lists must be merged by `best`.
        """
        found = [np.zeros((0, 3))]
        if self.lists is None:
            found.append(self._compare(np.array(pieces, np.int64), np.arange(len(self.matrix))))
        else:
            found += [self._compare(self.lists.searching[each], self.lists.members[each]) for each in pieces]
        return self.best(np.concatenate(found))

    def _compare(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        is_all = len(others) == len(self.matrix)
        scores = self.matrix[rows] @ (self.matrix if is_all else self.matrix[others]).T
        one, other = np.nonzero(scores >= self.least)
        pairs = np.stack([rows[one], others[other], scores[one, other]], axis=1)
        return pairs[pairs[:, 0] != pairs[:, 1]]

    def best(self, pairs: np.ndarray) -> np.ndarray:
        """Return the best `most` pairs of each row, in the order of the rows; of equal cosine the lower other row
        first. `pairs` are as `find` returns them, of several calls together."""
        pairs = pairs[np.lexsort((pairs[:, 1], -pairs[:, 2], pairs[:, 0]))]
        firsts = np.searchsorted(pairs[:, 0], pairs[:, 0])
        return pairs[np.arange(len(pairs)) - firsts < self.most]


def _find_centres(matrix: np.ndarray) -> Any:
    """As many as lists, in an index of faiss. The seed of faiss is always the same."""
    faiss, count = load_faiss(), round(2 * math.sqrt(len(matrix)))
    limits = {"min_points_per_centroid": 1, "max_points_per_centroid": 40}
    clustering = faiss.Kmeans(matrix.shape[1], count, niter=10, spherical=True, **limits)
    clustering.train(matrix[sampled_rows(len(matrix), 40 * count)])
    return clustering.index


def _nearest_lists(centres: Any, matrix: np.ndarray, count: int) -> np.ndarray:
    """The nearest first, shape (rows, count)."""
    blocks = (matrix[start : start + _JOIN_BLOCK] for start in range(0, len(matrix), _JOIN_BLOCK))
    return np.concatenate([centres.search(np.ascontiguousarray(block), count)[1].astype(np.int32) for block in blocks])


def _rows_by_list(lists: np.ndarray, count: int) -> tuple[np.ndarray, ...]:
    """Of each of so many lists the rows that name it; `lists`: shape (rows, lists that a row names)."""
    places = np.argsort(lists, axis=None, kind="stable")
    bounds = np.searchsorted(lists.ravel()[places], np.arange(1, count))
    return tuple(np.split(places // lists.shape[1], bounds))


async def model_triples(document: Document, sampling: Sampling, asker: Asker) -> list[list[str]]:
    """Return the triples that a model extracts from a passage, in two calls."""
    passage = {"title": document.title, "text": document.text}
    prompt = fill(PROMPTS.text("hippo_rag_names"), **passage)
    named = await asker.json(prompt, _NAMES, purpose="extract_names", sampling=sampling)
    names = json.dumps(list(dict.fromkeys(named["names"])), ensure_ascii=False)
    prompt = fill(PROMPTS.text("hippo_rag_triples"), **passage, names=names)
    found = await asker.json(prompt, _TRIPLES, purpose="extract_triples", sampling=sampling)
    triples = [[" ".join(triple[part].split()) for part in _TRIPLE] for triple in found["triples"]]
    unnamed = _PRONOUNS - {name.casefold() for name in named["names"]}
    return [triple for triple in triples if unnamed.isdisjoint((triple[0].casefold(), triple[2].casefold()))]


def plan_model_triples(documents: Sequence[Document]) -> list[PlannedCalls]:
    """Estimate the calls of `model_triples`, at most: a passage whose names cannot be read is not asked for triples."""
    names, triples = PROMPTS.text("hippo_rag_names"), PROMPTS.text("hippo_rag_triples")
    tokens = passage_tokens(documents)
    listed = _NAMES_PER_TOKEN * tokens
    asked_names = (fill(names, title=each.title, text=each.text) for each in documents)
    asked_triples = (fill(triples, title=each.title, text=each.text, names="") for each in documents)
    return [
        plan_calls("extract_names", asked_names, replies=listed),
        plan_calls("extract_triples", asked_triples, filled=listed, replies=_TRIPLES_PER_TOKEN * tokens),
    ]


class FactEntity(NamedTuple):
    """An entity that a fact is about."""

    name: str
    weight: float = 1.0
    """How much the entity matters in the passage: 0 to 100 by a model, else how often the sentence names it."""
    about: str = ""
    """Description of the entity, with what the passage says of it."""


class Fact(NamedTuple):
    """A statement, with the entities that it is about."""

    text: str
    weight: float
    """How completely the statement is understood by itself: 0 to 10 by a model, 1 for a sentence."""
    entities: tuple[FactEntity, ...]


def sentence_facts(documents: Sequence[Document], finder: NameFinder) -> list[list[Fact]]:
    """Return the sentences of each document as facts, about the names in them and the document's title; no model is
    asked."""
    facts: list[list[Fact]] = [[] for _ in documents]
    for row, sentence, names in finder.sentences(documents):
        entities = (FactEntity(name, float(names.count(name))) for name in dict.fromkeys(names))
        facts[row].append(Fact(f"{documents[row].title}. {sentence}", 1.0, tuple(entities)))
    return facts


async def model_facts(documents: Sequence[Document], gleanings: int, sampling: Sampling, asker: Asker) -> list[Any]:
    """Return the facts that a model extracts from each document; None where its reply cannot be read. `gleanings` is
    how many times at most it is asked again for what it left out.
    """
    return await asyncio.gather(*(_read_document(document, gleanings, sampling, asker) for document in documents))


_FACTS_PER_TOKEN, _MORE_PER_TOKEN, _KNOWN_PER_TOKEN = 6.5, 0.47, 1.1
"""Tokens per token of passage: of the first reply, of the next, and of the facts that the next prompt lists. A strong
model's, over 27 passages of MuSiQue."""
_ASKED_ON = 4 / 27
"""Of those passages, so many gave more facts when they were asked for again, and were asked for once more."""


def plan_model_facts(documents: Sequence[Document], gleanings: int) -> list[PlannedCalls]:
    """Estimate the calls of `model_facts`: every passage once, and as often again as it is expected to give more."""
    tokens = passage_tokens(documents)
    first, again = PROMPTS.text("hyper_graph_rag_facts"), PROMPTS.text("hyper_graph_rag_more_facts")
    asked = (fill(first, title=each.title, text=each.text) for each in documents)
    asked_again = (fill(again, title=each.title, text=each.text, known="") for each in documents)
    planned = [plan_calls("extract_facts", asked, replies=_FACTS_PER_TOKEN * tokens)]
    if gleanings:
        times = sum(_ASKED_ON**turn for turn in range(gleanings))
        known, more = _KNOWN_PER_TOKEN * tokens, _MORE_PER_TOKEN * tokens
        planned.append(plan_calls("extract_facts, again", asked_again, filled=known, replies=more, times=times))
    return planned


async def _read_document(document: Document, gleanings: int, sampling: Sampling, asker: Asker) -> list[Fact] | None:
    facts: list[Fact] = []
    for _ in range(1 + gleanings):
        template = PROMPTS.text("hyper_graph_rag_more_facts" if facts else "hyper_graph_rag_facts")
        known = "\n".join(f"- {fact.text}" for fact in facts)
        prompt = fill(template, title=document.title, text=document.text, known=known)
        try:
            reply = await asker.json(prompt, _SCHEMA, purpose="extract_facts", sampling=sampling)
        except (MalformedReply, ContextOverflow):
            return facts or None
        if not (more := _facts_of_reply(reply)):
            break
        facts += more
    return facts


def _facts_of_reply(reply: dict[str, Any]) -> list[Fact]:
    """The facts of a reply, on one line each and with weights within their bounds."""
    described = {key_of(each["name"]): each for each in reply["entities"]}
    return [
        Fact(
            _one_line(fact["fact"]),
            min(max(float(fact["completeness"]), 0.0), 10.0),
            tuple(_entity(name, described.get(key_of(name), {})) for name in fact["entities"]),
        )
        for fact in reply["facts"]
        if fact["fact"].strip()
    ]


def _entity(name: str, entity: Mapping[str, Any]) -> FactEntity:
    weight = min(max(float(entity.get("importance", _USUAL_IMPORTANCE)), 0.0), 100.0)
    about = f"{entity['type']}: {entity['description']}" if entity else ""
    return FactEntity(_one_line(entity.get("name", name)), weight, _one_line(about))


def _one_line(text: str) -> str:
    return " ".join(text.split())
