"""What all protocols share: their tags, the escaping of retrieved text, and passages as lines of a result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from trailforge.schemas import Passage, escape_chat_tokens, remove_invisible, unescape_markers
from trailforge.schemas import estimate_tokens as estimate_tokens

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

READ_FIRST = (
    "Your reasoning and your searches name only what the question or a result has named: look up what you believe you "
    "remember before you say it, too. A result counts for what it is about: the country of one film says nothing of "
    "another one's, or its director's. Each link has to be found, and of two things that are compared each: where "
    "somebody lived is not where they died."
)
"""The rule for agents that are trained on what they read: they may name nothing that they have not read.
`filters.guesses` and readings of the answers check it.
"""
NOTHING_FOUND = "Nothing was found."

_NAMES = "|".join(TAGS)
# White space is taken possessively: given back piece by piece, long runs of it would take quadratic time.
_SPACED_TAG = r"\s*+(/?)\s*+({})\s*+/?\s*+>"
_TAG_START = re.compile(rf"<(?={_SPACED_TAG.format(_NAMES)})", re.IGNORECASE)
_PASSAGE_LINE = re.compile(r"\d+\. \(")


def escape_retrieved(text: str) -> str:
    """Escape retrieved text, so that it can neither end a tool turn nor pose as the agent.

    The `<` of a protocol's tag (any case, spaces allowed) becomes `&lt;`, and so does the first character of what is a
    special token in any model's chat template (`<|im_end|>`, `</s>`; `[INST]` becomes `&#91;INST]`); everything else
    stays. Invisible characters are removed first (`remove_invisible`), so that none can hide a tag, or words. Applying
    it twice changes nothing.
    """
    return escape_chat_tokens(_TAG_START.sub("&lt;", remove_invisible(text)[0]))


def unescape(text: str) -> str:
    """Reverse `escape_retrieved`, as far as that is possible."""
    return unescape_markers(text)


def one_line(text: str) -> str:
    """Escape retrieved text and put it on one line, so that it can pose neither as the agent nor as a heading of the
    tool's own.
    """
    return " ".join(escape_retrieved(text).split())


@cache
def tag_pattern(names: Sequence[str] = TAGS) -> re.Pattern[str]:
    """Return the pattern that finds the tags of these names, in any case and with spaces. Its groups are the slash of a
    closing tag, and the name.
    """
    return re.compile("<" + _SPACED_TAG.format("|".join(names)), re.IGNORECASE)


def contents_of(name: str, text: str) -> list[str]:
    """Return the text between each plain `<name>` and the next `</name>`, trimmed, in order."""
    opening, closing = f"<{name}>", f"</{name}>"
    found: list[str] = []
    at = text.find(opening)
    while at >= 0 and (end := text.find(closing, at)) >= 0:
        found.append(text[at + len(opening) : end].strip())
        at = text.find(opening, end)
    return found


def tags_in(text: str) -> list[str]:
    """Return the protocol tags of a text in order, in plain form: `["<think>", "</think>"]`."""
    return list(_tags_in(text))


@lru_cache(64)  # of an episode's turns, each of which is asked about again and again
def _tags_in(text: str) -> tuple[str, ...]:
    return tuple(f"<{slash}{name.lower()}>" for slash, name in tag_pattern().findall(text))


def passage_lines(passages: Sequence[Passage]) -> list[str]:
    """Write one line, `1. (Title) text`, for each passage."""
    return [f"{n}. ({one_line(p.title)}) {one_line(p.text)}" for n, p in enumerate(passages, start=1)]


def passages_of_result(result: str) -> list[tuple[str, str]]:
    """Read back the title and text of each passage that `passage_lines` wrote into a result."""
    return passages_of_lines(result, _PASSAGE_LINE)


def passages_of_lines(result: str, start: re.Pattern[str]) -> list[tuple[str, str]]:
    """Read titles and texts from a result whose lines begin with `start`, then hold the title, `)` and the text.

    Brackets in a title have to match. Texts come back as the agent read them: white space is collapsed, and tags are
    plain again.
    """
    rests = (line[match.end() :] for line in result.split("\n") if (match := start.match(line)))
    parted = ((rest, _closing_bracket(rest)) for rest in rests)
    return [(unescape(rest[:end]), unescape(rest[end + 1 :].strip())) for rest, end in parted]


def _closing_bracket(text: str) -> int:
    """Where the bracket stands that was opened before the text; the text's end without one."""
    depth = 1
    for match in re.finditer(r"[()]", text):
        depth += 1 if match[0] == "(" else -1
        if not depth:
            return match.start()
    return len(text)
