"""HyperGraphRAG (Luo et al., 2025), as the environment of Graph-R1 searches it: n-ary facts that join entities.

A fact (hyperedge) is a statement with the entities it is about. A search begins with the entities and the facts that
are nearest to the query. List 1 is the facts of these entities, by how many others entity and fact are joined to, then
by the weight of the entity in the fact; list 2 is the nearest facts by their weight. A fact's coherence is the sum of
1/rank over its places in both. A fact keeps the passages that state it, so that passages are found through facts.

`hyper_graph_rag` is built by a model, which reads the facts out of each passage, and gives facts: Graph-R1's agent
reads ten (`--k`, `--top-k`). `hyper_graph_rag_plain` asks none: each sentence is a fact, about the names in it and the
title, and passages are given.

Unlike the published one, it has prompts of ours, reads passages whole, cuts long descriptions, and gives facts in order
of their coherence without writing the number before each.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import feather

from trailforge.inference import Sampling
from trailforge.retrieval.backends.declaration import Backend, FoundPassage, Workbench
from trailforge.retrieval.backends.facts import Fact, FactEntity, model_facts, plan_model_facts, sentence_facts
from trailforge.retrieval.backends.graph import (
    Link,
    NameFinder,
    Place,
    key_of,
    linked,
    open_sparse,
    row_of,
    save_sparse,
)
from trailforge.retrieval.backends.vectors import Vectors, embed, index_above
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.retrieval.words import words_of
from trailforge.schemas import Document, Passage, RetrievalError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_PASSAGES_ASKED = 16
"""At once, which is a shard of the build."""
_LONGEST_DESCRIPTION = 200
"""Words of what is said of an entity that go into its vector: more than encoders read."""
_TABLES = ("names", "texts")
_LONGEST_LIST = 1000
"""Places of a list that count: what comes after adds less than a thousandth."""
_FACTS_SHOWN = 3
"""In the reasons for a passage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperGraphRagConfig:
    """Settings of HyperGraphRAG: the numbers of Graph-R1's environment, except for sampling, which suits models that
    reason."""

    facts: Literal["sentences", "model"] = "model"
    """Origin of the facts: each sentence is one, about the names in it and the title; or a model reads them out, as
    published."""
    unit: Literal["passages", "facts"] = "facts"
    """Unit that a search returns. Graph-R1's agent reads facts."""
    entities: int = 5
    hyperedges: int = 5
    """Number of entities, and of facts, nearest to the query at which a search begins."""
    compared_up_to: int = 50_000
    """Number of entities, and of facts, up to which a query is compared with all; among more an approximate index
    finds the nearest, as in `dense`."""
    seeds: Literal["query", "names"] = "query"
    """Entities at which a search begins: the nearest to the query, as published; or those that the query names, with a
    list for each, and the nearest if it names none."""
    order: Literal["degree", "similarity"] = "degree"
    """Order of the facts in both lists: as published, or by their similarity to the query."""
    gleanings: int = 2
    """Largest number of times that a model is asked again for what it left out of a passage."""
    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 12_288
    """Largest number of tokens of a reply, thoughts included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperGraphRagPlainConfig(HyperGraphRagConfig):
    """Settings of HyperGraphRAG without a model, whose facts are sentences. In our measurements it found more passages
    with `seeds: names` and `order: similarity`, which are not the defaults.
    """

    facts: Literal["sentences"] = "sentences"
    unit: Literal["passages", "facts"] = "passages"


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperGraph:
    """Entities and facts, by row, and the matrices that join them."""

    joins: csr_array
    """Weight of each entity in each fact, summed over the passages that state it, shape (entities, facts)."""
    sources: csr_array
    """Matrix with 1 where a document states a fact, shape (facts, documents)."""
    weights: np.ndarray
    """Weights of the facts, summed over the passages."""
    degrees: np.ndarray
    """Number of entities of each fact."""
    names: pa.ChunkedArray
    """Names of the entities."""
    texts: pa.ChunkedArray
    """Texts of the facts."""
    lost: int = 0
    """Number of passages from which a model returned no readable facts."""

    def save(self, folder: Path) -> None:
        """Write the graph to files in a folder."""
        save_sparse(folder, "joins", self.joins)
        save_sparse(folder, "sources", self.sources)
        for name in ("weights", "degrees", "lost"):
            np.save(folder / f"{name}.npy", getattr(self, name))
        for name in _TABLES:
            feather.write_feather(pa.table({name: getattr(self, name)}), folder / f"{name}.arrow", "uncompressed")

    @classmethod
    def open(cls, folder: Path) -> HyperGraph:
        """Open the files that `save` wrote, memory-mapped. Raises `RetrievalError` for other files."""
        joins, sources = (open_sparse(folder, name) for name in ("joins", "sources"))
        try:
            names, texts = (feather.read_table(folder / f"{each}.arrow", memory_map=True)[each] for each in _TABLES)
            weights, degrees = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("weights", "degrees"))
            lost = int(np.load(folder / "lost.npy"))
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise RetrievalError(f"{folder} holds no hypergraph ({error}): build the index again") from error
        return cls(joins=joins, sources=sources, weights=weights, degrees=degrees, names=names, texts=texts, lost=lost)


def join_facts(facts: Iterable[Sequence[Fact] | None], documents: int) -> tuple[HyperGraph, list[str]]:
    """Return the graph of the facts of all documents, and the texts from which entities' vectors are made. `facts` has
    those of each document in order, None where a model's reply was lost; `documents` is the number of documents.

    Entities are one when their names are, but for capitals, marks and an article; facts when their words are.
    """
    from scipy.sparse import coo_array

    texts, names, about = dict[str, str](), dict[str, str](), defaultdict[int, dict[str, None]](dict)
    rows, keys = defaultdict[str, int](count().__next__), defaultdict[str, int](count().__next__)
    joins, sources, weights, lost = defaultdict[tuple[int, int], float](float), [], defaultdict[int, float](float), 0
    for document, stated in enumerate(facts):
        lost += stated is None
        for fact in stated or ():
            words = " ".join(words_of(fact.text)) or fact.text
            texts.setdefault(words, fact.text)
            weights[rows[words]] += fact.weight
            sources.append((rows[words], document))
            for entity in fact.entities:
                if key := key_of(entity.name):
                    names.setdefault(key, entity.name)
                    joins[keys[key], rows[words]] += entity.weight
                    about[keys[key]].update({entity.about: None} if entity.about else {})
    pairs = np.array([*joins], np.int32).reshape(-1, 2).T
    stating = np.array(sorted(set(sources)), np.int32).reshape(-1, 2).T
    graph = HyperGraph(
        joins=coo_array((np.array([*joins.values()], np.float32), tuple(pairs)), (len(names), len(texts))).tocsr(),
        sources=coo_array((np.ones(stating.shape[1], np.int8), tuple(stating)), (len(texts), documents)).tocsr(),
        weights=np.array([weights[row] for row in range(len(texts))], np.float32),
        degrees=np.bincount(pairs[1], minlength=len(texts)),
        names=pa.chunked_array([pa.array([*names.values()], pa.large_string())]),
        texts=pa.chunked_array([pa.array([*texts.values()], pa.large_string())]),
        lost=lost,
    )
    described = (" ".join([f"{name},", *about[row]]).split() for row, name in enumerate(names.values()))
    return graph, [" ".join(words[:_LONGEST_DESCRIPTION]).removesuffix(",") for words in described]


class _Hit(NamedTuple):
    fact: int
    score: float
    """Coherence, above 0; of one that was found by similarity alone its cosine less 1."""
    through: tuple[int, ...] = ()
    """Entities whose fact it is and where the search began."""
    is_near: bool = True
    """It is itself near to the query."""


@dataclass(frozen=True)
class HyperGraphRagIndex:
    """An `Index` over facts that join entities. Where it returns passages, places that coherent facts leave free are
    filled by the similarity of facts."""

    documents: Sequence[Document]
    config: HyperGraphRagConfig
    encoder: Encoder
    graph: HyperGraph
    entities: Vectors
    facts: Vectors
    finder: NameFinder

    @property
    def stats(self) -> dict[str, Any]:
        """Return sizes, how many passages have no facts because a model's reply could not be used, and how facts and
        entities are searched unless all are compared."""
        sizes = {"facts": len(self.facts), "entities": len(self.entities), "lost_passages": self.graph.lost}
        return sizes | self.facts.stats("fact") | self.entities.stats("entity")

    @cached_property
    def rows(self) -> dict[str, int]:
        """Return the rows of the entities by key."""
        return {key_of(name): row for row, name in enumerate(self.graph.names.to_pylist())}

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """Return the best `k` facts or passages with reasons; see `Index.find`."""
        if k < 1 or not len(self.facts):
            return []
        vector = await self.encoder.query(query)
        return await asyncio.to_thread(
            self._find_facts if self.config.unit == "facts" else self._find, query, vector, k
        )

    def save(self, folder: Path) -> None:
        """Write the index into a folder; see `Index.save`."""
        self.graph.save(folder)
        self.finder.save(folder)
        self.entities.save(folder / "entity_vectors.npy")
        self.facts.save(folder / "fact_vectors.npy")

    def places_of(self, name: str) -> list[Place]:
        """Return the entities that a name stands for; see `LinkedIndex.places_of`."""
        row = self.rows.get(key_of(name))
        return [] if row is None else [("entity", row)]

    def text_of(self, place: Place) -> str:
        """Return the text of an entity or fact; see `LinkedIndex.text_of`."""
        kind, row = place
        return (self.graph.names if kind == "entity" else self.graph.texts)[row].as_py()

    def links_of(self, place: Place) -> Iterator[Link]:
        """Return the neighbours of a node: entities and the facts that join them, facts and the passages that state
        them."""
        kind, row = place
        if kind == "entity":
            yield from linked("fact", self.graph.joins, row)
        elif kind == "fact":
            yield from linked("entity", self._entities_of, row)
            yield from linked("passage", self.graph.sources, row)
        else:
            yield from linked("fact", self._facts_of_passage, row)

    @cached_property
    def _entities_of(self) -> csr_array:
        return self.graph.joins.T.tocsr()

    @cached_property
    def _facts_of_passage(self) -> csr_array:
        return self.graph.sources.T.tocsr()

    def _rank(self, query: str, vector: np.ndarray, more: int) -> list[_Hit]:
        """All coherent facts, then at least `more` by similarity, as far as there are: the best first."""
        near = self.facts.search(vector, self.config.hyperedges + more)
        first = [row for _, row in near[: self.config.hyperedges]]
        if self.config.order == "degree":
            first.sort(key=lambda row: -self.graph.weights[row])
        coherence, through = defaultdict[int, float](float), defaultdict[int, list[int]](list)
        lists = [self._facts_of(entities, vector) for entities in self._seeds(query, vector)]
        for ranked in (*lists, [(-1, fact) for fact in first]):
            for rank, (entity, fact) in enumerate(ranked, start=1):
                coherence[fact] += 1 / rank
                through[fact] += [entity] if entity >= 0 else []
        hits = [_Hit(row, round(score, 6), tuple(through[row]), row in first) for row, score in coherence.items()]
        hits.sort(key=lambda hit: (-hit.score, hit.fact))
        return hits + [_Hit(row, round(score - 1, 6)) for score, row in near if row not in coherence]

    def _seeds(self, query: str, vector: np.ndarray) -> list[list[int]]:
        """Entities where a search begins, those of a list together."""
        named = self.finder.question_names(query, self.rows) if self.config.seeds == "names" else []
        found = [[self.rows[name]] for name in named if name in self.rows]
        return found or [[row for _, row in self.entities.search(vector, self.config.entities)]]

    def _facts_of(self, entities: Sequence[int], vector: np.ndarray) -> list[tuple[int, int]]:
        """Entity and fact, best first, of those that count at all: list 1."""
        joins, starts = self.graph.joins, self.graph.joins.indptr
        places = [np.arange(starts[entity], starts[entity + 1]) for entity in entities]
        if not places:
            return []
        at, sizes = np.concatenate(places), np.array([len(each) for each in places])
        facts, owners = joins.indices[at], np.repeat(entities, sizes)
        if self.config.order == "similarity":
            keys = [np.negative(np.round(self.facts.matrix[facts] @ vector, 6))]
        else:
            keys = [np.negative(joins.data[at]), np.negative(np.repeat(sizes, sizes) + self.graph.degrees[facts])]
        return [(int(owners[place]), int(facts[place])) for place in np.lexsort(keys)[:_LONGEST_LIST]]

    def _find(self, query: str, vector: np.ndarray, k: int) -> list[FoundPassage]:
        """Passages, each as good as its best fact."""
        more, found = 4 * k, dict[int, list[_Hit]]()
        while len(found) < k:
            found = {}
            for hit in self._rank(query, vector, more):
                for row in self._sources_of(hit):
                    found.setdefault(row, []).append(hit)
            if more >= len(self.facts):
                break
            more *= 4
        best = sorted(found, key=lambda row: (-found[row][0].score, row))[:k]
        return [self._found(self.documents[row], found[row], (row,)) for row in best]

    def _find_facts(self, query: str, vector: np.ndarray, k: int) -> list[FoundPassage]:
        """Facts, as passages under ids of their own and the title of the first passage that states them.

        As published those of the two lists alone, which may be fewer than `k`.
        """
        found = []
        for hit in self._rank(query, vector, 0)[:k]:
            sources = self._sources_of(hit)
            title, text = self.documents[sources[0]].title, self.graph.texts[hit.fact].as_py()
            found.append(self._found(Document(id=f"fact-{hit.fact}", title=title, text=text), [hit], sources))
        return found

    def _found(self, document: Document, hits: Sequence[_Hit], sources: Sequence[int]) -> FoundPassage:
        shown = [hit for hit in hits[:_FACTS_SHOWN] if hit.score > 0] or hits[:1]
        return FoundPassage(
            passage=Passage(id=document.id, title=document.title, text=document.text, score=hits[0].score),
            why="; ".join(map(self._why, shown)),
            sources=tuple(self.documents[row].id for row in sources),
        )

    def _sources_of(self, hit: _Hit) -> list[int]:
        return row_of(self.graph.sources, hit.fact)[0].tolist()

    def _why(self, hit: _Hit) -> str:
        reasons = [f"of {self.graph.names[entity]}" for entity in hit.through] + ["near the query"] * hit.is_near
        return f"“{self.graph.texts[hit.fact]}” ({', '.join(reasons)})"


async def _build(documents: Sequence[Document], config: HyperGraphRagConfig, tools: Workbench) -> HyperGraphRagIndex:
    finder = await asyncio.to_thread(NameFinder.of, documents)
    if config.facts == "model":
        sampling = Sampling(temperature=config.temperature, top_p=config.top_p, max_tokens=config.max_tokens)

        async def read(part: Sequence[Document]) -> list[Any]:
            return await model_facts(part, config.gleanings, sampling, tools.model)

        shards = await tools.map("facts", read, documents, _PASSAGES_ASKED)
        facts = [_facts_in(each) for shard in shards for each in shard]
    else:
        facts = await asyncio.to_thread(sentence_facts, documents, finder)
    graph, described = await asyncio.to_thread(join_facts, facts, len(documents))
    entities, statements = [
        await index_above(config.compared_up_to, await embed(name, texts, tools), documents, tools)
        for name, texts in (("entity_vectors", described), ("fact_vectors", graph.texts.to_pylist()))
    ]
    return HyperGraphRagIndex(documents, config, tools.vectors, graph, entities, statements, finder)


def _facts_in(kept: Any) -> list[Fact] | None:
    """Facts as they were, or as JSON has them."""
    return kept and [
        Fact(text, weight, tuple(FactEntity(*each) for each in mentions)) for text, weight, mentions in kept
    ]


def _open(
    folder: Path, documents: Sequence[Document], config: HyperGraphRagConfig, tools: Workbench
) -> HyperGraphRagIndex:
    graph, finder = HyperGraph.open(folder), NameFinder.open(folder)
    entities, facts = (Vectors.open(folder / f"{name}_vectors.npy") for name in ("entity", "fact"))
    return HyperGraphRagIndex(documents, config, tools.vectors, graph, entities, facts, finder)


BACKEND = Backend(
    name="hyper_graph_rag",
    plain="hyper_graph_rag_plain",
    packages=("scipy",),
    config=HyperGraphRagConfig,
    build=_build,
    open=_open,
    asks_model=lambda config: ("build",) if config.facts == "model" else (),
    estimate=lambda documents, config: plan_model_facts(documents, config.gleanings) if config.facts == "model" else (),
)
PLAIN = replace(BACKEND, name=BACKEND.plain, plain="", config=HyperGraphRagPlainConfig)
