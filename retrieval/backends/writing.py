"""Write texts about passages, by rule or by a model: summaries, facts, descriptions, reports.

A reply that cannot be used costs only the item that it is about, and never a build.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import combinations, groupby
from typing import Any, TypeVar

from trailforge.inference import NUMBER, TEXT, Asker, Prompts, Sampling, fill, list_schema, object_schema
from trailforge.retrieval.backends.declaration import PlannedCalls, Workbench, passage_tokens, plan_calls
from trailforge.retrieval.backends.entity_graph import (
    EntityCommunity,
    EntityGraph,
    Facts,
    GraphEntity,
    GraphRagConfig,
    GraphRelation,
    merge_facts,
)
from trailforge.retrieval.backends.graph import NameFinder
from trailforge.retrieval.sentences import split_sentences
from trailforge.schemas import ITEM_ERRORS, Document, MalformedReply, estimate_tokens

PROMPTS = Prompts("trailforge.retrieval.backends")
"""Prompts that models are asked with."""
ASKED_AT_ONCE = 16
"""Number of items whose replies a build waits for together, and of items in a shard of it."""

_MOST_IN_SENTENCE = 12
"""Names of a sentence that are related with each other; more are a list."""
_TITLE_NAMES = 3
_ENTITY = object_schema(name=TEXT, kind=TEXT, description=TEXT)
_RELATION = object_schema(source=TEXT, target=TEXT, description=TEXT, strength=NUMBER)
_FACTS_SCHEMA = object_schema(entities=list_schema(_ENTITY), relations=list_schema(_RELATION))
_FINDINGS = list_schema(object_schema(summary=TEXT, explanation=TEXT))
_REPORT_SCHEMA = object_schema(title=TEXT, summary=TEXT, findings=_FINDINGS, rating=NUMBER)

Item = TypeVar("Item")
Result = TypeVar("Result")


def lead_sentences(texts: Iterable[str], tokens: int) -> str:
    """Return the first sentence of every text, then every second one, and so on, each once, up to `tokens` tokens as
    `estimate_tokens` counts. The very first sentence is always included, even if it is longer.
    """
    split = [split_sentences(text) for text in texts]
    chosen: dict[str, None] = {}
    room = tokens
    for turn in range(max(map(len, split), default=0)):
        for sentences in split:
            if turn < len(sentences) and sentences[turn] not in chosen:
                room -= estimate_tokens(sentences[turn])
                if room < 0 and chosen:
                    return " ".join(chosen)
                chosen[sentences[turn]] = None
    return " ".join(chosen)


def within(texts: Sequence[str], tokens: int) -> int:
    """Return how many of the first texts fit into this number of tokens together; at least one, if there is any."""
    room = tokens
    for count, text in enumerate(texts):
        room -= estimate_tokens(text)
        if room < 0:
            return max(count, 1)
    return len(texts)


async def write_summary(asker: Asker, texts: Sequence[str], words: int, sampling: Sampling) -> str:
    """Return a model's summary, in about `words` words, of texts that each begin with a title and a line break, or with
    a line break alone. Raises `MalformedReply` where the summary is empty.
    """
    parts = (": ".join(" ".join(part.split()) for part in text.split("\n", 1)) for text in texts)
    numbered = "\n\n".join(f"[{number}] {part}" for number, part in enumerate(parts, start=1))
    prompt = fill(PROMPTS.text("raptor_summary"), words=str(words), texts=numbered)
    return await asker.matching(prompt, lambda reply: reply.strip() or None, purpose="summary", sampling=sampling)


async def ask_each(work: Callable[[Item], Awaitable[Result]], items: Sequence[Item]) -> list[Result | None]:
    """Return the result of `work` for every item, computed concurrently; None where a model's reply could not be
    used."""

    async def one(item: Item) -> Result | None:
        try:
            return await work(item)
        except ITEM_ERRORS:
            return None

    return list(await asyncio.gather(*map(one, items)))


async def ask_in_shards(
    name: str,
    work: Callable[[Item], Awaitable[Any]],
    items: Sequence[Item],
    tools: Workbench,
    at_once: int = ASKED_AT_ONCE,
) -> list[Any]:
    """Run `ask_each` in shards of `at_once` items, which the build stores under `name`, so that a killed build does not
    ask again. Results of `work` must be representable as JSON."""

    async def shard(part: Sequence[Item]) -> list[Any]:
        return await ask_each(work, part)

    return [each for part in await tools.map(name, shard, items, at_once) for each in part]


def in_runs(items: Sequence[int], tokens: Sequence[int], most: int) -> list[list[int]]:
    """Split items, in their order, into runs of one item or more, each of at most `most` tokens together unless a
    single item is longer. `tokens` has the length of each item."""
    runs: list[list[int]] = []
    room = 0
    for item, size in zip(items, tokens, strict=True):
        room -= size
        if room < 0 or not runs:
            runs.append([])
            room = most - size
        runs[-1].append(item)
    return runs


# Facts


async def build_graph(documents: Sequence[Document], config: GraphRagConfig, tools: Workbench) -> EntityGraph:
    """Build the entity graph of a corpus with a model."""
    if config.extraction == "names":
        return join_names(documents, config)
    facts = await ask_in_shards("facts", lambda document: ask_facts(tools.model, document, config), documents, tools)
    graph = merge_facts(facts)
    await _merge_descriptions(graph, config, tools)
    return graph


def join_names(documents: Sequence[Document], config: GraphRagConfig) -> EntityGraph:
    """Build the entity graph of a corpus without a model, from names, with first sentences as descriptions."""
    graph = merge_facts(named_facts(documents))
    for thing in (*graph.entities, *graph.relations):
        thing.descriptions = [lead_sentences(thing.descriptions, config.named_tokens)]
    return graph


def named_facts(documents: Sequence[Document]) -> list[Facts]:
    """Return names and titles as entities, each related to those of the same sentence; the title is in every
    sentence."""
    found: list[Facts] = [{"entities": [], "relations": []} for _ in documents]
    for passage, group in groupby(NameFinder.of(documents).sentences(documents), key=lambda each: each.passage):
        sentences = list(group)
        text = "\n".join([documents[passage].title, *(sentence.text for sentence in sentences)])
        own = list(dict.fromkeys(key for sentence in sentences for key in sentence.names))
        names = {key: _as_written(_full_name(key, own), text) for key in own}
        for sentence in sentences:
            here = list(dict.fromkeys(names[key] for key in sentence.names))
            related = combinations(here[:_MOST_IN_SENTENCE], 2)
            found[passage]["entities"] += [[name, "", sentence.text] for name in here]
            found[passage]["relations"] += [[source, target, sentence.text, 1.0] for source, target in related]
    return found


def _full_name(key: str, own: Sequence[str]) -> str:
    """The longer name of the passage that a name is the end of; itself where there is none."""
    return next((name for name in own if name.endswith(f" {key}")), key)


def _as_written(key: str, text: str) -> str:
    """A name as a text writes it first; its key where it writes an accent."""
    words = r"\W+".join(key.split(" "))
    match = re.search(rf"\b{words}\b", text, re.IGNORECASE)
    return match[0] if match else key


async def ask_facts(asker: Asker, document: Document, config: GraphRagConfig) -> Facts:
    """Return the facts that a model extracts from a passage. Raises `MalformedReply` when its first reply cannot be
    used; later ones may be unusable.
    """
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
    named: list[tuple[str, GraphEntity | GraphRelation]] = [(entity.name, entity) for entity in graph.entities]
    for relation in graph.relations:
        ends = (graph.entities[end].name for end in (relation.source, relation.target))
        named.append((" – ".join(ends), relation))
    several = [(name, thing) for name, thing in named if len(thing.descriptions) >= config.merged_from]
    items = [(name, thing.descriptions) for name, thing in several]
    texts = await ask_in_shards("descriptions", lambda item: _ask_merged(tools.model, config, *item), items, tools)
    for (_, thing), merged in zip(several, texts, strict=True):
        thing.descriptions = [merged or lead_sentences(thing.descriptions, config.description_tokens)]


async def _ask_merged(asker: Asker, config: GraphRagConfig, name: str, descriptions: Sequence[str]) -> str:
    """One description of several; where they are too long for one call, what came of the first goes into the next."""
    waiting = sorted(descriptions)
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


_FACTS_PER_TOKEN, _MORE_PER_TOKEN, _FOUND_PER_TOKEN = 6.2, 1.1, 1.9
"""Tokens per token of passage: of facts, of a gleaning, and of what the gleaning's prompt lists. These and the next are
a strong model's, over 20 passages of MuSiQue."""
_MERGES, _MERGED_TOKENS, _MERGED_REPLY = 0.65, 63, 41
"""Merges per passage, and tokens of what one reads and says. Where passages share more names there are more."""


def plan_extraction(documents: Sequence[Document], config: GraphRagConfig) -> list[PlannedCalls]:
    """Estimate the calls to a model for facts and descriptions, if it is asked as often as allowed for what it left out
    of a passage."""
    tokens = passage_tokens(documents)
    kinds = ", ".join(config.kinds)
    passages = [f"{each.title}\n{each.text}" if each.title else each.text for each in documents]
    facts, gleaning = PROMPTS.text("graph_rag_facts"), PROMPTS.text("graph_rag_gleaning")
    found, more = _FOUND_PER_TOKEN * tokens, _MORE_PER_TOKEN * tokens
    asked = (fill(facts, kinds=kinds, passage=each) for each in passages)
    again = (fill(gleaning, kinds=kinds, passage=each, found="") for each in passages)
    words = str(3 * config.description_tokens // 4)
    merge = fill(PROMPTS.text("graph_rag_merge"), name="", words=words, descriptions="")
    count = len(documents)
    return [
        plan_calls("facts", asked, replies=_FACTS_PER_TOKEN * tokens),
        plan_calls("gleaning", again, filled=found, replies=more, times=config.gleanings),
        plan_calls("merge", [merge], filled=_MERGED_TOKENS, replies=_MERGED_REPLY, times=_MERGES * count),
    ]


# Reports


async def write_reports(
    communities: list[EntityCommunity], graph: EntityGraph, config: GraphRagConfig, tools: Workbench
) -> int:
    """Give every community its report, the smallest first; returns for how many a model's reply could not be used.
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
            reports = await ask_in_shards(
                f"reports-{level}", lambda facts: _ask_report(tools.model, facts, config), texts, tools
            )
            for (_, community), report in zip(here, reports, strict=True):
                lost += report is None
                if report is not None:
                    _take_report(community, report)
    return lost


def facts_of(community: EntityCommunity, graph: EntityGraph, parts: Sequence[EntityCommunity], tokens: int) -> str:
    """Return the text from which the report on a community is written: its relations, those of entities with most
    relations first, and their entities.

    Where that is more than `tokens`, the reports on its sub-communities `parts` replace the facts of these, the largest
    first, as many as needed; what is still too much is cut.
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
