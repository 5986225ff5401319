"""Share between agents that use no protocol of ours how they search, how they call the model, and how their answers are
read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

from trailforge.evaluation.agents import AgentRun, AgentTools
from trailforge.evaluation.agents.reading_budget import BudgetedRetriever, timing
from trailforge.inference import ChatTurn, Prompts, Reply, Request, Sampling
from trailforge.protocols import Labels, Observation, Respond, Search, one_line, passage_lines, read_answer
from trailforge.retrieval import Retriever
from trailforge.retrieval.backends import BackendRetriever, FoundPassage, Index, MadePassage
from trailforge.retrieval.indexes import OpenIndex
from trailforge.retrieval.service import SearchClient
from trailforge.schemas import AgentCall, AgentSearch, AgentStop, InvalidInput, MalformedReply, Message, Passage

PROMPTS = Prompts("trailforge.evaluation.agents")
NO_DOCUMENTS = "(no documents were found)"
AGAIN, LOST = "_again", "_lost"
"""Endings of a call's purpose: for a step that is asked once more, and for one whose second reply cannot be read
either.
"""

_BOX = "\\boxed{"
_FINAL = re.compile(r"(?:^#++|\*\*)[ \t]*+final answer[ \t*:]*+(.*)", re.IGNORECASE | re.MULTILINE | re.DOTALL)
_STATES = "states: "
_VERDICT = re.compile(r"\b(yes|no)\b", re.IGNORECASE)
_LATEX_TEXT = re.compile(r"\\text(?:bf|it)?\{(.*)\}", re.DOTALL)


class Recorder:
    """An agent's tools, which record in order what the agent does with them."""

    def __init__(self, tools: AgentTools) -> None:
        self.searches: list[AgentSearch] = []
        self.calls: list[AgentCall] = []
        self.shown: list[str] = []
        """By every search, as a model is given it."""
        self._tools = tools

    def run(self, answer: str, stop: AgentStop, messages: Iterable[Message]) -> AgentRun:
        """Return everything recorded so far as one run with this answer."""
        return AgentRun(
            answer=answer,
            stop=stop,
            messages=tuple(messages),
            searches=tuple(self.searches),
            calls=tuple(self.calls),
            shown=tuple(self.shown),
        )

    def recorded(self, respond: Respond, show: Callable[[Observation], str]) -> Respond:
        """Return a search tool that works as `respond` does and records every search; `show` writes results as the
        model is given them.
        """

        async def respond_recorded(search: Search) -> Observation:
            with timing() as clock:
                found = await respond(search)
            text = show(found)
            self.shown.append(text)
            self.searches.append(
                record_search(search, found, context_tokens=self._tools.count(text), seconds=clock.seconds)
            )
            return found

        return respond_recorded

    async def search_documents(self, question: str, query: str) -> Observation:
        """Search the documents alone for a query, and record the search. `question` is the one that the agent answers.
        Raises what the tools raise."""

        async def respond(search: Search) -> Observation:
            return await self._tools.environment.search_documents(question, search, self._tools.asker.meter)

        return await self.recorded(respond, document_text)(Search(query=query))

    async def search_facts(self, question: str, search: Search) -> str:
        """Search a knowledge graph and documents, or documents alone where there is no graph, and record the search.

        Returns the text that a model is given, with the facts by which passages were found.
        """
        environment, meter = self._tools.environment, self._tools.asker.meter
        documents, noted, facts = environment.documents, list[FoundPassage](), list[str]()
        room = documents.tokens if isinstance(documents, BudgetedRetriever) else None

        async def respond(search: Search) -> Observation:
            noting = replace(environment, documents=note_finds(documents, noted))
            ask = noting.search_documents if noting.kg is None else noting.search_graph
            found = await ask(question, search, meter)
            led = {each.passage.id: facts_of(each) for each in noted}
            passages, facts[:] = with_facts(found.passages, led, room, self._tools.count)
            return replace(found, passages=passages)

        def show(found: Observation) -> str:
            return fact_text(found, facts)

        return show(await self.recorded(respond, show)(search))

    async def ask(self, prompt: str, *, purpose: str, sampling: Sampling) -> Reply:
        """Make and record a model call that is not part of the conversation. `purpose` is the name under which it is
        counted."""
        reply = await self._complete(prompt, purpose=purpose, sampling=sampling, is_turn=False)
        self.calls.append(AgentCall(purpose=purpose, prompt=prompt, reply=reply.text, is_cut=reply.is_cut))
        return reply

    async def turn(self, prompt: str | Sequence[ChatTurn], *, purpose: str, sampling: Sampling) -> Reply:
        """Make and record a turn of the conversation. `prompt` is the whole conversation so far, as text or as chat
        turns.
        """
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
    """Return the stored record of a search and its results; `seconds` is 0.0 where they are not known."""
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
    """Raise `InvalidInput`, naming the agent, when there is nothing that it can search."""
    if tools.environment.documents is None:
        raise InvalidInput(f"{agent} searches documents; give --documents, or --retrieval web")


def sampling_of(temperature: float, top_p: float, max_tokens: int, *stop: str, **rare: Any) -> Sampling:
    """Return the sampling settings of a reply. `rare` holds settings that few servers know, as in `Sampling.rare`."""
    return Sampling(temperature=temperature, top_p=top_p, max_tokens=max_tokens, stop=stop, **rare)


def document_text(found: Observation) -> str:
    """Write the passages as one line each, with anything escaped that could pose as a tag of an agent or of a chat
    template.
    """
    return "\n".join(passage_lines(found.passages)) or NO_DOCUMENTS


def fact_text(found: Observation, facts: Sequence[str] = ()) -> str:
    """Write triples and facts, each once, where there are any; then passages. Headings say which is which."""
    lines = dict.fromkeys([*map(triple_line, found.triples), *map(one_line, facts)])
    documents = f"Documents\n{document_text(found)}"
    return "\n".join(["Facts", *lines, "", documents]) if lines else documents


def with_facts(
    passages: Sequence[Passage], led: Mapping[str, Sequence[str]], room: int | None, count: Callable[[str], int]
) -> tuple[tuple[Passage, ...], list[str]]:
    """Return the passages with the facts by which they were found, each fact once.

    `led` has the facts by the ids of passages. As many passages as fit together into `room` tokens are taken, in order,
    each with as many of its facts as fit; None means all.
    """
    for most in range(len(passages), 0, -1):
        kept = tuple(passages[:most])
        facts = list(dict.fromkeys(one_line(fact) for each in kept for fact in led.get(each.id, ())))
        left = 0 if room is None else room - sum(map(count, passage_lines(kept)))
        if room is None or sum(map(count, facts)) <= left:
            return kept, facts
        if most == 1:
            lengths = accumulate(map(count, facts))
            return kept, [fact for fact, length in zip(facts, lengths, strict=True) if length <= left]
    return (), []


def facts_of(found: FoundPassage) -> list[str]:
    """Return the facts that led a graph back end to a passage, where they say more than the passage itself.

    For `hippo_rag_plain` and `hyper_graph_rag_plain` they are the passage's own sentences; other back ends give none.
    """
    why, passage = found.why, found.passage
    if why.startswith(_STATES):
        facts = why.removeprefix(_STATES).split(" | ")
    else:
        quoted = why.split("; “") if why.startswith("“") else []
        facts = [each.removeprefix("“").rpartition("” (")[0] for each in quoted]
    text = " ".join(passage.text.split())
    return [fact for fact in facts if fact and fact.removeprefix(f"{passage.title}. ") not in text]


def note_finds(documents: Retriever | None, noted: list[FoundPassage]) -> Retriever | None:
    """Wrap a retriever so that it also adds to `noted` everything that its index finds. A retriever without an index
    adds nothing.
    """
    if isinstance(documents, BudgetedRetriever):
        return replace(documents, retriever=cast(Retriever, note_finds(documents.retriever, noted)))
    if isinstance(documents, OpenIndex):
        return replace(documents, index=_Noting(documents.index, noted))
    if isinstance(documents, BackendRetriever):
        noting = copy(documents)
        noting.index = _Noting(documents.index, noted)
        return noting
    if isinstance(documents, SearchClient):
        noting = copy(documents)
        noting.find = _Noting(cast(Index, documents), noted).find
        return noting
    return documents


class _Noting:
    """An index that keeps what it finds."""

    def __init__(self, index: Index, noted: list[FoundPassage]) -> None:
        self._index, self._noted = index, noted

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        found = await self._index.find(query, k)
        self._noted += found
        return found

    def save(self, folder: Path) -> None:
        self._index.save(folder)


def triple_line(triple: Sequence[str]) -> str:
    """Write a triple (subject, relation, object) as one line."""
    return f"({' | '.join(map(one_line, triple))})"


def boxed_answer(text: str) -> str:
    r"""Return the content of the last `\boxed{}` in a text, with a `\text{}` inside it removed; empty without a box."""
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


def read_final_answer(text: str) -> str:
    """Return what stands below a heading "Final Answer"; the whole text without one."""
    found = _FINAL.search(text)
    return (found[1].strip() if found else "") or text.strip()


def build_exchange(prompt: str, reply: str) -> tuple[Message, Message]:
    """Return a conversation of one user turn and one assistant turn."""
    return (
        Message(role="user", content=prompt, train=False),
        Message(role="assistant", content=reply, train=True),
    )


def read_verdict(reply: str) -> bool:
    """Return whether an analysis concludes with Yes: its last "yes" or "no" counts, and without either it is no."""
    found = _VERDICT.findall(reply)
    return bool(found) and found[-1].lower() == "yes"


def write_triples(triples: Sequence[Labels]) -> str:
    """Write triples on one line."""
    return ", ".join(f"({' | '.join(triple)})" for triple in triples)
