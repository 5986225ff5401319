"""What all protocols share: the tags, keeping retrieved text from posing as tags, and a length without a tokenizer."""

from __future__ import annotations

import re

from schemas import estimate_tokens as estimate_tokens

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
