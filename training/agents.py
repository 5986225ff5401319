"""Each protocol as an agent that trains: the grammar it talks in, and the tools that answer it.

`react` and `r_search` have loops of their own where data is made; here all five go through `protocols.episodes`, so
they are written as grammars too. `r_search` stops after its one search, as its paper generates in two stages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trailforge.protocols import graph_r1, kg_search, r_search, react, search_r1
from trailforge.protocols.episodes import Respond
from trailforge.protocols.grammar import Grammar, Observation, Search, passage_lines, read_plain_answer
from trailforge.protocols.repair import Repair
from trailforge.retrieval import Retriever, Tools
from trailforge.retrieval.kg import MAX_KEPT, KgTool
from trailforge.schemas import ChatMessage, InvalidInput, KgTriple


def _read_text(body: str) -> tuple[Search, Sequence[Repair]]:
    return Search(query=body), ()


def _write_text(search: Search) -> str:
    return search.query


def _write_passages(observation: Observation) -> str:
    return "\n".join(passage_lines(observation.passages) or ["Nothing was found."])


def _write_plan_result(observation: Observation) -> str:
    """What the plan found: the text that `r_search.respond` made of it, without its tags."""
    assert isinstance(observation.detail, r_search.Response)
    return observation.detail.text.removeprefix("<result>").removesuffix("</result>").strip("\n")


_REACT = Grammar(
    name=react.NAME,
    system_prompt=react.SYSTEM_PROMPT,
    user_suffix=react.USER_SUFFIX,
    search_tag="search",
    result_tag="tool_response",
    read_search=_read_text,
    write_search=_write_text,
    read_answer=read_plain_answer,
    write_answer=str,
    write_result=_write_passages,
)
_R_SEARCH = replace(
    _REACT,
    name=r_search.NAME,
    system_prompt=r_search.SYSTEM_PROMPT,
    user_suffix=" " + r_search.USER_SUFFIX,
    result_tag="result",
    write_result=_write_plan_result,
)
GRAMMARS = {
    grammar.name: grammar for grammar in (_REACT, _R_SEARCH, search_r1.GRAMMAR, graph_r1.GRAMMAR, kg_search.GRAMMAR)
}
"""By protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """A triple as the agent reads it."""

    head: str
    relation: str
    tail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What agents search."""

    documents: Retriever | None = None
    """For all protocols but `r_search`."""
    kg: KgTool | None = None
    """For `kg_search`."""
    plan_tools: Tools | None = None
    """For `r_search`."""
    top_k: int = 5
    searched: Mapping[str, object] = field(default_factory=dict)
    """What it was opened from, by hashes; empty where that is not known."""

    def check(self, protocol: str) -> None:
        """Raises `InvalidInput` when what the protocol searches is missing."""
        if protocol not in GRAMMARS:
            raise InvalidInput(f"{protocol!r} is none of {', '.join(GRAMMARS)}", field="protocol")
        if protocol == r_search.NAME and self.plan_tools is None:
            raise InvalidInput("r_search runs plans over documents of several kinds; give --documents")
        if protocol != r_search.NAME and self.documents is None:
            raise InvalidInput(f"{protocol} searches documents; give --documents")
        if protocol == kg_search.NAME and self.kg is None:
            raise InvalidInput("kg_search searches a knowledge graph too; give --kg")

    def respond(self, protocol: str) -> Respond:
        """The tools of a protocol."""
        if protocol == r_search.NAME:
            return self._run_plan
        return self._search_both if protocol == kg_search.NAME else self._search_documents

    async def _search_documents(self, search: Search) -> Observation:
        assert self.documents is not None
        return Observation(passages=tuple(await self.documents.retrieve(search.query, self.top_k)))

    async def _search_both(self, search: Search) -> Observation:
        assert self.documents is not None and self.kg is not None
        found, passages = await asyncio.gather(
            asyncio.to_thread(self.kg.search, search.entities, search.relations, search.query),
            self.documents.retrieve(search.query, self.top_k),
        )
        return Observation(passages=tuple(passages), triples=tuple(map(_labels, found.triples[:MAX_KEPT])))

    async def _run_plan(self, search: Search) -> Observation:
        assert self.plan_tools is not None
        response = await r_search.respond(f"<search>{search.query}</search>", self.plan_tools, self.top_k)
        return Observation(detail=response)


def grammar_for(protocol: str, prompt: Sequence[ChatMessage]) -> Grammar:
    """A protocol's grammar that opens with a row's own system prompt; the question goes in as it stands there."""
    if [message.role for message in prompt] != ["system", "user"]:
        raise InvalidInput("expected a system turn and the question", field="prompt")
    return replace(GRAMMARS[protocol], system_prompt=prompt[0].content, user_suffix="")


def within(respond: Respond, grammar: Grammar, count: Callable[[str], int], limit: int) -> Respond:
    """Tools whose results are at most `limit` tokens long: words at the end of each passage go first, triples last.

    A plan's result is left as it is: its two passages a search are short.
    """

    async def shortened(search: Search) -> Observation:
        found = await respond(search)
        if isinstance(found.detail, r_search.Response) or count(grammar.render_result(found)) <= limit:
            return found
        longest = max([len(passage.text.split()) for passage in found.passages], default=0)
        low, high = 0, len(found.triples) + longest
        best = _of_size(found, 0)
        while low <= high:  # the largest size that fits
            size = (low + high) // 2
            tried = _of_size(found, size)
            if count(grammar.render_result(tried)) <= limit:
                best, low = tried, size + 1
            else:
                high = size - 1
        return best

    return shortened


def _of_size(found: Observation, size: int) -> Observation:
    """Triples, then as many words of every passage; together at most `size`. Without a word no passage."""
    words = size - len(found.triples)
    passages = [replace(p, text=" ".join(p.text.split()[:words])) for p in found.passages if words > 0]
    return replace(found, passages=tuple(passages), triples=found.triples[:size])


def _labels(triple: KgTriple) -> Labels:
    return Labels(head=triple.head_label, relation=triple.relation_label, tail=triple.tail_label)
