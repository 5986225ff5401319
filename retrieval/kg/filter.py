"""The KG filter (DynaSearcher, appendix on search tools): a model keeps the few triples that help the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from trailforge.inference import ChatTurn, Meter, Request, Sampling, ask_json
from trailforge.inference.structured import Client
from trailforge.schemas import KgTriple
from trailforge.schemas.chat_tokens import escape_chat_tokens

MAX_KEPT = 5
PROMPT = "keep_triples.txt"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"keep": {"type": "array", "items": {"type": "integer"}}},
    "required": ["keep"],
    "additionalProperties": False,
}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTriples:
    """The filter's choice."""

    triples: tuple[KgTriple, ...]
    """At most `MAX_KEPT` of those offered, in the model's order, each once."""
    invalid: int
    """Numbers in the reply that no offered triple has."""
    surplus: int
    """Numbers that came again, or after the last that may be kept."""


async def keep_triples(
    client: Client,
    model: str,
    query: TripleQuery,
    offered: Sequence[KgTriple],
    *,
    seed: int = 0,
    sampling: Sampling | None = None,
    meter: Meter | None = None,
) -> KeptTriples:
    """Let a model choose at most five of the offered triples; it answers with their numbers, so it can invent none.

    Without offered triples nothing is asked. Raises `MalformedReply` when the reply and its repair are no such list.
    """
    if not offered:
        return KeptTriples(triples=(), invalid=0, surplus=0)
    request = Request(
        model=model,
        prompt=(ChatTurn(role="user", content=filter_prompt(query, offered)),),
        sampling=sampling or Sampling(max_tokens=128),
        seed=seed,
        purpose="keep_triples",
    )
    reply = await ask_json(client, request, SCHEMA, meter)
    return chosen(reply["keep"], offered)


def chosen(numbers: Sequence[int], offered: Sequence[KgTriple]) -> KeptTriples:
    """The offered triples that have these numbers, from 1."""
    valid = [number for number in numbers if 1 <= number <= len(offered)]
    kept = list(dict.fromkeys(valid))[:MAX_KEPT]
    return KeptTriples(
        triples=tuple(offered[int(number) - 1] for number in kept),
        invalid=len(numbers) - len(valid),
        surplus=len(valid) - len(kept),
    )


def filter_prompt(query: TripleQuery, offered: Sequence[KgTriple]) -> str:
    """The prompt, with the offered triples numbered from 1."""
    fields = {
        "count": str(MAX_KEPT),
        "triples": "\n".join(f"{number}. {triple.text}" for number, triple in enumerate(offered, start=1)),
        "question": query.question,
        "sub_query": query.sub_query,
        "entities": "; ".join(query.entities),
        "relations": "; ".join(query.relations),
    }
    parts = _template().split("{{")
    named = [part.partition("}}") for part in parts[1:]]
    return parts[0] + "".join(escape_chat_tokens(fields[name]) + rest for name, _, rest in named)


def _template() -> str:
    return files("trailforge.retrieval.kg").joinpath(PROMPT).read_text(encoding="utf-8")
