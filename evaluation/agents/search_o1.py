"""Search-o1 (Li et al., 2025; RAGSearch, figures 5 to 7): a model that searches while it reasons; a separate call reads
the results.

    user        the rules, and the question
    assistant   … <|begin_search_query|>who directed Avatar<|end_search_query|>                   } up to the limit
    tool        <|begin_search_result|>what a call beside the conversation read<|end_search_result|>  }
    assistant   … \\boxed{James Cameron}

The prompts are ours, or with `prompt: published` RAGSearch's figures 5 to 7, drawn as the authors' program draws; the
loop is the program's (`scripts/run_search_o1.py`): how far the reading call looks back, what a search beyond the limit
and one made twice are told, that a turn without a search ends it. A mark acts only in what the model wrote in its own
turns: in retrieved text, and in what the reading call made of it, it is escaped. The reading
call sees no marks, where the authors' sees them raw: searches and what they found are steps with a word before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from trailforge.evaluation.agents import Agent, AgentRun, AgentTools
from trailforge.evaluation.agents.free_form import (
    PROMPTS,
    Recorder,
    boxed_answer,
    check_documents,
    document_text,
    sampling_of,
)
from trailforge.evaluation.agents.published_prompts import (
    SEARCH_O1,
    SEARCH_O1_READ,
    SEARCH_O1_READING_PENALTY,
    SEARCH_O1_TOP_K,
)
from trailforge.inference import ChatTurn, Reply, fill
from trailforge.protocols import escape_retrieved, turn_text
from trailforge.schemas import AgentStop, ContextOverflow, InvalidInput, Message, estimate_tokens

BEGIN_QUERY, END_QUERY = "<|begin_search_query|>", "<|end_search_query|>"
BEGIN_RESULT, END_RESULT = "<|begin_search_result|>", "<|end_search_result|>"
NO_MORE_SEARCHES = "The limit of searches is reached: no further search is run. Answer with what you have."
SEARCHED_BEFORE = "This query was searched for before: see its result above."
NOTHING_HELPFUL = "No helpful information found."

FOUND = "Final Information"
"""The heading of what the reading call found."""
READING = "search_o1_read"
"""The purpose of the call that reads what a search found."""
MARKS = (BEGIN_QUERY, END_QUERY, BEGIN_RESULT, END_RESULT)
_MARK = re.compile("|".join(map(re.escape, MARKS)))
_KEPT_STEPS = 5
"""Reasoning of more steps is shown to the reading call without its middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchO1Config:
    """Limits and sampling of the agent: those of the authors' code where it has them."""

    prompt: Literal["ours", "published"] = "ours"
    """Which prompts are used.

    `published`: the words of RAGSearch's figures 5 to 7, with the sampling of the authors' code (`top_k`, and a penalty
    of repetition in the call that reads, which the server has to support).
    """
    max_searches: int = 10
    """Most searches that are run; in the authors' code ten on multi-hop questions, five on others.

    A further search, and a query made twice, is answered with a note that says so, and takes a turn.
    """
    max_turns: int = 15
    max_tokens: int = 16384
    """Most tokens of the conversation after the question, results included."""
    turn_tokens: int = 8192
    reading_tokens: int = 2048
    """Most tokens of the call that reads what a search has found."""
    temperature: float = 0.7
    top_p: float = 0.8

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for numbers that leave no room."""
        if self.max_searches < 0 or min(self.max_turns, self.max_tokens, self.turn_tokens, self.reading_tokens) < 1:
            raise InvalidInput("expected max_searches of 0 or more, and turns and tokens of 1 or more")


async def run(question: str, tools: AgentTools, config: SearchO1Config) -> AgentRun:
    """Run one conversation, with the separate calls that read search results for it.

    Raises what `Agent.run` raises. A prompt longer than the model's context ends the episode as `too_long`, unless it
    is the first.
    """
    check_documents(tools, "search_o1")
    conversation = _Conversation(question, tools, config)
    stop: AgentStop | None = None
    try:
        while stop is None:
            stop = await conversation.take_turn()
    except ContextOverflow:
        if not conversation.turns:
            raise
        stop = "too_long"
    return conversation.recorder.run(conversation.answer if stop == "answered" else "", stop, conversation.messages)


class _Conversation:
    """A conversation under way."""

    def __init__(self, question: str, tools: AgentTools, config: SearchO1Config) -> None:
        self.recorder = Recorder(tools)
        self.turns = 0
        self.answer = ""
        words = SEARCH_O1 if config.prompt == "published" else PROMPTS.text("search_o1")
        opening = fill(words, question=question, limit=str(config.max_searches)).strip()
        self.messages = [Message(role="user", content=opening, train=False)]
        self._question, self._tools, self._config = question, tools, config
        self._queries: set[str] = set()
        self._tokens = 0

    async def take_turn(self) -> AgentStop | None:
        """A turn of the agent and what it is given for it; why the conversation ends, if it does."""
        config = self._config
        longest = min(config.turn_tokens, config.max_tokens - self._tokens)
        reply = await self.recorder.turn(
            self._prompt(),
            purpose="search_o1",
            sampling=sampling_of(config.temperature, config.top_p, longest, END_QUERY, **self._rare()),
        )
        self.turns += 1
        text = up_to_search(reply)
        self._add(Message(role="assistant", content=text, train=True))
        if reply.is_cut:
            return "too_long"
        query = query_of(text)
        if not query:
            boxes = (boxed_answer(m.content) for m in reversed(self.messages) if m.role == "assistant")
            self.answer = next(filter(None, boxes), "")
            return "answered" if self.answer else "malformed"
        if self.turns >= config.max_turns:
            return "too_many_turns"
        if self._tokens < config.max_tokens:
            result = await self._result_of(query)
            self._add(Message(role="tool", content=f"{BEGIN_RESULT}\n{result}\n{END_RESULT}", train=False))
        return "too_long" if self._tokens >= config.max_tokens else None

    def _prompt(self) -> str | list[ChatTurn]:
        """All so far: turns of a chat, results being the user's, or one text."""
        if self._tools.asker.style == "chat":
            return [ChatTurn(role="user" if m.role == "tool" else m.role, content=m.content) for m in self.messages]
        opening, *rest = self.messages
        said = (m.content if m.role == "assistant" else f"\n\n{m.content}\n\n" for m in rest)
        return f"{opening.content}\n\n{''.join(said)}"

    def _rare(self) -> dict[str, int]:
        return {"top_k": SEARCH_O1_TOP_K} if self._config.prompt == "published" else {}

    def _add(self, message: Message) -> None:
        self.messages.append(message)
        self._tokens += estimate_tokens(message.content)

    async def _result_of(self, query: str) -> str:
        if len(self._queries) >= self._config.max_searches:
            return NO_MORE_SEARCHES
        if query in self._queries:
            return SEARCHED_BEFORE
        self._queries.add(query)
        found = await self.recorder.search_documents(self._question, query)
        config = self._config
        prompt = fill(
            SEARCH_O1_READ if config.prompt == "published" else PROMPTS.text(READING),
            reasoning=previous_steps(message.content for message in self.messages[1:]),
            query=query,
            documents=document_text(found),
        )
        penalty = {"repetition_penalty": SEARCH_O1_READING_PENALTY} if config.prompt == "published" else {}
        reply = await self.recorder.ask(
            prompt.strip(),
            purpose=READING,
            sampling=sampling_of(config.temperature, config.top_p, config.reading_tokens, **self._rare(), **penalty),
        )
        return escape_retrieved(information_of(reply.text))


def up_to_search(reply: Reply) -> str:
    """Return a turn up to the end of its first search, adding the closing tag that the server cut off as its stop
    string.
    """
    text = turn_text(reply)
    start = text.find(BEGIN_QUERY)
    if start < 0:
        return text
    end = text.find(END_QUERY, start)
    if end >= 0:
        return text[: end + len(END_QUERY)]
    return text if reply.is_cut else text + END_QUERY


def query_of(turn: str) -> str:
    """Return the query with which a turn ends; empty when it does not end with a search."""
    if not turn.endswith(END_QUERY):
        return ""
    return turn.removesuffix(END_QUERY).rpartition(BEGIN_QUERY)[2].strip() if BEGIN_QUERY in turn else ""


def information_of(reply: str) -> str:
    """Return what the reading call extracted: the text below its last heading, or the sentence that nothing helpful was
    found.
    """
    _, heading, found = reply.rpartition(FOUND)
    return (heading and found.lstrip("*: \n").strip()) or NOTHING_HELPFUL


def previous_steps(texts: Iterable[str]) -> str:
    """Return the turns and search results so far as numbered steps without tags, for the reading call.

    Of more than five steps, the first, the last four, and all searches with their results are kept. A result is one
    step, so that nothing in it can pose as another.
    """
    steps: list[tuple[str, bool]] = []
    for text in texts:
        if text.startswith(BEGIN_RESULT) and text.endswith(END_RESULT):
            found = " ".join(text.removeprefix(BEGIN_RESULT).removesuffix(END_RESULT).split())
            steps.append((f"Found: {found}", True))
            continue
        query = query_of(text)
        thought = text.rpartition(BEGIN_QUERY)[0] if query else text
        steps += [(line, False) for each in thought.split("\n") if (line := _plain(each))]
        steps += [(f"Searched for: {_plain(query)}", True)] if query else []
    kept: list[str] = []
    for number, (step, is_search) in enumerate(steps):
        if is_search or len(steps) <= _KEPT_STEPS or number == 0 or number > len(steps) - _KEPT_STEPS:
            kept.append(f"Step {number + 1}: {step}")
        elif kept[-1] != "...":
            kept.append("...")
    return "\n".join(kept)


def _plain(text: str) -> str:
    """Without marks, on one line."""
    return " ".join(_MARK.sub(" ", text).split())


AGENT = Agent(name="search_o1", config=SearchO1Config, run=run)
