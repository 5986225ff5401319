"""GraphRAG (Edge et al., 2024): entities and relations of a corpus, their communities, and a report on each community.

Local search: the entities nearest to the query, the passages that name them, and reports on their communities. Global
search: a model reads the reports, part by part, for points that help to answer, and makes one answer of the points.
It costs, for every search, a call for each `context_tokens` of reports and one more: the reports of a large corpus are
read again and again.

`graph_rag` is built by a model, which writes entities, relations and reports. It is searched globally, as RAGSearch
does it, or locally (`search: local`). `graph_rag_plain` asks none: entities are names, relations are sentences that
name both, reports are such sentences, and it is searched locally.

Not the released system: prompts are ours, and replies are JSON. Communities are igraph's Leiden over the whole graph,
not over its largest component. Claims are not asked for. A passage is read as a whole (corpora are cut before). The
table of entities and relations that stands beside passages and reports is no passage and is not found; what a passage
says of its entities is in `why`.
Of communities within each other an entity's smallest one is searched, not deeper than `level`. Tokens are estimated.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from trailforge.inference import INTEGER, NUMBER, TEXT, fill, list_schema, object_schema
from trailforge.retrieval.backends.declaration import Backend, FoundPassage, PlannedCalls, Workbench, plan_calls
from trailforge.retrieval.backends.entity_graph import (
    EntityCommunity,
    EntityGraph,
    GraphRagConfig,
    GraphRagPlainConfig,
    find_communities,
)
from trailforge.retrieval.backends.graph import Link, Place, key_of
from trailforge.retrieval.backends.vectors import Vectors, embed, embed_passages, index_above
from trailforge.retrieval.backends.writing import (
    PROMPTS,
    ask_each,
    build_graph,
    facts_of,
    in_runs,
    join_names,
    plan_extraction,
    within,
    write_reports,
)
from trailforge.schemas import Document, Passage, RetrievalError, estimate_tokens

_TEXT_TYPE, _ROW, _ROWS, _REAL = pa.string(), pa.int32(), pa.list_(pa.int32()), pa.float64()
_DESCRIBED = {"name": _TEXT_TYPE, "kind": _TEXT_TYPE, "description": _TEXT_TYPE}
_ENTITIES = pa.schema({**_DESCRIBED, "passages": _ROWS, "relations": _ROWS, "community": _ROW})
_RELATIONS = pa.schema({"source": _ROW, "target": _ROW, "weight": _REAL, "description": _TEXT_TYPE, "passages": _ROWS})
_WRITTEN = {"title": _TEXT_TYPE, "text": _TEXT_TYPE, "rating": _REAL}
_REPORTS = pa.schema({"level": _ROW, "parent": _ROW, **_WRITTEN, "members": _ROWS, "passages": _ROWS})
_TABLES = {"entities": _ENTITIES, "relations": _RELATIONS, "reports": _REPORTS}
_DOCUMENTS = b"documents"
"""Beside the columns: how many documents a table is of."""
_MOST_POINTS_TEXT = 1000
"""Words of points that a model is asked for; of the answer twice as many. The released numbers."""
_REPORTS_PER_PASSAGE, _REPORT_INPUT, _REPORT_REPLY = 1.1, 440, 180
"""Reports where a model extracts, and tokens of what one reads and says: a strong model's, over 20 passages of
MuSiQue."""
_PASSAGES_SAMPLED = 200
"""Their names are joined in a graph, to see how many reports there would be where no model extracts."""
_POINT = object_schema(description=TEXT, reports=list_schema(INTEGER), score=NUMBER)
_POINTS_SCHEMA = object_schema(points=list_schema(_POINT))


@dataclass(frozen=True, slots=True)
class CommunityIndex:
    """Tables of entities, relations and reports, and the vectors with which a search compares its query."""

    entities: pa.Table
    relations: pa.Table
    reports: pa.Table
    entity_vectors: Vectors
    passage_vectors: Vectors
    """Vectors of the passages; None unless passages are ordered by them."""
    lost: dict[str, int]
    """Number of passages and of reports for which a model's reply could not be used."""


class _Mention(NamedTuple):
    """A passage found by an entity that it names."""

    passage: int
    place: int
    """Of the entity among the nearest; 0 is the nearest."""
    entity: int
    cosine: float
    relations: int
    """Of the entity, that are from the passage."""


# The build


async def _build(documents: Sequence[Document], config: GraphRagConfig, tools: Workbench) -> GraphRagIndex:
    graph = await build_graph(documents, config, tools)
    communities = await asyncio.to_thread(find_communities, graph, config.largest_community, config.seed)
    lost = {"passages": graph.lost_passages}
    lost["reports"] = await write_reports(communities, graph, config, tools)
    tables = await asyncio.to_thread(_tables, graph, communities, config.level)
    described = [f"{entity.name}: {entity.description}" for entity in graph.entities]
    entities = await index_above(config.compared_up_to, await embed("entities", described, tools), documents, tools)
    passages = await embed_passages("passages", documents if config.order == "passages" else (), tools)
    return GraphRagIndex(
        documents, CommunityIndex(**tables, entity_vectors=entities, passage_vectors=passages, lost=lost), config, tools
    )


def _tables(graph: EntityGraph, communities: Sequence[EntityCommunity], level: int) -> dict[str, pa.Table]:
    smallest = {
        member: number
        for number, community in enumerate(communities)  # level by level, so that the last is the smallest
        if community.level <= level
        for member in community.members
    }
    entities = [
        {name: getattr(entity, name) for name in _ENTITIES.names[:-1]} | {"community": smallest.get(row)}
        for row, entity in enumerate(graph.entities)
    ]
    relations = [{name: getattr(each, name) for name in _RELATIONS.names} for each in graph.relations]
    reports = [{name: getattr(each, name) for name in _REPORTS.names} for each in communities]
    rows = {"entities": entities, "relations": relations, "reports": reports}
    return {name: pa.Table.from_pylist(each, _TABLES[name]) for name, each in rows.items()}


# The search


class GraphRagIndex:
    """Entities with vectors, the passages that name them, and reports on their communities."""

    def __init__(
        self, documents: Sequence[Document], parts: CommunityIndex, config: GraphRagConfig, tools: Workbench
    ) -> None:
        self.parts = parts
        self._documents, self._config, self._tools = documents, config, tools
        columns = ("passages", "relations", "community")
        self._passages, self._relations, self._communities = (parts.entities[name].combine_chunks() for name in columns)
        self._of_relations = parts.relations["passages"].combine_chunks()

    @property
    def stats(self) -> dict[str, Any]:
        """Return sizes, for how many passages and reports a model's reply could not be used, and how entities are
        searched unless all are compared."""
        sizes = {name: getattr(self.parts, name).num_rows for name in _TABLES}
        lost = {f"lost_{name}": count for name, count in self.parts.lost.items()}
        return sizes | lost | self.parts.entity_vectors.stats("entity")

    @classmethod
    def open(
        cls, folder: Path, documents: Sequence[Document], config: GraphRagConfig, tools: Workbench
    ) -> GraphRagIndex:
        """Open the files that `save` wrote, memory-mapped. Raises `RetrievalError` for other files."""
        try:
            read = [pa.ipc.open_file(pa.memory_map(str(folder / f"{name}.arrow"))).read_all() for name in _TABLES]
        except (OSError, pa.ArrowInvalid) as error:
            raise RetrievalError(f"{folder} holds no graph ({error}): build the index again") from error
        entities, passages = (Vectors.open(folder / f"{name}.npy") for name in ("entities", "passages"))
        schemas = [table.schema for table in read]
        made_of = (schemas[0].metadata or {}).get(_DOCUMENTS) == str(len(documents)).encode()
        is_whole = len(entities) == len(read[0]) and (config.order != "passages" or len(passages) == len(documents))
        if not made_of or not is_whole or schemas != [*_TABLES.values()]:
            raise RetrievalError(f"the graph in {folder} is not of these documents and settings: build the index again")
        tables = dict(zip(_TABLES, read, strict=True))
        parts = CommunityIndex(**tables, entity_vectors=entities, passage_vectors=passages, lost={})
        return cls(documents, parts, config, tools)

    def save(self, folder: Path) -> None:
        """Write the index into a folder; see `Index.save`."""
        for name, schema in _TABLES.items():
            noted = schema.with_metadata({_DOCUMENTS: str(len(self._documents))})
            with pa.ipc.new_file(str(folder / f"{name}.arrow"), noted) as writer:
                writer.write_table(getattr(self.parts, name))
        self.parts.entity_vectors.save(folder / "entities.npy")
        self.parts.passage_vectors.save(folder / "passages.npy")

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """Return the results of a search; see `Index.find`. Local: passages, then reports. Global: the answer alone;
        nothing when no report helps.

        The score of a result of local search is 1 / place.
        """
        if k < 1:
            return []
        if self._config.search == "global":
            return await self._answer(query)
        vector = await self._tools.vectors.query(query)
        return await asyncio.to_thread(self._local, vector, k)

    @property
    def documents(self) -> Sequence[Document]:
        """Return the passages of the index; see `LinkedIndex.documents`."""
        return self._documents

    def places_of(self, name: str) -> list[Place]:
        """Return the entities that a name stands for; see `LinkedIndex.places_of`."""
        names = self.parts.entities["name"].to_pylist()
        return [("entity", row) for row, each in enumerate(names) if key_of(each) == key_of(name)]

    def text_of(self, place: Place) -> str:
        """Return the description of an entity; see `LinkedIndex.text_of`."""
        row = {name: self.parts.entities[name][place[1]].as_py() for name in ("name", "description")}
        return ": ".join(filter(None, row.values()))

    def links_of(self, place: Place) -> Iterator[Link]:
        """Return the neighbours of a node: entities by their relations, and the passages that name them."""
        kind, row = place
        if kind == "passage":
            yield from ((("entity", entity), {}) for entity in self._entities_of_passage.get(row, ()))
            return
        yield from ((("passage", passage), {}) for passage in self._passages[row].as_py())
        for relation in self._relations[row].as_py():
            said = {name: self.parts.relations[name][relation].as_py() for name in _RELATIONS.names[:4]}
            other = said["target"] if said["source"] == row else said["source"]
            yield ("entity", other), {"weight": said["weight"], "text": said["description"]}

    @functools.cached_property
    def _entities_of_passage(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for entity, passages in enumerate(self._passages.to_pylist()):
            for passage in passages:
                found.setdefault(passage, []).append(entity)
        return found

    # Local search

    def _local(self, vector: np.ndarray, k: int) -> list[FoundPassage]:
        config = self._config
        nearest = self.parts.entity_vectors.search(vector, config.entities)
        reports = self._reports_of([entity for _, entity in nearest])
        shared = k * config.report_share / (config.report_share + config.passage_share)
        reports = reports[: int(shared + 0.5)]
        mentions = self._ranked(self._mentions(nearest), vector)[: k - len(reports)]
        kept = within(
            [self._documents[mention.passage].text for mention in mentions],
            int(config.context_tokens * config.passage_share),
        )
        texts = [self.parts.reports["text"][report].as_py() for report, _ in reports]
        fitting = within(texts, int(config.context_tokens * config.report_share))
        found = [self._passage(mention, place) for place, mention in enumerate(mentions[:kept], start=1)]
        return found + [
            self._report(
                report, 1 / (len(found) + place), f"report on a community with {matches} of the entities found"
            )
            for place, (report, matches) in enumerate(reports[:fitting], start=1)
        ]

    def _mentions(self, nearest: Sequence[tuple[float, int]]) -> list[_Mention]:
        """The passages of entities, each with the first of its entities."""
        found: dict[int, _Mention] = {}
        for place, (cosine, entity) in enumerate(nearest):
            rows = self._passages[entity].values.to_numpy()
            related = self._of_relations.take(self._relations[entity].values).flatten().to_numpy()
            counts = dict(zip(*(each.tolist() for each in np.unique(related, return_counts=True)), strict=True))
            for row in rows.tolist():
                found.setdefault(row, _Mention(row, place, entity, cosine, counts.get(row, 0)))
        return list(found.values())

    def _ranked(self, mentions: list[_Mention], vector: np.ndarray) -> list[_Mention]:
        if self._config.order == "entities":
            return sorted(mentions, key=lambda each: (each.place, -each.relations, each.passage))
        cosines = self.parts.passage_vectors.matrix[[each.passage for each in mentions]] @ vector
        scores = {each: round(each.cosine + float(own), 6) for each, own in zip(mentions, cosines, strict=True)}
        return sorted(mentions, key=lambda each: (-scores[each], each.passage))

    def _passage(self, mention: _Mention, place: int) -> FoundPassage:
        document = self._documents[mention.passage]
        name = self.parts.entities["name"][mention.entity].as_py()
        why = f"names {name} (entity {mention.place + 1}, cosine {mention.cosine:.3f}), {mention.relations} relations"
        return FoundPassage.of(document, round(1 / place, 6), why)

    def _reports_of(self, entities: Sequence[int]) -> list[tuple[int, int]]:
        """Reports with how many of the entities are in their communities: the most first, then by rating."""
        communities = self._communities.take(pa.array(entities, pa.int32())).drop_null().to_pylist()
        matches = {community: communities.count(community) for community in communities}
        ratings = {community: self.parts.reports["rating"][community].as_py() for community in matches}
        return sorted(matches.items(), key=lambda each: (-each[1], -ratings[each[0]], each[0]))

    def _report(self, report: int, score: float, why: str) -> FoundPassage:
        row = {name: self.parts.reports[name][report].as_py() for name in ("title", "text", "passages")}
        passage = Passage(id=f"graph_rag-{report}", title=row["title"], text=row["text"], score=round(score, 6))
        return FoundPassage(passage=passage, why=why, sources=self._ids(row["passages"]))

    def _ids(self, rows: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._documents[row].id for row in rows)

    # Global search

    async def _answer(self, query: str) -> list[FoundPassage]:
        batches = report_batches(self.parts, self._config)
        found = await ask_each(lambda batch: self._points(query, batch), batches)
        points = [point for part in found if part for point in part if point["score"] > 0]
        points.sort(key=lambda point: -point["score"])
        if not points:
            return []
        texts = [f"[{point['score']:g}] {point['description']}" for point in points]
        points = points[: within(texts, self._config.context_tokens)]
        prompt = fill(
            PROMPTS.text("graph_rag_answer"),
            words=str(2 * _MOST_POINTS_TEXT),
            question=query,
            points="\n".join(texts[: len(points)]),
        )
        answer = await self._tools.model.matching(
            prompt, lambda reply: reply.strip() or None, purpose="answer", sampling=self._config.sampling
        )
        reports = sorted({report for point in points for report in point["reports"]})
        rows = sorted({row for report in reports for row in self.parts.reports["passages"][report].as_py()})
        name = sha256(query.encode()).hexdigest()[:12]
        score = round(points[0]["score"] / 100, 6)
        told = "a report says" if len(reports) == 1 else f"{len(reports)} reports say"
        passage = Passage(id=f"graph_rag-answer-{name}", title=f"What {told}", text=answer, score=score)
        why = f"answer from {len(points)} points; what {told}, {len(batches) + 1} calls"
        return [FoundPassage(passage=passage, why=why, sources=self._ids(rows))]

    async def _points(self, query: str, batch: Sequence[int]) -> list[dict[str, Any]]:
        prompt = fill(
            PROMPTS.text("graph_rag_points"),
            words=str(_MOST_POINTS_TEXT),
            question=query,
            reports="\n\n".join(_numbered(self.parts, report) for report in batch),
        )
        reply = await self._tools.model.json(prompt, _POINTS_SCHEMA, purpose="points", sampling=self._config.sampling)
        known = set(batch)
        return [point | {"reports": [each for each in point["reports"] if each in known]} for point in reply["points"]]


def report_batches(parts: CommunityIndex, config: GraphRagConfig) -> list[list[int]]:
    """Return the reports that a global search reads, as rows of the table of reports, in one batch for each call. They
    are those of every entity's smallest community, shuffled."""
    reports = sorted(set(parts.entities["community"].drop_null().to_pylist()))
    random.Random(config.seed).shuffle(reports)
    return in_runs(reports, [estimate_tokens(_numbered(parts, report)) for report in reports], config.context_tokens)


def _numbered(parts: CommunityIndex, report: int) -> str:
    return f"[{report}] {parts.reports['title'][report].as_py()}\n{parts.reports['text'][report].as_py()}"


def _asks_model(config: GraphRagConfig) -> Sequence[str]:
    asked = ["build"] if "model" in (config.extraction, config.reports) else []
    return (*asked, "find") if config.search == "global" else tuple(asked)


def _estimate(documents: Sequence[Document], config: GraphRagConfig) -> Sequence[PlannedCalls]:
    """See `Backend.estimate`. Reports are as many per passage as in a sample."""
    planned = plan_extraction(documents, config) if config.extraction == "model" else []
    if config.reports != "model":
        return planned
    template, words = PROMPTS.text("graph_rag_report"), str(3 * config.report_tokens // 4)
    if config.extraction == "model":
        prompt, times = fill(template, words=words, facts=""), _REPORTS_PER_PASSAGE * len(documents)
        return [*planned, plan_calls("report", [prompt], filled=_REPORT_INPUT, replies=_REPORT_REPLY, times=times)]
    chosen = random.Random(config.seed).sample(range(len(documents)), min(len(documents), _PASSAGES_SAMPLED))
    graph = join_names([documents[row] for row in sorted(chosen)], config)
    communities = find_communities(graph, config.largest_community, config.seed)
    facts = [
        facts_of(community, graph, [], config.report_input_tokens)
        for community in communities
        if len(community.members) >= config.smallest_report
    ]
    prompts = (fill(template, words=words, facts=each) for each in facts)
    times = len(documents) / max(len(chosen), 1)
    return [plan_calls("report", prompts, replies=_REPORT_REPLY * len(facts), times=times)]


BACKEND = Backend(
    name="graph_rag",
    plain="graph_rag_plain",
    build_packages=lambda config: ("igraph",),
    config=GraphRagConfig,
    build=_build,
    open=GraphRagIndex.open,
    asks_model=_asks_model,
    estimate=_estimate,
)
PLAIN = replace(BACKEND, name=BACKEND.plain, plain="", config=GraphRagPlainConfig)
