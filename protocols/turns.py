"""The parts of the turns of agent and tools, and the plain forms in which several protocols write them."""

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
    """An agent's request to its tools. Only a KG agent names entities and relations."""

    query: str
    """The query in words; for an agent that plans its searches, the plan as it wrote it."""
    entities: tuple[str, ...] = ()
    """Names of entities to look up in the knowledge graph."""
    relations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The results of the tools for a search."""

    passages: tuple[Passage, ...] = ()
    """The passages found, best first."""
    triples: tuple[Labels, ...] = ()
    """The triples found, best first."""
    nodes: tuple[NodeResult, ...] = ()
    """What became of each node of a search plan that was run; `passages` holds what the nodes found."""
    message: str = ""
    """A line that a tool says besides, as that it failed. The agent reads it first."""
    failure: str = ""
    """Why the search failed, where that ends the episode. The agent reads none of this."""
    detail: object = None
    """Anything that the caller wants to find again with the step. The agent does not see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A parsed assistant turn, white space around each part trimmed. Either `search` or `answer` is None."""

    thought: str = ""
    """The thought; empty where a repair says that it is missing, and where the protocol has none."""
    search: Search | None = None
    answer: str | None = None
    repairs: tuple[Repair, ...] = ()
    """The kinds of slip that had to be mended to read the turn, each once."""


def read_plain_search(body: str) -> tuple[Search, Sequence[Repair]]:
    """Read a query that is bare text between its tags."""
    return Search(query=body), ()


def write_plain_search(search: Search) -> str:
    """Return a query as bare text, as `read_plain_search` reads it."""
    return search.query


def read_plain_answer(body: str) -> tuple[str, Sequence[Repair]]:
    """Read an answer that is bare text between its tags."""
    return body, ()


def write_passages(observation: Observation) -> str:
    """Return the passages as text, one line `1. (Title) text` each."""
    return "\n".join(passage_lines(observation.passages) or [NOTHING_FOUND])
