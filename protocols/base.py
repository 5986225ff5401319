"""What all protocols share: the tags, keeping retrieved text from posing as tags, and a length without a tokenizer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from trailforge.schemas import estimate_tokens as estimate_tokens
from trailforge.schemas.text import escape_chat_tokens

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
# White space is taken possessively: given back piece by piece, long runs of it would take quadratic time.
_SPACED_TAG = r"\s*+(/?)\s*+({})\s*+/?\s*+>"
_TAG_START = re.compile(rf"<(?={_SPACED_TAG.format(_NAMES)}|\|[^<>|\s]++\|>)", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def escape_retrieved(text: str) -> str:
    """Make retrieved text harmless: it must not be able to end a tool turn or to speak for the agent.

    The `<` of a protocol's tag (any case, spaces allowed) becomes `&lt;`, and so does the first character of what is a
    special token in a chat template, of whatever model (`<|im_end|>`, `</s>`; `[INST]` becomes `&#91;INST]`);
    everything else stays. Control characters but newline and tab, and lone surrogates, are removed first, so that none
    can hide a tag. Applying it twice changes nothing.
    """
    return escape_chat_tokens(_TAG_START.sub("&lt;", _CONTROL.sub("", text)))


def unescape(text: str) -> str:
    """The reverse of `escape_retrieved`, as far as it can be reversed."""
    return text.replace("&lt;", "<").replace("&#91;", "[")


def one_line(text: str) -> str:
    """Retrieved text made harmless, as one line: it cannot pose as a heading of the tool's own either."""
    return " ".join(escape_retrieved(text).split())


@cache
def tag_pattern(names: Sequence[str] = TAGS) -> re.Pattern[str]:
    """Finds the tags of these names, in any case and with spaces; groups: the slash of a closing tag, the name."""
    return re.compile("<" + _SPACED_TAG.format("|".join(names)), re.IGNORECASE)


def contents_of(name: str, text: str) -> list[str]:
    """What stands between each plain `<name>` and the next `</name>`, trimmed, in order."""
    opening, closing = f"<{name}>", f"</{name}>"
    found: list[str] = []
    at = text.find(opening)
    while at >= 0 and (end := text.find(closing, at)) >= 0:
        found.append(text[at + len(opening) : end].strip())
        at = text.find(opening, end)
    return found


def tags_in(text: str) -> list[str]:
    """The protocol tags of a text in order, in plain form: `["<think>", "</think>"]`."""
    return [f"<{slash}{name.lower()}>" for slash, name in tag_pattern().findall(text)]
