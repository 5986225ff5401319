"""The graph of GraphRAG: entities and relations with what passages say of them, merged over a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any, Literal

from trailforge.inference import Sampling
from trailforge.inference.asker import Asker, fill
from trailforge.retrieval.backends.declaration import Workbench
from trailforge.retrieval.backends.summaries import ASKED_AT_ONCE, PROMPTS, ask_each, lead_sentences, within
from trailforge.retrieval.entities import CaseCounts, merge_short_names, names_of
from trailforge.retrieval.sentences import split_sentences
from trailforge.schemas import Document, MalformedReply

Facts = dict[str, list[list[Any]]]
"""What a passage says, as JSON: entities [name, kind, description], relations [source, target, description, weight]."""

_MOST_IN_SENTENCE = 12
"""Names of a sentence that are related with each other; more are a list."""
_TEXT = {"type": "string"}
_ENTITY = {"name": _TEXT, "kind": _TEXT, "description": _TEXT}
_RELATION = {"source": _TEXT, "target": _TEXT, "description": _TEXT, "strength": {"type": "number"}}


def _array(fields: dict[str, Any]) -> dict[str, Any]:
    item = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    return {"type": "array", "items": item}


_FACTS_SCHEMA = {
    "type": "object",
    "properties": {"entities": _array(_ENTITY), "relations": _array(_RELATION)},
    "required": ["entities", "relations"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRagConfig:
    """The released numbers. Lengths are tokens as `estimate_tokens` counts; the defaults ask no model."""

    extraction: Literal["names", "model"] = "names"
    """`names`: entities are the names in a passage and its title, related where a sentence has both. `model`: a model
    writes entities and relations down, is asked again for what it left out, and merges descriptions."""
    reports: Literal["extractive", "model"] = "extractive"
    """Of communities: sentences of their entities, or what a model writes."""
    search: Literal["local", "global"] = "local"
    """`global` asks a model in every search: once for each `context_tokens` of reports, and once more."""
    kinds: tuple[str, ...] = ("person", "organization", "place", "event", "work", "other")
    """Of entities, for a model. The released four (organization, person, geo, event) leave out films and songs."""
    gleanings: int = 1
    """How often a model is asked again for what it left out of a passage."""
    merged_from: int = 2
    """A model merges the descriptions of an entity or relation that has so many; fewer are put one after another."""
    description_tokens: int = 500
    """Of a merged description."""
    merge_input_tokens: int = 4000
    """Of descriptions that a model merges at once."""
    named_tokens: int = 100
    """Of a description without a model: it is embedded, and encoders read little more."""
    largest_community: int = 10
    """A larger one is divided again."""
    level: int = 2
    """Of communities whose reports are searched: no deeper than that, 0 being the largest ones."""
    smallest_report: int = 3
    """Entities of a community on which a model writes; of two, their relation says all. Released: any."""
    report_tokens: int = 2000
    report_input_tokens: int = 8000
    """Of what a model reads for a report."""
    extract_tokens: int = 200
    """Of a report without a model."""
    entities: int = 20
    """Nearest to a query. The released code says 10, and takes twice as many."""
    order: Literal["entities", "passages"] = "entities"
    """Of the passages found: as released, by their entity's place and then by its relations there; or by the best
    cosine of an entity plus the passage's own."""
    context_tokens: int = 12_000
    passage_share: float = 0.5
    report_share: float = 0.15
    """Of the context, and of the `k` that a search asks for."""
    seed: int = 86
    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 12_288
    """Of a reply, thoughts included."""

    @property
    def sampling(self) -> Sampling:
        """Of all calls."""
        return Sampling(temperature=self.temperature, top_p=self.top_p, max_tokens=self.max_tokens)


@dataclass(slots=True)
class GraphEntity:
    """An entity of a corpus."""

    name: str
    """As it is written most often."""
    kind: str
    descriptions: list[str] = field(default_factory=list)
    passages: list[int] = field(default_factory=list)
    """Rows of those that name it, ascending."""
    relations: list[int] = field(default_factory=list)

    @property
    def description(self) -> str:
        """All that is said of it."""
        return " ".join(self.descriptions)


@dataclass(slots=True)
class GraphRelation:
    """Two entities and how they are related, in either direction."""

    source: int
    target: int
    weight: float = 0.0
    """Strengths added up over the passages."""
    descriptions: list[str] = field(default_factory=list)
    passages: list[int] = field(default_factory=list)

    @property
    def description(self) -> str:
        """All that is said of it."""
        return " ".join(self.descriptions)


@dataclass(slots=True)
class EntityGraph:
    """Entities and relations in the order in which passages name them first."""

    entities: list[GraphEntity] = field(default_factory=list)
    relations: list[GraphRelation] = field(default_factory=list)
    lost_passages: int = 0
    """Of which nothing is known, because a model's reply could not be used."""

    def degree(self, relation: GraphRelation) -> int:
        """Relations of both of its entities: what relations are ranked by."""
        return sum(len(self.entities[end].relations) for end in (relation.source, relation.target))


async def build_graph(documents: Sequence[Document], config: GraphRagConfig, tools: Workbench) -> EntityGraph:
    """The graph of a corpus."""
    if config.extraction == "names":
        graph = merge_facts(named_facts(documents))
        for thing in (*graph.entities, *graph.relations):
            thing.descriptions = [lead_sentences(thing.descriptions, config.named_tokens)]
        return graph

    async def work(part: Sequence[Document]) -> list[Facts | None]:
        return await ask_each(lambda document: ask_facts(tools.model, document, config), part)

    facts = [found for shard in await tools.map("facts", work, documents, ASKED_AT_ONCE) for found in shard]
    graph = merge_facts(facts)
    await _merge_descriptions(graph, config, tools)
    return graph


def merge_facts(facts: Sequence[Facts | None]) -> EntityGraph:
    """One graph of what each passage says. Names are the same but for capitals and white space; None: nothing known."""
    graph = EntityGraph(lost_passages=sum(found is None for found in facts))
    rows: dict[str, int] = {}
    pairs: dict[tuple[int, int], int] = {}

    def entity(name: str, kind: str, description: str, passage: int) -> int:
        row = rows.setdefault(" ".join(name.split()).casefold(), len(graph.entities))
        if row == len(graph.entities):
            graph.entities.append(GraphEntity(" ".join(name.split()), kind))
        found = graph.entities[row]
        found.kind = found.kind or kind
        _put(description, passage, found)
        return row

    for passage, said in enumerate(facts):
        if said is None:
            continue
        for name, kind, description in said["entities"]:
            entity(name, kind, description, passage)
        for source, target, description, weight in said["relations"]:
            ends = sorted({entity(name, "", "", passage) for name in (source, target)})
            if len(ends) < 2:
                continue
            row = pairs.setdefault((ends[0], ends[1]), len(graph.relations))
            if row == len(graph.relations):
                graph.relations.append(GraphRelation(ends[0], ends[1]))
                for end in ends:
                    graph.entities[end].relations.append(row)
            graph.relations[row].weight += weight
            _put(description, passage, graph.relations[row])
    return graph


def _put(description: str, passage: int, thing: GraphEntity | GraphRelation) -> None:
    if description and description not in thing.descriptions:
        thing.descriptions.append(description)
    if thing.passages[-1:] != [passage]:
        thing.passages.append(passage)


# Without a model


def named_facts(documents: Sequence[Document]) -> list[Facts]:
    """Names and titles as entities, each related with those of the same sentence; the title is in every sentence."""
    sentences = [split_sentences(document.text) for document in documents]
    counts = CaseCounts.of(document.text for document in documents)
    names = merge_short_names([names_of(d.title, d.text, counts) for d in documents])
    found: list[Facts] = []
    for document, own, texts in zip(documents, names, sentences, strict=True):
        known = {name.key: name.text for name in own}
        facts: Facts = {"entities": [], "relations": []}
        for sentence in texts:
            keys = [_full_name(name.key, known) for name in names_of("", sentence, counts)]
            written = [known[key] for key in keys if key]
            here = list(
                {name.casefold(): name for name in (*filter(None, [document.title.strip()]), *written)}.values()
            )
            facts["entities"] += [[name, "", sentence] for name in here]
            related = combinations(here[:_MOST_IN_SENTENCE], 2)
            facts["relations"] += [[source, target, sentence, 1.0] for source, target in related]
        found.append(facts)
    return found


def _full_name(key: str, known: dict[str, str]) -> str | None:
    """The key of a document's name that a sentence's name is, or is the end of."""
    return key if key in known else next((name for name in known if name.endswith(f" {key}")), None)


# With a model


async def ask_facts(asker: Asker, document: Document, config: GraphRagConfig) -> Facts:
    """What a passage says, by a model. Raises `MalformedReply` when its first reply cannot be used; later ones may."""
    passage = f"{document.title}\n{document.text}" if document.title else document.text
    kinds = ", ".join(config.kinds)
    prompt = fill(PROMPTS.text("graph_rag_facts"), kinds=kinds, passage=passage)
    facts = _read(await asker.json(prompt, _FACTS_SCHEMA, purpose="facts", sampling=config.sampling))
    for _ in range(config.gleanings):
        prompt = fill(PROMPTS.text("graph_rag_gleaning"), kinds=kinds, passage=passage, found=_listed(facts))
        try:
            more = _read(await asker.json(prompt, _FACTS_SCHEMA, purpose="gleaning", sampling=config.sampling))
        except MalformedReply:
            break
        if not any(more.values()):
            break
        facts = {name: facts[name] + more[name] for name in facts}
    return facts


def _read(reply: dict[str, Any]) -> Facts:
    """A reply as facts, without what has no name."""
    entities = [[each["name"].strip(), each["kind"].strip(), each["description"].strip()] for each in reply["entities"]]
    relations = [
        [each["source"].strip(), each["target"].strip(), each["description"].strip(), float(each["strength"])]
        for each in reply["relations"]
    ]
    return {
        "entities": [entity for entity in entities if entity[0]],
        "relations": [relation for relation in relations if relation[0] and relation[1]],
    }


def _listed(facts: Facts) -> str:
    entities = [f"- {name} ({kind})" for name, kind, _ in facts["entities"]]
    relations = [f"- {source} – {target}: {description}" for source, target, description, _ in facts["relations"]]
    return "\n".join(["Entities", *(entities or ["none"]), "Relations", *(relations or ["none"])])


async def _merge_descriptions(graph: EntityGraph, config: GraphRagConfig, tools: Workbench) -> None:
    """Leave one description to every entity and relation."""
    named: list[tuple[str, GraphEntity | GraphRelation]] = [(entity.name, entity) for entity in graph.entities]
    for relation in graph.relations:
        ends = (graph.entities[end].name for end in (relation.source, relation.target))
        named.append((" – ".join(ends), relation))
    several = [(name, thing) for name, thing in named if len(thing.descriptions) >= config.merged_from]
    items = [(name, thing.descriptions) for name, thing in several]

    async def work(part: Sequence[tuple[str, list[str]]]) -> list[str | None]:
        return await ask_each(partial(_ask_merged, tools.model, config), part)

    shards = await tools.map("descriptions", work, items, ASKED_AT_ONCE)
    for (_, thing), merged in zip(several, (text for shard in shards for text in shard), strict=True):
        thing.descriptions = [merged or lead_sentences(thing.descriptions, config.description_tokens)]


async def _ask_merged(asker: Asker, config: GraphRagConfig, item: tuple[str, Sequence[str]]) -> str:
    """One description of several; where they are too long for one call, what came of the first goes into the next."""
    name, waiting = item[0], sorted(item[1])
    while True:
        count = max(within(waiting, config.merge_input_tokens), 2)
        prompt = fill(
            PROMPTS.text("graph_rag_merge"),
            name=name,
            words=str(3 * config.description_tokens // 4),
            descriptions="\n".join(f"- {text}" for text in waiting[:count]),
        )
        merged = await asker.matching(
            prompt, lambda reply: reply.strip() or None, purpose="merge", sampling=config.sampling
        )
        waiting = [merged, *waiting[count:]]
        if len(waiting) == 1:
            return merged
