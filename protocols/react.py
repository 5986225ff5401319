"""The ReAct form of MSearcher (appendix A, "Model Training: SFT Data Example"): think, then search or answer.

    system      the rules
    user        the question, with USER_SUFFIX
    assistant   <think>…</think><search>query</search>      } any number of times
    tool        <tool_response>passages</tool_response>     }
    assistant   <think>…</think><answer>…</answer>

The paper's printed example leaves some tags open; its rules, which we hold to, close every one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trailforge.protocols.base import contents_of, estimate_tokens, one_line, tags_in
from trailforge.schemas import MalformedReply, Message, Passage, Role

__all__ = [
    "NAME",
    "STOP",
    "SYSTEM_PROMPT",
    "USER_SUFFIX",
    "Turn",
    "estimate_tokens",
    "final_answer",
    "parse_turn",
    "render_answer",
    "render_passages",
    "render_search",
    "validate",
]

NAME = "react"
"""As it stands in a row's `protocol`."""

THINK, END_THINK = "<think>", "</think>"
SEARCH, END_SEARCH = "<search>", "</search>"
TOOL_RESPONSE, END_TOOL_RESPONSE = "<tool_response>", "</tool_response>"
ANSWER, END_ANSWER = "<answer>", "</answer>"

STOP = (END_SEARCH, END_ANSWER)
"""Where generation of an assistant turn ends."""

SYSTEM_PROMPT = (
    "You answer questions step by step with the help of a search engine. "
    "Begin every turn by reasoning between <think> and </think>. "
    "When knowledge is missing after that, search with <search> query </search>, once in a turn; "
    "the best results come back between <tool_response> and </tool_response>. "
    "Do not hurry to an answer: check what you have found, and search again where it does not hold. "
    "When you are sure, end the task with the final answer between <answer> and </answer>."
)
USER_SUFFIX = " Put the final answer between <answer> and </answer>."

_SEARCHING = [THINK, END_THINK, SEARCH, END_SEARCH]
_ANSWERING = [THINK, END_THINK, ANSWER, END_ANSWER]
_TURN = re.compile(
    rf"\s*{THINK}(?P<thought>.*?){END_THINK}\s*"
    rf"(?:{SEARCH}(?P<query>.*?){END_SEARCH}|{ANSWER}(?P<answer>.*?){END_ANSWER})\s*",
    re.DOTALL,
)
_TOOL_TURN = re.compile(rf"\s*{TOOL_RESPONSE}.*{END_TOOL_RESPONSE}\s*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An assistant turn taken apart, white space around each part trimmed: one of `query` and `answer` is None."""

    thought: str
    query: str | None = None
    answer: str | None = None


def render_search(thought: str, query: str) -> str:
    """An assistant turn that searches."""
    return f"{THINK}{thought}{END_THINK}{SEARCH}{query}{END_SEARCH}"


def render_answer(thought: str, answer: str) -> str:
    """The assistant turn that ends the conversation."""
    return f"{THINK}{thought}{END_THINK}{ANSWER}{answer}{END_ANSWER}"


def render_passages(passages: Sequence[Passage]) -> str:
    """A tool turn: a line `1. (Title) text` for each passage, best first, tags in them escaped."""
    lines = [f"{n}. ({one_line(p.title)}) {one_line(p.text)}" for n, p in enumerate(passages, start=1)]
    return "\n".join([TOOL_RESPONSE, *(lines or ["Nothing was found."]), END_TOOL_RESPONSE])


def parse_turn(text: str) -> Turn:
    """Take an assistant turn apart. Raises `MalformedReply`, saying what is wrong, when it breaks the grammar."""
    turn = _turn_or_problem(text)
    if isinstance(turn, str):
        raise MalformedReply(turn)
    return turn


def final_answer(text: str) -> str:
    """What the last closed answer of a text says, in whatever else it may stand; empty when there is none."""
    return (contents_of("answer", text) or [""])[-1]


def validate(messages: Sequence[Message]) -> list[str]:
    """Every rule that a finished conversation breaks, one line each, as `message 2: …`; empty when well-formed."""
    last = len(messages) - 1
    problems = [
        f"message {number}: {problem}"
        for number, message in enumerate(messages)
        for problem in _message_problems(message, _role_at(number), is_last=number == last)
    ]
    if len(messages) < 3 or _role_at(last) != "assistant":
        problems.append(f"{len(messages)} messages; expected system, user, (assistant, tool)*, assistant")
    return problems


def _role_at(number: int) -> Role:
    if number < 2:
        return "user" if number else "system"
    return "tool" if number % 2 else "assistant"


def _message_problems(message: Message, expected: Role, *, is_last: bool) -> Iterator[str]:
    if message.role != expected:
        yield f"role {message.role}, expected {expected}"
    if message.train != (message.role == "assistant"):
        yield f"train is {message.train} on a turn of {message.role}"
    if message.role == "assistant":
        yield from _assistant_problems(message.content, is_last=is_last)
    elif message.role == "tool":
        yield from _tool_problems(message.content)


def _assistant_problems(content: str, *, is_last: bool) -> Iterator[str]:
    turn = _turn_or_problem(content)
    if isinstance(turn, str):
        yield turn
    elif is_last and turn.answer is None:
        yield "the conversation ends without an answer"
    elif not is_last and turn.query is None:
        yield "answers before the last turn"


def _tool_problems(content: str) -> Iterator[str]:
    tags = tags_in(content)
    if tags != [TOOL_RESPONSE, END_TOOL_RESPONSE]:
        yield f"expected one tool response, found {_listed(tags)}"
    elif not _TOOL_TURN.fullmatch(content):
        yield "text outside the tool response"


def _turn_or_problem(text: str) -> Turn | str:
    """The turn, or what is wrong with it in one line. No part may be empty, or hold a tag of any protocol."""
    tags = tags_in(text)
    if tags not in (_SEARCHING, _ANSWERING):
        return f"expected a thought, then one search or one answer; found {_listed(tags)}"
    match = _TURN.fullmatch(text)
    if not match:
        return "text outside the tags, or a tag that is not written plainly"
    parts = {name: part.strip() for name, part in match.groupdict().items() if part is not None}
    empty = [name for name, part in parts.items() if not part]
    return f"empty {empty[0]}" if empty else Turn(**parts)


def _listed(tags: list[str]) -> str:
    return " ".join(tags) or "no tags"
