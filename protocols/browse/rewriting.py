"""Rewrite training rows from tags to native calls or back, or with other names of tools, so that a model does not learn
one spelling.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trailforge.protocols.browse.context import merge_for_tags
from trailforge.protocols.browse.native import TOOLS_JSON, call_id, read_native, write_native
from trailforge.protocols.browse.records import plain_text
from trailforge.protocols.browse.tags import read_tags, write_tags
from trailforge.protocols.browse.writings import writing_of
from trailforge.schemas import (
    ChatMessage,
    MalformedReply,
    NativeConversation,
    NativeMessage,
    SftRow,
    Writing,
    estimate_tokens,
    parse_json,
)

NAMES: tuple[Mapping[str, str], ...] = (
    {"search": "web_search", "open": "open_page", "find": "find_in_page"},
    {"search": "browser_search", "open": "browser_open", "find": "browser_find"},
    {"search": "search", "open": "visit", "find": "grep"},
    {"search": "retrieve", "open": "read", "find": "locate"},
)
"""Other names of the three tools, as agents elsewhere have them."""
_RESULT = re.compile(r"<result>\n(.*?)\n</result>\n?", re.DOTALL)
_NAMED = {"search": "search shows passages", "open": "open shows one part", "find": "find shows where"}
"""Where the rules name each tool."""


def rewrite_row(row: SftRow, writing: Writing) -> SftRow:
    """Return a row written with tags or native calls: the same turns with the same loss.

    The row is returned unchanged where it is written so already, and where it cannot be converted: its rules are worded
    otherwise than ours, or its results cannot be told apart.
    """
    if (row.native is not None) == (writing == "native"):
        return row
    try:
        turns = _to_native(row) if writing == "native" else _to_tags(row)
    except MalformedReply:
        return row
    said = tuple(ChatMessage(role=each.role, content=plain_text(each, writing)) for each in turns)
    flags = iter(flag for message, flag in zip(row.messages, row.train, strict=True) if message.role == "assistant")
    before, after = ([at for at, each in enumerate(them) if each.role == "assistant"] for them in (row.messages, said))
    places = dict(zip(before, after, strict=True))  # what a turn says is the same in both writings
    return replace(
        row,
        messages=said,
        train=tuple(each.role == "assistant" and next(flags) for each in turns),
        spans=tuple(replace(span, message=places[span.message]) for span in row.spans),
        token_estimate=sum(estimate_tokens(each.content) for each in said),
        native=NativeConversation(tools=TOOLS_JSON, messages=tuple(turns)) if writing == "native" else None,
    )


def rename_tools(row: SftRow, names: Mapping[str, str]) -> SftRow:
    """Return a row of native calls with its tools renamed in the rules, the tools and the calls; any other row
    unchanged.
    """
    if row.native is None:
        return row
    tools = parse_json(row.native.tools)
    for tool in tools:
        function = tool["function"]
        function["name"] = names.get(function["name"], function["name"])
    turns = list(row.native.messages)
    for place, message in enumerate(turns):
        if message.role == "system":
            turns[place] = replace(message, content=_renamed_rules(message.content, names))
        elif message.tool_calls:
            calls = (replace(call, name=names.get(call.name, call.name)) for call in message.tool_calls)
            turns[place] = replace(message, tool_calls=tuple(calls))
    written = json.dumps(tools, separators=(",", ":"))
    return replace(row, native=NativeConversation(tools=written, messages=tuple(turns)))


def _renamed_rules(rules: str, names: Mapping[str, str]) -> str:
    for name, place in _NAMED.items():
        rules = rules.replace(place, place.replace(name, names.get(name, name), 1))
    return rules


def _to_tags(row: SftRow) -> list[NativeMessage]:
    assert row.native is not None
    tags = writing_of("tags")
    turns = []
    for message in row.native.messages:
        if message.role == "system":
            message = replace(message, content=_swap_rules(message.content, "native", "tags"))
        elif message.role == "assistant":
            message = NativeMessage(role="assistant", content=_as_tags(message))
        elif message.role == "tool":
            message = tags.result(message.content)
        turns.append(message)
    return merge_for_tags(turns)


def _as_tags(message: NativeMessage) -> str:
    """A turn as tags; what is no turn, as a summary, stays as it is."""
    if not message.tool_calls and "<answer>" not in message.content:
        return message.content
    return write_tags(read_native(message))


def _to_native(row: SftRow) -> list[NativeMessage]:
    turns: list[NativeMessage] = []
    waiting: list[str] = []
    calls = 0
    for message in row.messages:
        if message.role == "system":
            turns.append(NativeMessage(role="system", content=_swap_rules(message.content, "tags", "native")))
        elif message.role == "assistant":
            if waiting:
                raise MalformedReply("a call has no result")
            turn = _as_native(message.content, calls)
            waiting = [call.id for call in turn.tool_calls]
            calls += len(waiting)
            turns.append(turn)
        else:
            turns += _split_results(message.content, waiting)
            waiting = []
    return turns


def _as_native(text: str, first_id: int) -> NativeMessage:
    if not any(f"<{name}>" in text for name in ("search", "open", "find", "answer")):
        return NativeMessage(role="assistant", content=text)
    turn = read_tags(text)
    return write_native(replace(turn, call_ids=tuple(call_id(first_id + n) for n in range(len(turn.calls)))))


def _split_results(content: str, ids: Sequence[str]) -> list[NativeMessage]:
    """The results of a turn that stand in one message, each with its call's id, and what follows them."""
    if not ids:
        return [NativeMessage(role="user", content=content)]
    found, at = [], 0
    for id in ids:
        result = _RESULT.match(content, at)
        if result is None:
            raise MalformedReply("a result cannot be told from the next")
        found.append(NativeMessage(role="tool", content=result[1], tool_call_id=id))
        at = result.end()
    return [*found, *([NativeMessage(role="user", content=content[at:])] if content[at:].strip() else [])]


def _swap_rules(rules: str, old: Writing, new: Writing) -> str:
    """The rules of a writing as those of the other. Raises `MalformedReply` for rules in other words."""
    before, after = writing_of(old), writing_of(new)
    if before.calls not in rules or before.answer not in rules:
        raise MalformedReply("its rules are in other words")
    return rules.replace(before.calls, after.calls).replace(before.answer, after.answer)
