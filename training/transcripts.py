"""Transcripts of every protocol, as messages or as one text, read into what rewards see of them.

Only what the agent wrote is parsed. Tool turns are looked at for the titles of passages and for nothing else, so no
retrieved text can earn or cost a reward. The closing tag at which generation stopped has to stand in a turn: without
it the turn counts as cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from trailforge.protocols import graph_r1, kg_search, nl_dag, r_search, react, search_r1
from trailforge.protocols.grammar import Grammar, Turn, passage_titles
from trailforge.rewards.episode import Episode
from trailforge.rewards.r_search import TOOLS
from trailforge.schemas import ChatMessage, InvalidInput, MalformedReply, Message


class Spoken(Protocol):
    """A message of a conversation."""

    @property
    def role(self) -> str:
        """Who speaks: `assistant` is the agent."""
        ...

    @property
    def content(self) -> str:
        """What is said."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What a protocol's grammar says of a conversation."""

    answer: str
    is_well_formed: bool
    well_formed_turns: tuple[bool, ...]
    searches: tuple[bool, ...]
    """For each message: does the agent search in it, readably?"""
    plan: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """How one protocol is read."""

    result_tag: str
    read: Callable[[Sequence[Message], Collection[str]], _Reading]
    """Of a conversation from the system prompt on, and the tools that plans may name."""
    titles: Callable[[str], list[str]]
    """Of a tool turn."""


def read_transcript(
    messages: Sequence[Spoken],
    protocol: str,
    *,
    tokens: int | None = None,
    retrieved_titles: Sequence[str] | None = None,
    tools: Collection[str] = TOOLS,
) -> Episode:
    """What rewards see of a conversation, with or without the turns before the agent's first.

    Whoever but the agent speaks after that, in whatever role, is a tool. `retrieved_titles`: of the passages found, by
    who knows them; None reads them from the tool turns that follow a readable search. `tools`: which a search plan may
    name. Raises `InvalidInput` for a protocol that there is not.
    """
    reader = _reader(protocol)
    turns = _turns(messages)
    blank = f"<{reader.result_tag}>\n</{reader.result_tag}>"
    conversation = [
        *_OPENING,
        *(_message(role, content if role == "assistant" else blank) for role, content in turns),
    ]
    reading = reader.read(conversation, tools)
    searches = reading.searches[len(_OPENING) :]
    results = [
        content for searched, (role, content) in zip(searches, turns[1:], strict=False) if searched and role == "tool"
    ]
    if retrieved_titles is None:
        retrieved_titles = [title for result in results for title in reader.titles(result)]
    return Episode(
        answer=reading.answer,
        is_well_formed=reading.is_well_formed,
        well_formed_turns=reading.well_formed_turns,
        num_searches=len(results),
        retrieved_titles=tuple(retrieved_titles),
        plan=reading.plan,
        tokens=tokens,
    )


def split_text(text: str, protocol: str) -> tuple[ChatMessage, ...]:
    """An episode as one text, from the agent's first word on, as its turns.

    What stands between the tags of a result is taken for a tool's: a text does not tell who wrote it. A trainer that
    lets an agent write on after its search should hand over messages. Marks of a chat template (`<|im_end|>`) and the
    names of roles that are left of them around a result are removed. Raises as `read_transcript`.
    """
    parts = _around_results(_SPECIAL_TOKEN.sub("", text), _reader(protocol).result_tag)
    # Every result answers a turn, be it an empty one; only after the last one nothing may have been said.
    parts = parts if parts[-1] else parts[:-1]
    return tuple(
        ChatMessage(role="tool" if number % 2 else "assistant", content=part) for number, part in enumerate(parts)
    )


def _around_results(text: str, tag: str) -> list[str]:
    """What stands before, in and after each result in turn, trimmed, without the names of roles beside a result."""
    opening, closing, parts, at = f"<{tag}>", f"</{tag}>", list[str](), 0
    while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start)) >= 0:
        end += len(closing)
        parts += [_ROLE_AT_END.sub("", text[at:start].rstrip()).strip(), text[start:end]]
        role = _ROLE_AT_START.match(text, end)
        at = role.end() if role else end
    return [*parts, text[at:].strip()]


# <|im_end|>, and DeepSeek's with wide bars.
_SPECIAL_TOKEN = re.compile(r"<[|｜][^<>|｜\s]++[|｜]>")
_ROLE_AT_END = re.compile(r"(?:^|\n)(?:user|tool)$")
_ROLE_AT_START = re.compile(r"\s*+assistant(?:\n|$)")


def _message(role: str, content: str) -> Message:
    agent = role == "assistant"
    return Message(role="assistant" if agent else "tool", content=content, train=agent)


_OPENING = (Message(role="system", content="", train=False), Message(role="user", content="", train=False))


def _turns(messages: Sequence[Spoken]) -> list[tuple[str, str]]:
    """(role, content) from the first turn of agent or tool on."""
    start = next((n for n, message in enumerate(messages) if message.role in ("assistant", "tool")), len(messages))
    return [("assistant" if m.role == "assistant" else "tool", m.content) for m in messages[start:]]


# Protocols


def _by_grammar(grammar: Grammar) -> Callable[[Sequence[Message], Collection[str]], _Reading]:
    def read(messages: Sequence[Message], _: Collection[str]) -> _Reading:
        turns = [_turn(grammar, message) for message in messages]
        last = turns[-1]
        return _Reading(
            answer=last.answer or "" if last is not None else "",
            is_well_formed=not grammar.validate(messages, strict=True),
            well_formed_turns=tuple(grammar.well_formed_turns(messages)),
            searches=tuple(turn is not None and turn.search is not None for turn in turns),
        )

    return read


def _turn(grammar: Grammar, message: Message) -> Turn | None:
    """The turn with its slips mended; None when it cannot be read, was cut, or is not the agent's."""
    if message.role != "assistant" or grammar.missing_end(message.content):
        return None
    try:
        return grammar.parse_turn(message.content)
    except MalformedReply:
        return None


def _react(messages: Sequence[Message], _: Collection[str]) -> _Reading:
    turns = [_react_turn(message) for message in messages]
    last = messages[-1]
    return _Reading(
        answer=react.final_answer(last.content) if last.role == "assistant" else "",
        is_well_formed=not react.validate(messages),
        well_formed_turns=tuple(
            turn is not None for turn, message in zip(turns, messages, strict=True) if message.role == "assistant"
        ),
        searches=tuple(turn is not None and turn.query is not None for turn in turns),
    )


def _react_turn(message: Message) -> react.Turn | None:
    try:
        return react.parse_turn(message.content) if message.role == "assistant" else None
    except MalformedReply:
        return None


def _r_search(messages: Sequence[Message], tools: Collection[str]) -> _Reading:
    text = r_search.episode_text(messages)
    parts = r_search.score(text, tools=tools)
    turns = [r_search.readable_turn(m.content) if m.role == "assistant" else None for m in messages]
    return _Reading(
        answer=r_search.final_answer(text),
        is_well_formed=parts.format == 1.0,
        well_formed_turns=tuple(
            turn is not None for turn, message in zip(turns, messages, strict=True) if message.role == "assistant"
        ),
        searches=tuple(turn is not None and turn.plan is not None for turn in turns),
        plan=parts.dag,
    )


_READERS = {
    react.NAME: _Reader(result_tag="tool_response", read=_react, titles=passage_titles),
    r_search.NAME: _Reader(result_tag="result", read=_r_search, titles=nl_dag.read_titles),
    **{
        grammar.name: _Reader(result_tag=grammar.result_tag, read=_by_grammar(grammar), titles=titles)
        for grammar, titles in (
            (kg_search.GRAMMAR, kg_search.read_titles),
            (search_r1.GRAMMAR, search_r1.read_titles),
            (graph_r1.GRAMMAR, passage_titles),
        )
    },
}


def _reader(protocol: str) -> _Reader:
    if protocol not in _READERS:
        raise InvalidInput(f"no protocol {protocol!r}; there are {', '.join(_READERS)}", field="protocol")
    return _READERS[protocol]
