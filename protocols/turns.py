"""What the turns of agent and tools hold, and the plain ways in which several protocols write it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trailforge.protocols.base import NOTHING_FOUND, passage_lines
from trailforge.protocols.nl_dag import NodeResult
from trailforge.protocols.repair import Repair
from trailforge.schemas import Passage


class Labels(NamedTuple):
    """A triple of a knowledge graph as the agent reads it."""

    head: str
    relation: str
    tail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What an agent asks its tools. Only a KG agent names entities and relations."""

    query: str
    """In words; of an agent that plans its searches, the plan as it wrote it."""
    entities: tuple[str, ...] = ()
    """To look up in the knowledge graph."""
    relations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What the tools found."""

    passages: tuple[Passage, ...] = ()
    """Best first."""
    triples: tuple[Labels, ...] = ()
    """Best first."""
    nodes: tuple[NodeResult, ...] = ()
    """What became of each node of a search plan that was run; `passages` are theirs."""
    message: str = ""
    """What a tool has to say besides, as that it failed: one line, which the agent reads first."""
    failure: str = ""
    """Why the search failed, where that ends the episode: the agent reads none of this."""
    detail: object = None
    """Whatever the caller wants to find again with the step; the agent does not see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An assistant turn taken apart, white space around each part trimmed: one of `search` and `answer` is None."""

    thought: str = ""
    """Empty where a repair says that it is missing, and where the protocol has none."""
    search: Search | None = None
    answer: str | None = None
    repairs: tuple[Repair, ...] = ()
    """What had to be mended to read it, each kind once."""


def read_plain_search(body: str) -> tuple[Search, Sequence[Repair]]:
    """A query that stands bare between its tags."""
    return Search(query=body), ()


def write_plain_search(search: Search) -> str:
    """The reverse."""
    return search.query


def read_plain_answer(body: str) -> tuple[str, Sequence[Repair]]:
    """An answer that stands bare between its tags."""
    return body, ()


def write_passages(observation: Observation) -> str:
    """A line `1. (Title) text` for each passage."""
    return "\n".join(passage_lines(observation.passages) or [NOTHING_FOUND])
