"""What agents without a protocol of ours have in common: how they search and ask, and how their answers are read."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from trailforge.evaluation.agents.declaration import AgentTools
from trailforge.inference import ChatTurn, Reply, Request, Sampling
from trailforge.inference.prompts import Prompts
from trailforge.protocols.base import one_line, passage_lines
from trailforge.protocols.episodes import Respond
from trailforge.protocols.kg_search import read_answer
from trailforge.protocols.turns import Observation, Search
from trailforge.retrieval.backends.declaration import MadePassage
from trailforge.schemas import InvalidInput, MalformedReply, Message
from trailforge.schemas.agent_episode import AgentCall, AgentSearch

PROMPTS = Prompts("trailforge.evaluation.agents")
NO_DOCUMENTS = "(no documents were found)"

_BOX = "\\boxed{"
_LATEX_TEXT = re.compile(r"\\text(?:bf|it)?\{(.*)\}", re.DOTALL)


class Recorder:
    """An agent's tools, which write down what it does with them, in order."""

    def __init__(self, tools: AgentTools) -> None:
        self.searches: list[AgentSearch] = []
        self.calls: list[AgentCall] = []
        self._tools = tools

    def recorded(self, respond: Respond, show: Callable[[Observation], str]) -> Respond:
        """Tools that keep every search. `show`: what a model is given of what was found."""

        async def respond_recorded(search: Search) -> Observation:
            start = time.perf_counter()
            found = await respond(search)
            seconds = time.perf_counter() - start
            self.searches.append(
                record_search(search, found, context_tokens=self._tools.count(show(found)), seconds=seconds)
            )
            return found

        return respond_recorded

    async def search_documents(self, question: str, query: str) -> Observation:
        """What documents alone have. Raises what the tools raise."""

        async def respond(search: Search) -> Observation:
            return await self._tools.environment.search_documents(question, search, self._tools.asker.meter)

        return await self.recorded(respond, document_text)(Search(query=query))

    async def search_facts(self, question: str, search: Search) -> Observation:
        """What a knowledge graph has and documents too, or documents alone where there is no graph."""
        environment, meter = self._tools.environment, self._tools.asker.meter

        async def respond(search: Search) -> Observation:
            if environment.kg is None:
                return await environment.search_documents(question, search, meter)
            return await environment.search_graph(question, search, meter)

        return await self.recorded(respond, fact_text)(search)

    async def ask(self, prompt: str, *, purpose: str, sampling: Sampling) -> Reply:
        """A call beside the conversation."""
        reply = await self._complete(prompt, purpose=purpose, sampling=sampling, is_turn=False)
        self.calls.append(AgentCall(purpose=purpose, prompt=prompt, reply=reply.text))
        return reply

    async def turn(self, prompt: str | Sequence[ChatTurn], *, purpose: str, sampling: Sampling) -> Reply:
        """A turn of the conversation: `prompt` is all of it so far, in the style of the model."""
        return await self._complete(prompt, purpose=purpose, sampling=sampling, is_turn=True)

    async def _complete(
        self, prompt: str | Sequence[ChatTurn], *, purpose: str, sampling: Sampling, is_turn: bool
    ) -> Reply:
        asker = self._tools.asker
        if isinstance(prompt, str) and asker.style == "chat":
            prompt = (ChatTurn(role="user", content=prompt),)
        request = Request(
            model=asker.model,
            prompt=prompt if isinstance(prompt, str) else tuple(prompt),
            sampling=sampling,
            sample=self._tools.sample,
            seed=asker.seed,
            purpose=purpose,
            is_turn=is_turn,
            priority=asker.priority,
        )
        return await asker.client.complete(request, asker.meter)


def record_search(search: Search, found: Observation, *, context_tokens: int, seconds: float) -> AgentSearch:
    """A search and what it brought, as it is stored. `seconds`: 0.0 where they are not known."""
    made = [source for each in found.passages if isinstance(each, MadePassage) for source in each.sources]
    return AgentSearch(
        query=search.query,
        entities=search.entities,
        relations=search.relations,
        document_ids=tuple(passage.id for passage in found.passages),
        titles=tuple(passage.title for passage in found.passages),
        source_ids=tuple(id for id, _ in made),
        source_titles=tuple(title for _, title in made),
        scores=tuple(passage.score for passage in found.passages),
        triples=tuple(map(triple_line, found.triples)),
        context_tokens=context_tokens,
        seconds=seconds,
    )


def check_documents(tools: AgentTools, agent: str) -> None:
    """Raises `InvalidInput` when there is nothing to search."""
    if tools.environment.documents is None:
        raise InvalidInput(f"{agent} searches documents; give --documents, or --retrieval web")


def sampling_of(temperature: float, top_p: float, max_tokens: int, *stop: str) -> Sampling:
    """How a reply is drawn."""
    return replace(Sampling(temperature=temperature, top_p=top_p, max_tokens=max_tokens), stop=stop)


def document_text(found: Observation) -> str:
    """A line for each passage; nothing in it can pose as a mark of an agent or of a chat template."""
    return "\n".join(passage_lines(found.passages)) or NO_DOCUMENTS


def fact_text(found: Observation) -> str:
    """Triples, then passages."""
    return "\n".join([*map(triple_line, found.triples), document_text(found)])


def triple_line(triple: Sequence[str]) -> str:
    """A triple as one line."""
    return f"({' | '.join(map(one_line, triple))})"


def boxed_answer(text: str) -> str:
    """What the last `\\boxed{}` of a text holds, `\\text{}` within it taken off; empty without one."""
    start = text.rfind(_BOX)
    if start < 0:
        return ""
    try:
        answer, repairs = read_answer(text[start:])
    except MalformedReply:  # an empty box
        return ""
    if "unclosed_box" in repairs:
        return ""
    plain = _LATEX_TEXT.fullmatch(answer)
    return plain[1].strip() if plain else answer


def asked_and_said(prompt: str, reply: str) -> tuple[Message, Message]:
    """A conversation of one question and one reply."""
    return (
        Message(role="user", content=prompt, train=False),
        Message(role="assistant", content=reply, train=True),
    )
