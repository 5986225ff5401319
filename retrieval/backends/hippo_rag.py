"""HippoRAG 2 (Gutiérrez et al., 2025): a graph of phrases and passages, searched from the facts nearest to a question.

Facts join phrases, phrases of one meaning are joined, and a passage is joined to the phrases of its facts. A search
takes the facts nearest to the question, has those filtered that do not belong to it, and ranks passages by personalised
PageRank from the phrases of what is left and, faintly, from passages near to the question. Where no fact is left,
passages come in the order of their embeddings.

Without a model (the default) a fact is a sentence about the names in it and its title, and the filter keeps facts about
names in the question. With one, facts are triples (two calls a passage), and the filter is one call a question.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from trailforge.inference import Sampling
from trailforge.inference.asker import Asker, fill
from trailforge.inference.prompts import Prompts
from trailforge.retrieval.backends.declaration import Backend, FoundPassage, Workbench
from trailforge.retrieval.backends.graph import NameFinder, PassageGraph, key_of, min_max, open_sparse, save_sparse
from trailforge.retrieval.backends.texts import MappedDocuments, write_texts
from trailforge.retrieval.backends.vectors import Vectors, embed
from trailforge.retrieval.dense import embedded_text
from trailforge.schemas import ITEM_ERRORS, Document, Passage, RetrievalError, parse_json

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_PROMPTS = Prompts("trailforge.retrieval.backends")
_PER_SHARD = 32
"""Passages that a model reads at once."""
_ROWS = 1024
"""Phrases whose neighbours are looked up at once."""
_META, _PHRASES, _FACTS = "hippo_rag.json", "phrases.json", "facts.arrow"
_PRONOUNS = frozenset(
    "he she it they him her them his hers its their theirs this that these those who which i we you".split()
)
"""No phrases: half of all passages would be joined by them."""
_TRIPLE = ("subject", "relation", "object")


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_NAMES = _object(names={"type": "array", "items": {"type": "string"}})
_TRIPLES = _object(triples={"type": "array", "items": _object(**{part: {"type": "string"} for part in _TRIPLE})})
_USEFUL = _object(useful={"type": "array", "items": {"type": "integer"}})


@dataclass(frozen=True, slots=True, kw_only=True)
class HippoRagConfig:
    """The numbers of the paper and its released code."""

    facts: Literal["sentences", "model"] = "sentences"
    filter: Literal["entities", "model", "none"] = "entities"
    """What keeps a fact near to the question: a name of the question in it, a model (the paper's recognition memory),
    or nothing."""
    top_facts: int = 5
    top_phrases: int = 5
    name_weight: float = 1.0
    damping: float = 0.5
    passage_weight: float = 0.05
    """Of passages near to the question, where a walk begins, beside that of phrases."""
    synonym_similarity: float = 0.8
    """Cosine from which two phrases are joined."""
    synonyms: int = 100
    """Phrases that one is joined to at most, the nearest."""
    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 8192
    """Of a reply, thoughts included."""


class Statement(NamedTuple):
    """That a passage states a fact."""

    passage: int
    """Its row."""
    text: str
    phrases: tuple[str, ...]
    """Keys of what it is about; of a triple subject and object."""


@dataclass(frozen=True, slots=True)
class FactTable:
    """The facts of a corpus by row, each once however many passages state it."""

    phrases: Sequence[str]
    """Their keys."""
    facts: Sequence[Document]
    """Their texts, kept as those of a corpus are."""
    about: csr_array
    """1 where a fact is about a phrase, shape (facts, phrases)."""
    stated: csr_array
    """How often, shape (facts, passages)."""

    @classmethod
    def of(cls, statements: Iterable[Statement], passages: int) -> FactTable:
        """From what so many passages state; rows come in the order in which facts and phrases do."""
        phrases, facts = dict[str, int](), dict[tuple[str, tuple[str, ...]], int]()
        stated = Counter[tuple[int, int]]()
        for passage, text, about in statements:
            for phrase in about:
                phrases.setdefault(phrase, len(phrases))
            stated[facts.setdefault((text, about), len(facts)), passage] += 1
        about = [(row, phrases[phrase]) for (_, fact), row in facts.items() for phrase in sorted(set(fact))]
        return cls(
            list(phrases),
            [Document(id=str(row), title="", text=text) for row, (text, _) in enumerate(facts)],
            _sparse(about, np.ones(len(about)), (len(facts), len(phrases))),
            _sparse(stated, np.fromiter(stated.values(), float, len(stated)), (len(facts), passages)),
        )

    def in_passages(self) -> csr_array:
        """1 where a passage states a fact about a phrase, shape (passages, phrases)."""
        found = (self.stated.T @ self.about).tocsr()
        found.data[:] = 1
        return found

    def edges(self, synonyms: csr_array) -> tuple[np.ndarray, np.ndarray]:
        """Of the graph, phrases before passages: shape (edges, 2), and weights.

        A fact weighs 1 for each of its phrases, shared among the others; a triple's two have all of it. As in the
        released code, what joins two phrases has an edge from each end, so that it counts twice beside the edge of
        passage and phrase, and being synonyms takes the place of sharing facts.
        """
        from scipy.sparse import diags_array

        others = np.maximum(self.about.sum(axis=1) - 1, 1)
        shared = (self.about.T @ diags_array(self.stated.sum(axis=1) / others) @ self.about).tocsr()
        shared = (shared - shared.multiply(synonyms > 0) + synonyms).tocoo()
        one, other = shared.coords
        is_pair = one != other
        passages, phrases = self.in_passages().nonzero()
        pairs = np.stack([one[is_pair], other[is_pair]], 1), np.stack([passages + len(self.phrases), phrases], 1)
        return np.concatenate(pairs), np.concatenate([shared.data[is_pair], np.ones(len(passages))])


@dataclass(frozen=True, slots=True)
class FactGraph:
    """What an index keeps."""

    table: FactTable
    finder: NameFinder
    passages: Vectors
    facts: Vectors
    phrases: Vectors
    graph: PassageGraph
    """Phrases, then passages."""
    lost: int
    """Passages without facts, as a model's replies could not be used."""

    def save(self, folder: Path) -> None:
        """To files."""
        for name in ("passages", "facts", "phrases"):
            getattr(self, name).save(folder / f"{name}.npy")
        write_texts(self.table.facts, folder / _FACTS)
        (folder / _PHRASES).write_text(json.dumps(self.table.phrases, ensure_ascii=False), encoding="utf-8")
        save_sparse(folder, "about", self.table.about)
        save_sparse(folder, "stated", self.table.stated)
        self.finder.save(folder)
        self.graph.save(folder)
        (folder / _META).write_text(json.dumps({"lost": self.lost}), encoding="utf-8")

    @classmethod
    def open(cls, folder: Path) -> FactGraph:
        """What `save` wrote, memory-mapped. Raises `RetrievalError` for what is not that."""
        vectors = {name: Vectors.open(folder / f"{name}.npy") for name in ("passages", "facts", "phrases")}
        facts = MappedDocuments.open(folder / _FACTS)
        matrices = open_sparse(folder, "about"), open_sparse(folder, "stated")
        table = FactTable(_read(folder / _PHRASES), facts, *matrices)
        lost = _read(folder / _META)["lost"]
        return cls(table, NameFinder.open(folder), graph=PassageGraph.open(folder), lost=lost, **vectors)


class _Near(NamedTuple):
    """Where a search begins."""

    facts: dict[int, float]
    """Row and score, 0 to 1 among all facts, best first."""
    names: list[int]
    """Rows of phrases that the question names."""


class HippoRagIndex:
    """An `Index` that walks from facts to passages."""

    def __init__(
        self, parts: FactGraph, documents: Sequence[Document], config: HippoRagConfig, tools: Workbench
    ) -> None:
        self.parts = parts
        self._documents, self._config, self._tools = documents, config, tools
        table = parts.table
        self._rows = {key: row for row, key in enumerate(table.phrases)}
        self._facts_of = table.about.T.tocsr()
        self._held = table.in_passages()
        self._passages_of = np.bincount(self._held.indices, minlength=len(table.phrases))

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """See `Index`."""
        vector = await self._tools.vectors.query(query)
        near = await asyncio.to_thread(self._near, query, vector)
        if self._config.filter == "model" and near.facts:
            near = near._replace(facts=await self._recognised(query, near.facts))
        return await asyncio.to_thread(self._ranked, vector, near, k)

    def save(self, folder: Path) -> None:
        """See `Index`."""
        self.parts.save(folder)

    async def _recognised(self, query: str, facts: dict[int, float]) -> dict[int, float]:
        """The facts that a model holds useful, best first as before; all of them where its reply cannot be used."""
        rows = list(facts)
        numbered = "\n".join(f"{number}. {self.parts.table.facts[row].text}" for number, row in enumerate(rows, 1))
        prompt = fill(_PROMPTS.text("hippo_rag_filter"), question=query, facts=numbered)
        try:
            reply = await self._tools.model.json(
                prompt, _USEFUL, purpose="filter_facts", sampling=_sampling(self._config)
            )
        except ITEM_ERRORS:
            return facts
        useful = set(reply["useful"])
        return {row: facts[row] for number, row in enumerate(rows, 1) if number in useful}

    def _near(self, query: str, vector: np.ndarray) -> _Near:
        """The facts nearest to a query, best first, and the known names in it, which the entity filter asks for."""
        scores = self.parts.facts.scores(vector).astype(np.float64)
        if not len(scores):
            return _Near({}, [])
        low, high = scores.min(), scores.max()
        names, among = list[int](), None
        if self._config.filter == "entities":
            names = [
                self._rows[key] for key in self.parts.finder.question_names(query, self._rows) if key in self._rows
            ]
            among = np.unique(self._facts_of[names].indices)
            scores = scores[among]
        best = _best(scores, self._config.top_facts)
        span = high - low
        scaled = {row: (score - low) / span if span else 1.0 for score, row in best}
        facts = {int(among[row]) if among is not None else row: score for row, score in scaled.items()}
        return _Near(facts, names)

    def _seeds(self, near: _Near) -> dict[int, float]:
        """Weights of phrases where the walk begins: the mean over their facts of score / passages with the phrase."""
        found = defaultdict[int, list[float]](list)
        for fact, score in near.facts.items():
            for phrase in self._about(fact):
                found[phrase].append(score / self._passages_of[phrase])
        seeds = {phrase: sum(scores) / len(scores) for phrase, scores in found.items()}
        for name in near.names:
            seeds[name] = max(seeds.get(name, 0.0), self._config.name_weight / self._passages_of[name])
        best = sorted(seeds, key=lambda phrase: (-round(seeds[phrase], 6), phrase))[: self._config.top_phrases]
        return {phrase: seeds[phrase] for phrase in best}

    def _ranked(self, vector: np.ndarray, near: _Near, k: int) -> list[FoundPassage]:
        dense = self.parts.passages.scores(vector).astype(np.float64)
        seeds = self._seeds(near)
        if not near.facts or not any(seeds.values()):
            return [self._found(row, score, "no fact fits: by embedding alone") for score, row in _best(dense, k)]
        reset = np.concatenate([np.zeros(len(self._rows)), min_max(dense) * self._config.passage_weight])
        reset[list(seeds)] = list(seeds.values())
        walked = self.parts.graph.page_rank(reset, self._config.damping)[len(self._rows) :]
        # As shares of the best score: of a large corpus' scores, which add up to 1, few digits would be left.
        best = _best(walked / walked.max(), k)
        return [self._found(row, score, self._why(row, near, seeds)) for score, row in best]

    def _why(self, row: int, near: _Near, seeds: dict[int, float]) -> str:
        table = self.parts.table
        stated = [fact for fact in near.facts if table.stated[fact, row]]
        held = [table.phrases[phrase] for phrase in seeds if self._held[row, phrase]]
        if stated:
            return f"states: {'; '.join(table.facts[fact].text for fact in stated)}"
        if held:
            return f"speaks of {', '.join(held)}"
        return f"linked with {', '.join(table.phrases[phrase] for phrase in seeds)}"

    def _found(self, row: int, score: float, why: str) -> FoundPassage:
        document = self._documents[row]
        passage = Passage(id=document.id, title=document.title, text=document.text, score=score)
        return FoundPassage(passage=passage, why=why, sources=(document.id,))

    def _about(self, fact: int) -> list[int]:
        about = self.parts.table.about
        return about.indices[about.indptr[fact] : about.indptr[fact + 1]].tolist()


async def _build(documents: Sequence[Document], config: HippoRagConfig, tools: Workbench) -> HippoRagIndex:
    finder = await asyncio.to_thread(NameFinder.of, documents)
    statements, lost = await _statements(documents, finder, config, tools)
    table = await asyncio.to_thread(FactTable.of, statements, len(documents))
    passages = await embed("passages", [embedded_text(document) for document in documents], tools)
    facts = await embed("facts", [fact.text for fact in table.facts], tools)
    phrases = await embed("phrases", table.phrases, tools)
    synonyms = await _synonyms(table.phrases, phrases, config, tools)
    nodes = len(table.phrases) + len(documents)
    graph = await asyncio.to_thread(lambda: PassageGraph.of(nodes, *table.edges(synonyms)))
    parts = FactGraph(table, finder, passages, facts, phrases, graph, lost)
    return HippoRagIndex(parts, documents, config, tools)


async def _statements(
    documents: Sequence[Document], finder: NameFinder, config: HippoRagConfig, tools: Workbench
) -> tuple[list[Statement], int]:
    """What passages state, and of how many the model's reply is lost."""
    if config.facts == "sentences":
        return await asyncio.to_thread(lambda: list(_sentences(documents, finder))), 0

    async def read(shard: Sequence[Document]) -> list[list[list[str]] | None]:
        return await asyncio.gather(*(_triples(document, config, tools.model) for document in shard))

    replies = [triples for shard in await tools.map("triples", read, documents, _PER_SHARD) for triples in shard]
    return list(_stated_triples(replies)), replies.count(None)


def _sentences(documents: Sequence[Document], finder: NameFinder) -> Iterator[Statement]:
    for row, text, names in finder.sentences(documents):
        title = documents[row].title
        if names:
            yield Statement(row, f"{title}. {text}" if title and text != title else text, tuple(dict.fromkeys(names)))


def _stated_triples(replies: Sequence[Sequence[Sequence[str]] | None]) -> Iterator[Statement]:
    for row, triples in enumerate(replies):
        for subject, relation, object in triples or ():
            phrases = key_of(subject), key_of(object)
            if all(phrase and phrase not in _PRONOUNS for phrase in phrases):
                yield Statement(row, f"{subject} {relation} {object}", phrases)


async def _triples(document: Document, config: HippoRagConfig, asker: Asker) -> list[list[str]] | None:
    """What a model reads out of a passage, in two calls; None where a reply cannot be used."""
    passage = {"title": document.title, "text": document.text}
    sampling = _sampling(config)
    try:
        prompt = fill(_PROMPTS.text("hippo_rag_names"), **passage)
        named = await asker.json(prompt, _NAMES, purpose="extract_names", sampling=sampling)
        names = json.dumps(list(dict.fromkeys(named["names"])), ensure_ascii=False)
        prompt = fill(_PROMPTS.text("hippo_rag_triples"), **passage, names=names)
        found = await asker.json(prompt, _TRIPLES, purpose="extract_triples", sampling=sampling)
    except ITEM_ERRORS:
        return None
    return [[" ".join(triple[part].split()) for part in _TRIPLE] for triple in found["triples"]]


async def _synonyms(phrases: Sequence[str], vectors: Vectors, config: HippoRagConfig, tools: Workbench) -> csr_array:
    """Similarity of each phrase to those of its meaning, shape (phrases, phrases); a phrase of one or two letters has
    none, though others may have it."""
    from scipy.sparse import csr_array

    async def join(rows: Sequence[int]) -> np.ndarray:
        return await asyncio.to_thread(_neighbours, vectors.matrix, rows, config)

    rows = [row for row, phrase in enumerate(phrases) if sum(map(str.isalnum, phrase)) > 2]
    found = await tools.map("synonyms", join, rows, _ROWS)
    pairs = np.concatenate([np.zeros((0, 3)), *found])
    places = pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32)
    return csr_array((pairs[:, 2], places), shape=(len(phrases), len(phrases)))


def _neighbours(matrix: np.ndarray, rows: Sequence[int], config: HippoRagConfig) -> np.ndarray:
    """Row, neighbour and similarity, shape (pairs, 3), float64."""
    scores = matrix[list(rows)] @ matrix.T
    scores[np.arange(len(rows)), rows] = -1
    pairs: list[tuple[int, int, float]] = []
    for row, own in zip(rows, scores, strict=True):
        near = np.flatnonzero(own >= config.synonym_similarity)
        for at in near[np.argsort(-own[near], kind="stable")[: config.synonyms]]:
            pairs.append((row, int(at), float(own[at])))
    return np.array(pairs, float).reshape(-1, 3)


def _sampling(config: HippoRagConfig) -> Sampling:
    return Sampling(temperature=config.temperature, top_p=config.top_p, max_tokens=config.max_tokens)


def _best(scores: np.ndarray, k: int) -> list[tuple[float, int]]:
    """The best `k`: score, rounded to 6 decimals, and row; ties in the order of the rows."""
    rounded = np.round(scores, 6)
    count = min(max(k, 0), len(scores))
    if not count:
        return []
    near = np.flatnonzero(rounded >= np.partition(rounded, -count)[-count])
    order = near[np.argsort(-rounded[near], kind="stable")[:count]]
    return [(float(rounded[row]), int(row)) for row in order]


def _read(path: Path) -> Any:
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RetrievalError(f"{path} is missing or damaged ({error}): build the index again") from error


def _sparse(places: Iterable[tuple[int, int]], values: np.ndarray, shape: tuple[int, int]) -> csr_array:
    from scipy.sparse import coo_array

    rows, columns = np.array(list(places), np.int32).reshape(-1, 2).T
    return coo_array((values, (rows, columns)), shape=shape).tocsr()


def _open(folder: Path, documents: Sequence[Document], config: HippoRagConfig, tools: Workbench) -> HippoRagIndex:
    return HippoRagIndex(FactGraph.open(folder), documents, config, tools)


def _asks_model(config: HippoRagConfig) -> list[str]:
    return [part for part, where in (("build", config.facts), ("find", config.filter)) if where == "model"]


BACKEND = Backend(name="hippo_rag", config=HippoRagConfig, build=_build, open=_open, asks_model=_asks_model)
