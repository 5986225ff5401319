"""The KG search tool: mentions and relations in, matched entities and ranked triples out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trailforge.retrieval.kg.match import match_entity, match_relation
from trailforge.retrieval.kg.store import KgStore
from trailforge.retrieval.kg.subgraph import CountTokens, SubgraphLimits, subgraph
from trailforge.schemas import EntityMatch, KgTriple, RelationMatch, estimate_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class KgToolConfig:
    """How the tool searches."""

    entities_per_mention: int = 1
    """Of each mention's matches, how many are searched; all that are offered stand in the result."""
    matches_per_mention: int = 5
    limits: SubgraphLimits = field(default_factory=SubgraphLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionMatches:
    """What one mention matched."""

    mention: str
    matches: tuple[EntityMatch, ...]
    """Best first; empty when nothing is similar."""


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
        """`count_tokens`: the policy model's tokenizer, where it is known (see `tokenizer_of`)."""
        self.store = store
        self._config = config or KgToolConfig()
        self._count_tokens = count_tokens

    def search(self, mentions: Sequence[str], relations: Sequence[str] = (), sub_query: str = "") -> KgResult:
        """Match the mentions and rank the triples around them.

        A relation phrase counts with its own words and with those of the label it matches best.
        """
        config = self._config
        entities = tuple(
            MentionMatches(
                mention=mention,
                matches=tuple(match_entity(self.store, mention, sub_query, config.matches_per_mention)),
            )
            for mention in mentions
        )
        meant = tuple(
            PhraseMatches(phrase=phrase, matches=tuple(match_relation(self.store, phrase))) for phrase in relations
        )
        searched = [match.entity_id for one in entities for match in one.matches[: config.entities_per_mention]]
        labels = [one.matches[0].label for one in meant if one.matches]
        phrases = [*mentions, *relations, *labels, sub_query]
        triples = subgraph(self.store, searched, phrases, config.limits, self._count_tokens)
        return KgResult(entities=entities, relations=meant, triples=tuple(triples))
