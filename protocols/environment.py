"""Open what agents search: documents, a knowledge graph, the tools of plans; the same for data, training and
evaluation.

environment = open_environment(grammar, corpus, search=config, kg=folder)     or of what is open already
respond = environment.respond(grammar, question)                              the tools of one episode
respond = environment.respond_or_fail(grammar, question)                      of one that a failing search ends
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol, Self

from trailforge.inference import Asker, Meter, ServedModel, read_served
from trailforge.protocols.episodes import Respond
from trailforge.protocols.grammar import Grammar, Searched
from trailforge.protocols.r_search import run_plan
from trailforge.protocols.result_filters import DocumentFilter, KgFilter, ResultFilter, named_model, open_filter
from trailforge.protocols.turns import Labels, Observation, Search
from trailforge.retrieval import (
    WEB,
    FailureCount,
    PageTools,
    PatientRetriever,
    Retriever,
    RetrieverConfig,
    SearchPatience,
    Tools,
    first_sentences,
    open_retrieval,
    open_tools,
)
from trailforge.retrieval.backends import BACKENDS
from trailforge.retrieval.encoders import encoder_model
from trailforge.retrieval.kg import KgResult, KgStore, KgTool, KgToolConfig
from trailforge.retrieval.pages import pages_of
from trailforge.retrieval.service import SearchClient, connect, is_address
from trailforge.schemas import (
    Document,
    InvalidInput,
    KgTriple,
    MalformedReply,
    Passage,
    ProviderError,
    RetrievalError,
    SourceDocument,
)


class Searching(Protocol):
    """The part of a protocol that says what its agents search."""

    @property
    def name(self) -> str:
        """Return the protocol's name."""
        ...

    @property
    def searches(self) -> Searched | Literal["pages"]:
        """Return what its agents search; `pages` are documents whose pages they open."""
        ...


Corpus = Path | Sequence[Document] | Sequence[SourceDocument]
"""What an environment is opened on: an index or a file of passages, or documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentConfig(RetrieverConfig):
    """How agents find documents, in training and evaluation. Options of the command line take precedence.

    A field that is empty is filled in from the index that is searched; without an index a `kind` must be given. Graph
    and filters are for agents that do not plan.
    """

    graph: KgToolConfig = field(default_factory=KgToolConfig)
    """How a knowledge graph is searched."""
    kg_filter: KgFilter = "model"
    """Which triples an agent reads where a graph is searched; by default as when the data were made. A rule that asks
    no model has to be chosen.
    """
    document_filter: DocumentFilter = "none"
    filter_model: ServedModel | None = None
    """The model that filters with the rule `model` ask."""
    patience: SearchPatience = field(default_factory=SearchPatience)

    def __post_init__(self) -> None:
        RetrieverConfig.__post_init__(self)
        if self.document_filter == "model" and self.filter_model is None:
            raise InvalidInput("a filter asks a model: say its url and model", field="filter_model")

    def filtered_by(self, kg_filter: KgFilter | None, filter_model: str | None) -> Self:
        """Return this configuration with another filter of triples, and another model (`URL#MODEL`) for filters to
        call; None keeps either. Raises `InvalidInput` for text that names no server's model.
        """
        served = self.filter_model if filter_model is None else read_served(filter_model, self.filter_model)
        return replace(self, kg_filter=kg_filter or self.kg_filter, filter_model=served)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFound:
    """The results of the knowledge graph for a search: the `Observation.detail` of agents that search a graph."""

    found: KgResult
    kept: tuple[KgTriple, ...]
    """The triples that the agent reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What agents search, opened and ready to ask."""

    documents: Retriever | None = None
    """The documents that agents of every protocol search, but those that plan."""
    kg: KgTool | SearchClient | None = None
    """The knowledge graph, for agents that search one."""
    filters: ResultFilter = field(default_factory=ResultFilter)
    """The filters of what a search found, for all agents but those that plan."""
    plan_tools: Tools | None = None
    """The tools that search plans name, for agents that plan."""
    pages: PageTools | None = None
    """The pages of agents that open pages and find words in them."""
    top_k: int = 5
    """Number of passages that a search shows; in plans, that each node shows."""
    retriever: str = ""
    """Description of the back end, as `Provenance.retriever` has it."""
    searched: Mapping[str, object] = field(default_factory=dict)
    """What the environment was opened from, by hashes; empty where that is not known."""
    patience: SearchPatience | None = None
    """How long documents, graph and each node of a plan are waited for and how often they are tried. None: each is
    asked once, and waited for.
    """
    failures: FailureCount = field(default_factory=FailureCount, compare=False, repr=False)
    """The count of searches that failed and ended their episodes."""

    def check(self, grammar: Searching) -> None:
        """Check that everything that agents of the protocol search is there. Raises `InvalidInput` when it is not."""
        if grammar.searches == "plan" and self.plan_tools is None:
            raise InvalidInput(
                f"{grammar.name} runs plans over documents of several kinds; give --documents, or --retrieval web"
            )
        if grammar.searches != "plan" and self.documents is None:
            raise InvalidInput(f"{grammar.name} searches documents; give --documents, or --retrieval web")
        if grammar.searches == "pages" and self.pages is None:
            raise InvalidInput(f"{grammar.name} opens pages; give an index, finished runs or a search server")
        if grammar.searches == "graph" and self.kg is None:
            raise InvalidInput(f"{grammar.name} searches a knowledge graph too; give --kg")

    def respond(self, grammar: Grammar, question: str, meter: Meter | None = None) -> Respond:
        """Return the search function of an episode on a question. `meter` counts the calls of the filters."""

        async def respond(search: Search) -> Observation:
            match grammar.searches:
                case "plan":
                    assert self.plan_tools is not None
                    tools = {name: self._patient(tool) for name, tool in self.plan_tools.items()}
                    return await run_plan(search.query, tools, self.top_k)
                case "graph":
                    return await self.search_graph(question, search, meter)
                case "documents":
                    return await self.search_documents(question, search, meter)

        return respond

    def respond_or_fail(self, grammar: Grammar, question: str) -> Respond:
        """Return the search function of an episode as `respond` does, for trainings, which one failing search must not
        end.

        A search that fails or hangs is tried again, and then ends its episode (`Observation.failure`). The nodes of a
        plan fail one by one, and the search fails when none of them is left. `InvalidInput` and `BudgetExceeded` are
        raised at once, and `RetrievalError` when search after search fails.
        """
        respond = replace(self, patience=self.patience or SearchPatience()).respond(grammar, question)

        async def respond_or_fail(search: Search) -> Observation:
            try:
                found = await respond(search)
                problem = _failure_of_all(found)
            except (RetrievalError, ProviderError, MalformedReply) as error:
                found, problem = Observation(), str(error) or type(error).__name__
            if not problem:
                self.failures.clear()
                return found
            self.failures.add(problem)
            return Observation(failure=problem)

        return respond_or_fail

    def _patient(self, retriever: Retriever) -> Retriever:
        return PatientRetriever(retriever, self.patience) if self.patience else retriever

    async def _ask_graph(self, search: Search) -> KgResult:
        kg = self.kg
        assert kg is not None

        async def ask() -> KgResult:
            if isinstance(kg, SearchClient):
                return await kg.search_kg(search.entities, search.relations, search.query)
            return await asyncio.to_thread(kg.search, search.entities, search.relations, search.query)

        return await (self.patience.wait_for(ask) if self.patience else ask())

    async def search_graph(self, question: str, search: Search, meter: Meter | None = None) -> Observation:
        """Search graph and documents at once. The `detail` of the observation is a `GraphFound`; `meter` counts the
        calls of the filters.
        """
        assert self.documents is not None
        found, documents = await asyncio.gather(
            self._ask_graph(search), self._patient(self.documents).retrieve(search.query, self.top_k)
        )
        # One filter after the other, so that a meter counts their calls in one order.
        kept = await self.filters.keep(question, search, found, meter)
        passages = await self.filters.keep_documents(question, search, documents, meter)
        return Observation(
            passages=passages,
            triples=tuple(map(labels, kept)),
            detail=GraphFound(found=found, kept=kept),
        )

    async def search_documents(self, question: str, search: Search, meter: Meter | None = None) -> Observation:
        """Search the documents alone, and not the graph. `meter` counts the calls of the filters."""
        assert self.documents is not None
        found = await self._patient(self.documents).retrieve(search.query, self.top_k)
        return Observation(passages=await self.filters.keep_documents(question, search, found, meter))


def _failure_of_all(found: Observation) -> str:
    """What failed where nodes of a plan did and none found anything; empty otherwise."""
    failed = [node.detail for node in found.nodes if node.status == "failed"]
    return failed[0] if failed and not any(node.status == "found" for node in found.nodes) else ""


def labels(triple: KgTriple) -> Labels:
    """Return a triple without its ids."""
    return Labels(triple.head_label, triple.relation_label, triple.tail_label)


# Opening


def open_environment(
    grammar: Searching,
    corpus: Corpus | None,
    *,
    search: EnvironmentConfig | None = None,
    kg: Path | str | None = None,
    top_k: int = 5,
    asker: Asker | None = None,
) -> Environment:
    """Open what a protocol's agents search.

    `corpus`: an index, a file of passages, or documents; for agents that plan, documents with their kinds. The web and
    search servers need none. `search`: how it is searched; None: as the index says. `kg`: a graph's folder, or a
    server's URL. `asker`: opens the model of an index whose searches ask one. Raises `InvalidInput` for what is
    missing, be it a back end or a live tool's key, and `RetrievalError` for a missing package, model or index, and for
    a damaged graph.
    """
    search = search or EnvironmentConfig()
    is_graph = bool(kg) and grammar.searches == "graph"
    filters = open_filters(search, is_graph)  # which is refused before a graph is read
    environment = Environment(
        kg=_open_graph(kg, search.graph) if kg and is_graph else None,
        filters=filters,
        top_k=top_k,
        patience=search.patience,
    )
    if grammar.searches == "plan":
        found = () if isinstance(corpus, Path) else corpus or ()
        sources = [each for each in found if isinstance(each, SourceDocument)]
        if sources or search.kind == WEB:
            tools = open_tools(search, sources)
            environment = replace(environment, plan_tools=tools, retriever=search.kind, searched=_describe(search))
    else:
        environment = _with_documents(environment, corpus, search, asker)
    environment.check(grammar)
    return environment


def _with_documents(
    environment: Environment, corpus: Corpus | None, search: EnvironmentConfig, asker: Asker | None
) -> Environment:
    if not corpus and not search.is_remote:
        return environment
    if not search.kind and not (isinstance(corpus, Path) and corpus.is_dir()):
        raise InvalidInput(
            f"by which back end are documents searched? say retrieval.kind in the preset, or --retrieval: "
            f"{', '.join(BACKENDS)}",
            field="retrieval.kind",
        )
    if corpus is not None and not isinstance(corpus, Path):
        corpus = [each.document if isinstance(each, SourceDocument) else each for each in corpus]
    opened = open_retrieval(search, corpus, asker)
    searched = _describe(opened.config) | ({"retrieval": opened.name} if search.server else {})
    held = () if corpus is None or isinstance(corpus, Path) else [each for each in corpus if isinstance(each, Document)]
    pages = None if opened.corpus is None else pages_of(opened.corpus, held)
    return replace(environment, documents=opened.corpus, pages=pages, retriever=opened.name, searched=searched)


def _describe(config: RetrieverConfig) -> dict[str, object]:
    """For `Environment.searched`."""
    described: dict[str, object] = {"retrieval": config.kind, "encoder": None}
    if config.kind in BACKENDS and (encoder := config.encoder_of(config.kind)) is not None:
        prefixes = {"query_prefix": config.query_prefix, "passage_prefix": config.passage_prefix}
        described |= {"encoder": encoder_model(encoder)} | {name: text for name, text in prefixes.items() if text}
    if config.options:
        described["options"] = config.options
    if config.kind == WEB:
        named = {"web_provider": config.web_provider, "web_url": config.web_url}
        described |= {name: text for name, text in named.items() if text}
    return described


def _open_graph(where: Path | str, config: KgToolConfig) -> KgTool | SearchClient:
    """Every byte of it checked, once for all processes of a training (`KgStore.check_once`); a server has its own
    configuration.
    """
    if isinstance(where, str) and is_address(where):
        return connect(where)
    store = KgStore.open(Path(where))
    store.check_once()
    return KgTool(store, config)


def check_filters(search: EnvironmentConfig, is_graph: bool) -> None:
    """Raise `InvalidInput` when a filter needs a model and none is named."""
    named_model(search.kg_filter if is_graph else "none", search.document_filter, search.filter_model)


def open_filters(search: EnvironmentConfig, is_graph: bool) -> ResultFilter:
    """Open the filters of search results, with a graph or without one. Raises what `check_filters` and `open_filter`
    raise.
    """
    return open_filter(search.kg_filter if is_graph else "none", search.document_filter, search.filter_model)


# Room


def limit_observations(respond: Respond, grammar: Grammar, count: Callable[[str], int], limit: int) -> Respond:
    """Return a search function whose results have at most `limit` tokens.

    Words at the end of each passage are cut first, then triples, and last the end of a message. A passage that a plan
    found is cut at the end of a sentence, so that the rest is readable by itself. When not even an empty result keeps
    the limit, an empty one is returned all the same.
    """

    def largest(of_size: Callable[[int], Observation], most: int) -> Observation | None:
        """Of the sizes from 0 to `most` the largest that fits."""
        low, high, best = 0, most, None
        while low <= high:
            size = (low + high) // 2
            tried = of_size(size)
            if count(grammar.render_result(tried)) <= limit:
                best, low = tried, size + 1
            else:
                high = size - 1
        return best

    async def shortened(search: Search) -> Observation:
        found = await respond(search)
        if count(grammar.render_result(found)) <= limit:
            return found
        longest = max([len(passage.text.split()) for passage in found.passages], default=0)
        empty = replace(found, passages=(), triples=(), nodes=(), message="")
        bare = _of_size(replace(found, message=""), 0).nodes
        return (
            largest(lambda size: _of_size(found, size), len(found.triples) + longest)
            # A long message, or the headings of many nodes.
            or largest(lambda size: replace(empty, nodes=bare[:size]), len(bare) if bare else -1)
            or largest(lambda size: replace(empty, message=found.message[:size]), len(found.message))
            or empty
        )

    return shortened


def _of_size(found: Observation, size: int) -> Observation:
    """Triples, then as many words of every passage; together at most `size`. Without a word no passage."""
    if found.nodes:
        nodes = tuple(replace(node, passages=_first_sentences(node.passages, size)) for node in found.nodes)
        return replace(found, nodes=nodes, passages=tuple(passage for node in nodes for passage in node.passages))
    words = size - len(found.triples)
    passages = [replace(p, text=" ".join(p.text.split()[:words])) for p in found.passages if words > 0]
    return replace(found, passages=tuple(passages), triples=found.triples[:size])


def _first_sentences(passages: Sequence[Passage], words: int) -> tuple[Passage, ...]:
    return tuple(replace(passage, text=first_sentences(passage.text, words)) for passage in passages if words > 0)
