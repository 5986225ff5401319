"""Build a knowledge graph once into a folder, open it memory-mapped and shared between processes, and search it.

    build_kg(open_source(path), folder)                                   a graph's published files to a store
    store = KgStore.open(folder)                                          entities, names, triples, neighbours
    match_entity(store, "Albert Einstien", "Where was he born?")          mention to entities, with score and margin
    find_subgraph(store, ["Q937"], ["place of birth"])                    ranked triples within limits
    KgTool(store).search(["Albert Einstein"], ["place of birth"])         the three in one
    await keep_triples(client, model, TripleQuery(...), triples)          what a model keeps of them

Fuzzy matching needs rapidfuzz (the extra `kg`), which is loaded when it is first needed.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.retrieval.kg.build import build_kg as build_kg
    from trailforge.retrieval.kg.columns import stretch as stretch
    from trailforge.retrieval.kg.folding import content_words as content_words
    from trailforge.retrieval.kg.folding import name_words as name_words
    from trailforge.retrieval.kg.graph import Adjacency as Adjacency
    from trailforge.retrieval.kg.layout import MANIFEST as MANIFEST
    from trailforge.retrieval.kg.match import match_entity as match_entity
    from trailforge.retrieval.kg.match import match_relation as match_relation
    from trailforge.retrieval.kg.sources import open_source as open_source
    from trailforge.retrieval.kg.store import KgStore as KgStore
    from trailforge.retrieval.kg.subgraph import SubgraphLimits as SubgraphLimits
    from trailforge.retrieval.kg.subgraph import find_subgraph as find_subgraph
    from trailforge.retrieval.kg.tables import parse_columns as parse_columns
    from trailforge.retrieval.kg.tool import MAX_KEPT as MAX_KEPT
    from trailforge.retrieval.kg.tool import KgResult as KgResult
    from trailforge.retrieval.kg.tool import KgTool as KgTool
    from trailforge.retrieval.kg.tool import KgToolConfig as KgToolConfig
    from trailforge.retrieval.kg.tool import TripleQuery as TripleQuery
    from trailforge.retrieval.kg.tool import filter_template as filter_template
    from trailforge.retrieval.kg.tool import keep_triples as keep_triples
    from trailforge.retrieval.kg.vocabulary import check_package as check_package
else:
    __getattr__, __dir__ = lazy_names(__name__)
