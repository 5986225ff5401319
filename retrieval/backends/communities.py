"""Communities of an entity graph, small ones within large ones, each with a report."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trailforge.inference.asker import Asker, fill
from trailforge.retrieval.backends.declaration import Workbench
from trailforge.retrieval.backends.entity_graph import EntityGraph, GraphRagConfig
from trailforge.retrieval.backends.summaries import ASKED_AT_ONCE, PROMPTS, ask_each, lead_sentences
from trailforge.schemas.text import estimate_tokens

_TITLE_NAMES = 3
_TEXT = {"type": "string"}
_FINDING = {
    "type": "object",
    "properties": {"summary": _TEXT, "explanation": _TEXT},
    "required": ["summary", "explanation"],
    "additionalProperties": False,
}
_REPORT_SCHEMA = {
    "type": "object",
    "properties": {
        "title": _TEXT,
        "summary": _TEXT,
        "findings": {"type": "array", "items": _FINDING},
        "rating": {"type": "number"},
    },
    "required": ["title", "summary", "findings", "rating"],
    "additionalProperties": False,
}
_turn = threading.Lock()
"""igraph draws from one generator for the whole process."""


@dataclass(slots=True)
class EntityCommunity:
    """Entities that are more closely related with each other than with others."""

    level: int
    """0: of the whole graph; 1: of one of level 0 …"""
    parent: int | None
    """Its number in the list of all communities."""
    members: list[int]
    """Rows of entities, ascending."""
    relations: list[int] = field(default_factory=list)
    """Rows of those between members, the one whose entities have most relations first."""
    passages: list[int] = field(default_factory=list)
    """Rows of those that these relations are from, ascending."""
    title: str = ""
    text: str = ""
    """The report."""
    rating: float = 0.0
    """0 to 10 by a model; without one, relations within."""


def find_communities(graph: EntityGraph, largest: int, seed: int) -> list[EntityCommunity]:
    """Communities of two entities or more, level by level: Leiden by modularity, and again in each that is too large.

    Entities without a relation are in none. What Leiden does not divide stays as large as it is.
    """
    import igraph

    related = [row for row, entity in enumerate(graph.entities) if entity.relations]
    places = {row: place for place, row in enumerate(related)}
    ends = [(places[relation.source], places[relation.target]) for relation in graph.relations]
    whole = igraph.Graph(n=len(related), edges=ends)
    whole.es["weight"] = [max(relation.weight, 1e-9) for relation in graph.relations]
    found: list[EntityCommunity] = []
    waiting: list[tuple[int | None, list[int]]] = [(None, list(range(len(related))))] if related else []
    with _turn:
        igraph.set_random_number_generator(random.Random(seed))
        try:
            for parent, within in waiting:
                for part in _divide(whole, within, is_whole=parent is None):
                    level = 0 if parent is None else found[parent].level + 1
                    found.append(EntityCommunity(level, parent, [related[place] for place in part]))
                    if len(part) > largest:
                        waiting.append((len(found) - 1, part))
        finally:
            igraph.set_random_number_generator(random)
    for community in found:
        _add_relations(community, graph)
    return found


def _divide(whole: Any, within: list[int], *, is_whole: bool) -> list[list[int]]:
    """The communities of a part of the graph; none when it is one, or of single entities."""
    part = whole.induced_subgraph(within)
    clusters = part.community_leiden(objective_function="modularity", weights="weight", n_iterations=-1)
    parts = sorted(sorted(within[place] for place in cluster) for cluster in clusters if len(cluster) > 1)
    return parts if is_whole or len(clusters) > 1 else []


def _add_relations(community: EntityCommunity, graph: EntityGraph) -> None:
    members = set(community.members)
    rows = {row for member in members for row in graph.entities[member].relations}
    inner = [row for row in rows if {graph.relations[row].source, graph.relations[row].target} <= members]
    community.relations = sorted(inner, key=lambda row: (-graph.degree(graph.relations[row]), row))
    community.passages = sorted({passage for row in inner for passage in graph.relations[row].passages})


async def write_reports(
    communities: list[EntityCommunity], graph: EntityGraph, config: GraphRagConfig, tools: Workbench
) -> int:
    """Give every community its report, the smallest first; how many a model was asked for in vain.

    Those get the report that is made without a model.
    """
    lost = 0
    parts = defaultdict[int, list[EntityCommunity]](list)
    for community in communities:
        if community.parent is not None:
            parts[community.parent].append(community)
    for level in sorted({community.level for community in communities}, reverse=True):
        here = [(number, each) for number, each in enumerate(communities) if each.level == level]
        for _, community in here:
            _extract_report(community, graph, config)
        if config.reports == "model":
            here = [(number, each) for number, each in here if len(each.members) >= config.smallest_report]
            texts = [
                facts_of(community, graph, parts[number], config.report_input_tokens) for number, community in here
            ]

            async def work(part: Sequence[str]) -> list[dict[str, Any] | None]:
                return await ask_each(lambda facts: _ask_report(tools.model, facts, config), part)

            shards = await tools.map(f"reports of level {level}", work, texts, ASKED_AT_ONCE)
            for (_, community), report in zip(here, (each for shard in shards for each in shard), strict=True):
                lost += report is None
                if report is not None:
                    _take_report(community, report)
    return lost


def facts_of(community: EntityCommunity, graph: EntityGraph, parts: Sequence[EntityCommunity], tokens: int) -> str:
    """What a report is written from: relations, those of entities with most relations first, and their entities.

    Where they are too many, the reports of communities within stand in the place of their facts, the largest first, as
    many as it takes; what is too much even so is cut.
    """
    reported: list[EntityCommunity] = []
    waiting = sorted(parts, key=lambda part: (-len(part.members), part.members))
    text = _facts_text(community, graph, reported)
    while estimate_tokens(text) > tokens and waiting:
        reported.append(waiting.pop(0))
        text = _facts_text(community, graph, reported)
    lines = text.split("\n")
    while estimate_tokens(text) > tokens and len(lines) > 1:
        del lines[-max(len(lines) // 20, 1) :]
        text = "\n".join(lines)
    return text


def _facts_text(community: EntityCommunity, graph: EntityGraph, reported: Sequence[EntityCommunity]) -> str:
    told = {row for part in reported for row in part.relations}
    known = {member for part in reported for member in part.members}
    relations = [graph.relations[row] for row in community.relations if row not in told]
    ends = [end for relation in relations for end in (relation.source, relation.target)]
    entities = [graph.entities[row] for row in dict.fromkeys([*ends, *community.members]) if row not in known]
    lines = [line for part in reported for line in (f"Report: {part.title}", part.text, "")]
    lines += ["Entities", *(f"- {e.name}{f' ({e.kind})' if e.kind else ''}: {e.description}" for e in entities)]
    lines += ["Relations"] + [
        f"- {graph.entities[each.source].name} – {graph.entities[each.target].name}: {each.description}"
        for each in relations
    ]
    return "\n".join(lines)


def _extract_report(community: EntityCommunity, graph: EntityGraph, config: GraphRagConfig) -> None:
    """Names the entities with most relations, and says what their relations say."""
    degrees = {member: len(graph.entities[member].relations) for member in community.members}
    central = sorted(community.members, key=lambda member: (-degrees[member], member))
    names = [graph.entities[member].name for member in central]
    community.title = ", ".join(names[:_TITLE_NAMES]) + (" …" if len(names) > _TITLE_NAMES else "")
    said = [graph.relations[row].description for row in community.relations]
    community.text = lead_sentences(said, config.extract_tokens)
    community.rating = float(len(community.relations))


async def _ask_report(asker: Asker, facts: str, config: GraphRagConfig) -> dict[str, Any]:
    prompt = fill(PROMPTS.text("graph_rag_report"), words=str(3 * config.report_tokens // 4), facts=facts)
    return await asker.json(prompt, _REPORT_SCHEMA, purpose="report", sampling=config.sampling)


def _take_report(community: EntityCommunity, report: dict[str, Any]) -> None:
    findings = [f"{each['summary'].strip()}\n{each['explanation'].strip()}" for each in report["findings"]]
    community.title = report["title"].strip() or community.title
    community.text = "\n\n".join([report["summary"].strip(), *findings])
    community.rating = float(report["rating"])
