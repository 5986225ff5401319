"""The search tool over a knowledge graph: it takes mentions and relations, and returns matched entities and ranked
triples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from trailforge.inference import (
    INTEGER,
    ChatTurn,
    Client,
    Meter,
    Request,
    Sampling,
    ask_json,
    fill,
    list_schema,
    object_schema,
)
from trailforge.retrieval.kg.match import match_entity, match_relation
from trailforge.retrieval.kg.store import KgStore
from trailforge.retrieval.kg.subgraph import CountTokens, SubgraphLimits, find_subgraph
from trailforge.schemas import EntityMatch, KgTriple, RelationMatch, estimate_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class KgToolConfig:
    """Settings of the search tool over a knowledge graph."""

    entities_per_mention: int = 3
    """Largest number of each mention's matches that are searched; the result lists all matches."""
    max_behind: float = 0.02
    """Largest difference to the best score at which a match is searched, too, such as a namesake by label or alias."""
    matches_per_mention: int = 5
    limits: SubgraphLimits = field(default_factory=SubgraphLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionMatches:
    """The entities that one mention in a search matched, best first."""

    mention: str
    matches: tuple[EntityMatch, ...]
    """Matches, best first; empty when nothing is similar."""
    searched: int
    """Number of leading matches whose triples were searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhraseMatches:
    """The relations that one phrase in a search matched, best first."""

    phrase: str
    matches: tuple[RelationMatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KgResult:
    """The result of one search of a knowledge graph: matches of names and phrases, and ranked triples."""

    entities: tuple[MentionMatches, ...]
    """Matches of the mentions, one for each, in order."""
    relations: tuple[PhraseMatches, ...]
    triples: tuple[KgTriple, ...]
    """Triples within the limits, best first, which are passed to the filter."""


class KgTool:
    """Searches a store. A call blocks for some milliseconds: run it in a thread where an event loop runs."""

    def __init__(
        self, store: KgStore, config: KgToolConfig | None = None, count_tokens: CountTokens = estimate_tokens
    ) -> None:
        """`count_tokens`: the policy model's tokenizer, where it is known."""
        self.store = store
        self._config = config or KgToolConfig()
        self._count_tokens = count_tokens

    def search(self, mentions: Sequence[str], relations: Sequence[str] = (), sub_query: str = "") -> KgResult:
        """Match the mentions and rank the triples around them.

        A relation phrase counts with its own words and with those of the labels it matches best. The sub-query tells
        namesakes apart; it ranks triples only where no relation is named. Raises `RetrievalError` for a graph whose
        files have been changed under it.
        """
        with self.store.held_files.reading():
            return self._search(mentions, relations, sub_query)

    def _search(self, mentions: Sequence[str], relations: Sequence[str], sub_query: str) -> KgResult:
        entities = tuple(self._matches(mention, sub_query) for mention in mentions)
        meant = tuple(
            PhraseMatches(phrase=phrase, matches=tuple(match_relation(self.store, phrase))) for phrase in relations
        )
        searched = [match.entity_id for one in entities for match in one.matches[: one.searched]]
        best = [match for one in meant for match in one.matches if match.score == one.matches[0].score]
        phrases = [*mentions, *relations, *(match.label for match in best), *(() if relations else (sub_query,))]
        triples = find_subgraph(
            self.store,
            searched,
            phrases,
            self._config.limits,
            self._count_tokens,
            [(match.relation_id, match.direction) for one in meant for match in one.matches if match.direction],
        )
        return KgResult(entities=entities, relations=meant, triples=tuple(triples))

    def _matches(self, mention: str, sub_query: str) -> MentionMatches:
        config = self._config
        matches = match_entity(self.store, mention, sub_query, config.matches_per_mention)
        least = matches[0].score - config.max_behind if matches else 0.0
        near = sum(match.score >= round(least, 6) for match in matches)
        return MentionMatches(mention=mention, matches=tuple(matches), searched=min(near, config.entities_per_mention))


MAX_KEPT = 5
PROMPT = "keep_triples.txt"
SCHEMA = object_schema(keep=list_schema(INTEGER))
"""JSON schema of the reply: numbers of offered triples, from 1. It sets no range for them, so that a number too high
loses one triple and does not make the reply malformed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TripleQuery:
    """The search for which a model filters triples: its query, with the names and relations asked for."""

    question: str
    sub_query: str
    entities: tuple[str, ...] = ()
    """Mentions of entities, as the agent wrote them."""
    relations: tuple[str, ...] = ()


async def keep_triples(
    client: Client,
    model: str,
    query: TripleQuery,
    offered: Sequence[KgTriple],
    *,
    seed: int = 0,
    sampling: Sampling | None = None,
    meter: Meter | None = None,
) -> tuple[KgTriple, ...]:
    """Return at most five of the offered triples, chosen by a model and in its order.

    The model answers with their numbers, so that it cannot invent any. Without offered triples no call is made. Raises
    `MalformedReply` when neither the reply nor a second one is such a list.
    """
    if not offered:
        return ()
    request = Request(
        model=model,
        prompt=(ChatTurn(role="user", content=filter_prompt(query, offered)),),
        sampling=sampling or Sampling(max_tokens=128),
        seed=seed,
        purpose="keep_triples",
    )
    reply = await ask_json(client, request, SCHEMA, meter)
    return keep_chosen(reply["keep"], offered)


def keep_chosen(numbers: Sequence[int], offered: Sequence[KgTriple]) -> tuple[KgTriple, ...]:
    """Return at most `MAX_KEPT` of the offered triples: those with these numbers, from 1, each once."""
    valid = [int(number) for number in numbers if 1 <= number <= len(offered)]
    return tuple(offered[number - 1] for number in list(dict.fromkeys(valid))[:MAX_KEPT])


def filter_prompt(query: TripleQuery, offered: Sequence[KgTriple]) -> str:
    """Return the prompt that asks a model which of the offered triples to keep; they are numbered in it from 1."""
    return fill(
        filter_template(),
        count=str(MAX_KEPT),
        triples="\n".join(f"{number}. {triple.text}" for number, triple in enumerate(offered, start=1)),
        question=query.question,
        sub_query=query.sub_query,
        entities="; ".join(query.entities),
        relations="; ".join(query.relations),
    )


def filter_template() -> str:
    """Return the template of `filter_prompt`, with its placeholders."""
    return files("trailforge.retrieval.kg").joinpath(PROMPT).read_text(encoding="utf-8")
