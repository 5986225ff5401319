"""A knowledge graph to search: built once into a folder, opened memory-mapped, shared between processes.

    build_kg(open_source(path), folder)                                   a graph's published files to a store
    store = KgStore.open(folder)                                          entities, names, triples, neighbours
    match_entity(store, "Albert Einstien", "Where was he born?")          mention to entities, with score and margin
    find_subgraph(store, ["Q937"], ["place of birth"])                    ranked triples within limits
    KgTool(store).search(["Albert Einstein"], ["place of birth"])         the three in one
    await keep_triples(client, model, TripleQuery(...), triples)          what a model keeps of them

Fuzzy matching needs rapidfuzz (the extra `kg`), which is loaded when it is first needed.
"""

from trailforge.retrieval.kg.build import build_kg
from trailforge.retrieval.kg.match import match_entity, match_relation
from trailforge.retrieval.kg.sources import Codex, KgSource, KqaJson, Tables, Wikidata5M, open_source
from trailforge.retrieval.kg.store import KgStore
from trailforge.retrieval.kg.subgraph import CountTokens, SubgraphLimits, find_subgraph
from trailforge.retrieval.kg.tool import (
    MAX_KEPT,
    KgResult,
    KgTool,
    KgToolConfig,
    TripleQuery,
    filter_prompt,
    keep_triples,
)

__all__ = [
    "MAX_KEPT",
    "Codex",
    "CountTokens",
    "KgResult",
    "KgSource",
    "KgStore",
    "KgTool",
    "KgToolConfig",
    "KqaJson",
    "SubgraphLimits",
    "Tables",
    "TripleQuery",
    "Wikidata5M",
    "build_kg",
    "filter_prompt",
    "find_subgraph",
    "keep_triples",
    "match_entity",
    "match_relation",
    "open_source",
]
