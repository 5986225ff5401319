"""Native tool calls, the second of two ways to write a turn, as OpenAI-compatible servers exchange them.

assistant   reasoning_content, tool_calls                one or several calls
tool        …                                            one message for each call, with its id
assistant   reasoning_content, <answer>…</answer>
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from trailforge.protocols.base import contents_of
from trailforge.protocols.browse.actions import (
    AnswerAction,
    BadCall,
    BrowseTurn,
    Call,
    FindAction,
    Mend,
    OpenAction,
    SearchAction,
    call_name,
    citations_in,
    make_call,
)
from trailforge.protocols.repair import read_object
from trailforge.schemas import MalformedReply, NativeMessage, ToolCall, parse_json

_PAGE = {"type": "string", "description": "The id of a page, as results show it."}


def _tool(name: str, about: str, optional: Sequence[str] = (), **properties: dict[str, Any]) -> dict[str, Any]:
    required = [each for each in properties if each not in optional]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}


TOOLS: tuple[dict[str, Any], ...] = (
    _tool(
        "search",
        "Search all pages. The best passages come back, each with the id of its page and its part.",
        query={"type": "string", "description": "What to search for, in words."},
    ),
    _tool(
        "open",
        "Open one part of a page and read it.",
        optional=("part",),
        page=_PAGE,
        part={"type": "integer", "description": "Which part, from 1. Without it the page opens where it begins."},
    ),
    _tool(
        "find",
        "Find where words stand in a page as given, from the beginning of a word on. If nowhere, the sentences with "
        "most of them, at least half, in other forms, too (died: death); names and numbers have to be there.",
        page=_PAGE,
        text={"type": "string", "description": "The words to find, as few as will do."},
    ),
)
"""The tools as a request to a server offers them."""
TOOLS_JSON = json.dumps(TOOLS, separators=(",", ":"))

_KEYS = {"search": ("query",), "open": ("page", "part"), "find": ("page", "text")}


def call_id(number: int) -> str:
    """Make the id of a call from its number in an episode: nine letters and digits, which every chat template takes."""
    return f"c{number:08d}"


def write_native(turn: BrowseTurn) -> NativeMessage:
    """Return a turn as a message, from which `read_native` reads the same turn."""
    said = turn.said
    if turn.answer is not None:
        said = "\n".join(filter(None, (said, f"<answer>{turn.answer.text}</answer>")))
    calls = tuple(
        ToolCall(id=id, name=call_name(call), arguments=_arguments(call))
        for id, call in zip(turn.call_ids, turn.calls, strict=True)
    )
    return NativeMessage(role="assistant", content=said, reasoning=turn.thought, tool_calls=calls)


def _arguments(call: Call) -> str:
    match call:
        case SearchAction():
            given: dict[str, str | int] = {"query": call.query}
        case OpenAction():
            given = {"page": call.page} | ({"part": call.part} if call.part else {})
        case FindAction():
            given = {"page": call.page, "text": call.text}
        case BadCall():
            return call.written
    return json.dumps(given, ensure_ascii=False)


def read_native(message: NativeMessage, first_id: int = 0) -> BrowseTurn:
    """Parse a message into a turn, repairing small errors. Raises `MalformedReply`, saying what is wrong. `first_id` is
    the number in the episode of the first call, for calls without an id.
    """
    mends: dict[Mend, None] = {}
    thought, said = message.reasoning.strip(), message.content
    if not thought and "</think>" in said:
        before, _, said = said.partition("</think>")
        thought = before.removeprefix("<think>").strip()
        mends["untagged_thought"] = None
    written = message.tool_calls
    if not written and (in_text := contents_of("tool_call", said)):
        written = tuple(_call_in_text(body) for body in in_text)
        said = said.partition("<tool_call>")[0]
        mends["call_in_text"] = None
    if not written:
        return _read_answer(thought, said.strip(), mends)
    calls = tuple(_read_call(each, mends) for each in written)
    ids = _whole_ids(written, first_id, mends)
    return BrowseTurn(thought=thought, said=said.strip(), calls=calls, call_ids=ids, mends=tuple(mends))


def mended_ids(message: NativeMessage, first_id: int) -> NativeMessage:
    """Return the message with an id for every call, to which results refer. Existing ids are kept."""
    ids = _whole_ids(message.tool_calls, first_id, {})
    calls = tuple(
        ToolCall(id=id, name=call.name, arguments=call.arguments)
        for id, call in zip(ids, message.tool_calls, strict=True)
    )
    return NativeMessage(role="assistant", content=message.content, reasoning=message.reasoning, tool_calls=calls)


def _whole_ids(calls: Sequence[ToolCall], first_id: int, mends: dict[Mend, None]) -> tuple[str, ...]:
    taken: dict[str, None] = {}
    for number, call in enumerate(calls, first_id):
        if not call.id or call.id in taken:
            mends["call_id"] = None
        taken[call.id if call.id and call.id not in taken else call_id(number)] = None
    return tuple(taken)


def _read_answer(thought: str, said: str, mends: dict[Mend, None]) -> BrowseTurn:
    found = contents_of("answer", said)
    if not found and said:
        found = [said.removeprefix("<answer>").removesuffix("</answer>").strip()]
        mends["untagged_answer"] = None
    if not found or not found[-1]:
        raise MalformedReply("expected calls of search, open or find, or the answer; found neither")
    before = said.partition("<answer>")[0].strip() if "<answer>" in said else ""
    answer = AnswerAction(text=found[-1], citations=citations_in(thought, said))
    return BrowseTurn(thought=thought, said=before, answer=answer, mends=tuple(mends))


def _call_in_text(body: str) -> ToolCall:
    """A call that the model wrote as text, as it comes from a server without a parser of tool calls."""
    try:
        found = parse_json(body)
        given = found.get("arguments", found.get("parameters"))
        arguments = given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)
        return ToolCall(id="", name=str(found["name"]), arguments=arguments)
    except (ValueError, AttributeError, LookupError):
        return ToolCall(id="", name="", arguments=body)


def _read_call(call: ToolCall, mends: dict[Mend, None]) -> Call:
    name = call.name.strip().rpartition(".")[2].lower()
    if name != call.name and name in _KEYS:
        mends["tool_name"] = None
    if name not in _KEYS:
        return make_call(call.name, call.arguments)
    try:
        given = _read_arguments(call.arguments, mends)
    except MalformedReply as error:
        return BadCall(name=name, written=call.arguments, problem=f"its arguments cannot be read: {error}")
    if set(given) - set(_KEYS[name]):
        mends["unknown_key"] = None
    known: dict[str, str | int] = {}
    for key in _KEYS[name]:
        if (value := _plain_value(key, given.get(key), mends)) is not None:
            known[key] = value
    return make_call(name, call.arguments, **known)


def _read_arguments(text: str, mends: dict[Mend, None]) -> dict[str, Any]:
    try:
        given = parse_json(text or "{}")
    except ValueError:
        given = read_object(text)[0]
        mends["arguments"] = None
    if isinstance(given, str):  # encoded twice
        mends["arguments"] = None
        return _read_arguments(given, mends) if given.lstrip().startswith("{") else {}
    if not isinstance(given, dict):
        raise MalformedReply("expected a JSON object")
    return given


def _plain_value(key: str, value: Any, mends: dict[Mend, None]) -> str | int | None:
    """A text, or the number of a part; None for what is neither."""
    if isinstance(value, list) and len(value) == 1:
        mends["list_for_text"] = None
        value = value[0]
    if key == "part":
        if isinstance(value, str) and value.strip().isdecimal() and len(value) < 10:
            mends["text_for_number"] = None
            return int(value)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        return -1 if value is not None and type(value) is not int else value
    return value if isinstance(value, str) else None
