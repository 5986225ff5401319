"""What all protocols share: the tags, keeping retrieved text from posing as tags, and a length without a tokenizer."""

from __future__ import annotations

import re

TAGS = (
    "think",
    "search",
    "tool_response",
    "tool_call",
    "result",
    "information",
    "query",
    "knowledge",
    "answer",
)
"""Names of the tags of every protocol, ours and those of the agents that we read."""

_NAMES = "|".join(TAGS)
_TAG = re.compile(rf"<\s*(/?)\s*({_NAMES})\s*/?\s*>", re.IGNORECASE)
_TAG_START = re.compile(rf"<(?=\s*/?\s*(?:{_NAMES})\s*/?\s*>|\|[^<>|\s]+\|>)", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_TOKEN = re.compile(r"[A-Za-z0-9]{1,4}|[^\sA-Za-z0-9]")


def estimate_tokens(text: str) -> int:
    """Length in tokens without a tokenizer, made to err on the long side.

    Every started four ASCII letters or digits of a word are one token, and so is every other character but white
    space. On English Wikipedia text that is about 1.4 times a WordPiece count.
    """
    return sum(1 for _ in _TOKEN.finditer(text))


def escape_retrieved(text: str) -> str:
    """Make retrieved text harmless: it must not be able to end a tool turn or to speak for the agent.

    The `<` of a protocol's tag (any case, spaces allowed) and of a chat template's `<|token|>` becomes `&lt;`;
    everything else stays. Control characters but newline and tab, and lone surrogates, are removed first, so that
    none can hide a tag. Applying it twice changes nothing.
    """
    return _TAG_START.sub("&lt;", _CONTROL.sub("", text))


def one_line(text: str) -> str:
    """Retrieved text made harmless, as one line: it cannot pose as a heading of the tool's own either."""
    return " ".join(escape_retrieved(text).split())


def tags_in(text: str) -> list[str]:
    """The protocol tags of a text in order, in plain form: `["<think>", "</think>"]`."""
    return [f"<{slash}{name.lower()}>" for slash, name in _TAG.findall(text)]
