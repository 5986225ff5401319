"""The KG search tool: mentions and relations in, matched entities and ranked triples out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from trailforge.inference import ChatTurn, Client, Meter, Request, Sampling, ask_json
from trailforge.inference.asker import fill
from trailforge.inference.structured import INTEGER, list_schema, object_schema
from trailforge.retrieval.kg.match import match_entity, match_relation
from trailforge.retrieval.kg.store import KgStore
from trailforge.retrieval.kg.subgraph import CountTokens, SubgraphLimits, find_subgraph
from trailforge.schemas import EntityMatch, KgTriple, RelationMatch, estimate_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class KgToolConfig:
    """How the tool searches."""

    entities_per_mention: int = 3
    """Of each mention's matches, how many are searched at most; all that are offered stand in the result."""
    max_behind: float = 0.02
    """How far behind the best one's score a match may be to be searched too: namesakes, by label or alias."""
    matches_per_mention: int = 5
    limits: SubgraphLimits = field(default_factory=SubgraphLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionMatches:
    """What one mention matched."""

    mention: str
    matches: tuple[EntityMatch, ...]
    """Best first; empty when nothing is similar."""
    searched: int
    """The first so many were searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhraseMatches:
    """What one relation phrase matched."""

    phrase: str
    matches: tuple[RelationMatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KgResult:
    """What one search found."""

    entities: tuple[MentionMatches, ...]
    """One for each mention, in order."""
    relations: tuple[PhraseMatches, ...]
    triples: tuple[KgTriple, ...]
    """Best first, within the limits: what is offered to the filter."""


class KgTool:
    """Searches a store. Blocking, some milliseconds: call it in a thread where a loop runs."""

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
"""Of the reply: numbers of offered triples, from 1. It says nothing about their range, so that a number too high is one
lost triple and not a malformed reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TripleQuery:
    """What triples are kept for."""

    question: str
    sub_query: str
    entities: tuple[str, ...] = ()
    """Mentions, as the agent wrote them."""
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
    """At most five of the offered triples, chosen by a model and in its order; it answers with their numbers, so that
    it can invent none.

    Without offered triples nothing is asked. Raises `MalformedReply` when the reply and its repair are no such list.
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
    """At most `MAX_KEPT` of the offered triples: those that have these numbers, from 1, each once."""
    valid = [int(number) for number in numbers if 1 <= number <= len(offered)]
    return tuple(offered[number - 1] for number in list(dict.fromkeys(valid))[:MAX_KEPT])


def filter_prompt(query: TripleQuery, offered: Sequence[KgTriple]) -> str:
    """The prompt, with the offered triples numbered from 1."""
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
    """The prompt, with its places."""
    return files("trailforge.retrieval.kg").joinpath(PROMPT).read_text(encoding="utf-8")
