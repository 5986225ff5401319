"""Read transcripts of every protocol, as messages or as one text, into the episodes that rewards score.

Only what the agent wrote is parsed. Tool turns are looked at for their passages and for nothing else, so nothing that
poses as an agent's turn in a retrieved text can earn or cost a reward. Turns are read as the loop of
`protocols.episodes` reads them: a slip that was mended there is mended here, so the searches that count are those that
were executed. The closing tag at which generation stopped has to stand in a turn: without it the turn counts as cut.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from trailforge.protocols import grammar_of
from trailforge.rewards import mcts_reward
from trailforge.rewards.episode import (
    Episode,
    make_target,
    measure_answer,
    measure_nearest,
    reward_preset,
    score,
)
from trailforge.rewards.r_search import TOOLS
from trailforge.schemas import ChatMessage, GroundTruth, Message, RightBy


class Spoken(Protocol):
    """A message of a conversation."""

    @property
    def role(self) -> str:
        """Return the role that speaks: `assistant` is the agent."""
        ...

    @property
    def content(self) -> str:
        """Return the text of the message."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToScore:
    """An episode to be scored, with what is already known of it."""

    messages: Sequence[Spoken]
    """The conversation, with or without the turns before the agent's first."""
    truth: GroundTruth
    question: str | None = None
    """The question, for a judge; None: it is read from the turns before the agent's first."""
    tokens: int | None = None
    """Tokens of everything after the prompt; None where they are not known."""
    retrieved_titles: Sequence[str] | None = None
    judge: float | None = None
    """A judge's score that is already known; else None."""
    nearest: Sequence[float | None] | None = None
    """How near the passages come to each supporting document, where that is already known; else None."""
    read: Episode | None = None
    """What rewards see of the conversation, where it has been read; None: it is read from the messages."""


def make_truth(
    golds: Sequence[str],
    *,
    protocol: str,
    options: tuple[str, ...] = (),
    correct_options: tuple[str, ...] = (),
    num_hops: int | None = None,
    support_titles: tuple[str, ...] = (),
    support_texts: tuple[str, ...] = (),
    allowed_tools: tuple[str, ...] = (),
) -> GroundTruth:
    """Return what rewards need to know of a question. `golds` are the gold answer and then its aliases."""
    return GroundTruth(
        target=make_target(golds, reward_preset(grammar_of(protocol).reward)),
        answer_kind="options" if correct_options else "text",
        options=options,
        correct_options=correct_options,
        num_hops=num_hops,
        hops=(),
        support_titles=support_titles,
        support_texts=support_texts,
        dag_text="",
        allowed_tools=allowed_tools,
        reward_preset="",
        protocol=protocol,
        num_golds=len(golds),
    )


def find_right_by(answer: str, truth: GroundTruth, otherwise: RightBy = "judge") -> RightBy:
    """Return what finds a final answer right, in a row that filters kept: `target` (its protocol's reward), `partly`
    (some of the correct options), `matching` (the matcher), or else `otherwise`.
    """
    if measure_answer(answer, truth, reward_preset(grammar_of(truth.protocol).reward).constants) >= 1.0:
        return "target"
    if truth.correct_options:
        return "partly"
    return "matching" if mcts_reward(answer, truth.golds) else otherwise


def read_transcript(
    messages: Sequence[Spoken],
    protocol: str,
    *,
    tokens: int | None = None,
    retrieved_titles: Sequence[str] | None = None,
    tools: Collection[str] = TOOLS,
) -> Episode:
    """Read what rewards score in a conversation, with or without the turns before the agent's first.

    Every role but the agent's that speaks after that counts as a tool. `tokens` is the number of tokens after the
    prompt, for rewards that penalise length; None where it is not known. `retrieved_titles` are the titles of the
    passages found, where the caller knows them; None reads them from the tool turns that follow a readable search.
    `tools` are the tools that a search plan may name. Raises `InvalidInput` for an unknown protocol.
    """
    grammar = grammar_of(protocol)
    turns = _turns(messages)
    blank = f"<{grammar.result_tag}>\n</{grammar.result_tag}>"
    conversation = [
        *_OPENING,
        *(_message(role, content if role == "assistant" else blank) for role, content in turns),
    ]
    read = [grammar.read_turn(message) for message in conversation[len(_OPENING) :]]
    results = [
        content
        for turn, (role, content) in zip(read, turns[1:], strict=False)
        if turn is not None and turn.search is not None and role == "tool"
    ]
    passages = [passage for result in results for passage in grammar.read_passages(result)]
    if retrieved_titles is None:
        retrieved_titles = [title for title, _ in passages]
    return Episode(
        answer=grammar.answer_of(conversation),
        is_well_formed=grammar.is_well_formed(conversation),
        well_formed_turns=tuple(grammar.well_formed_turns(conversation)),
        num_searches=len(results),
        retrieved_titles=tuple(retrieved_titles),
        plan=grammar.plan_reward(conversation, tools),
        strict_plan=grammar.plan_reward(conversation, tools, strict=True),
        tokens=tokens,
        retrieved_texts=tuple(text for _, text in passages if text),
        given_texts=tuple(results),
    )


def pay(messages: Sequence[Spoken], truth: GroundTruth) -> float:
    """Score a conversation by the reward that the question names, or else by its protocol's. No judge is asked. Raises
    what `rewards.episode.score` raises.
    """
    preset = reward_preset(truth.reward_preset or grammar_of(truth.protocol).reward)
    episode = read_transcript(messages, truth.protocol, tools=truth.allowed_tools or TOOLS)
    return score(episode, truth, preset, nearest=measure_nearest(episode, truth, None)).total


def split_text(text: str, protocol: str) -> tuple[ChatMessage, ...]:
    """Split an episode that is one text, from the agent's first word on, into its turns.

    Text between the tags of a result counts as a tool's, since a text does not say who wrote it: a trainer that lets an
    agent write on after its search should pass messages. Marks of a chat template (`<|im_end|>`), and remaining names
    of roles around a result, are removed. Raises what `read_transcript` raises.
    """
    parts = _around_results(_SPECIAL_TOKEN.sub("", text), grammar_of(protocol).result_tag)
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
