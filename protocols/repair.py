"""Read the JSON object that a model wrote, repairing its usual errors.

A mend moves brackets, commas and quotes, never words: every text of the result stands in the input. What cannot be
mended so is refused.
"""

from __future__ import annotations

import json
import re
from typing import Literal

from trailforge.schemas import MalformedReply

Repair = Literal[
    "tag_spelling",
    "closing_tag",
    "opening_think",
    "closing_think",
    "untagged_thought",
    "missing_thought",
    "surplus_thought",
    "loose_text",
    "code_fence",
    "surrounding_text",
    "quotes",
    "trailing_comma",
    "missing_bracket",
    "python_literal",
    "number_as_text",
    "control_character",
    "plain_text",
    "key_spelling",
    "unknown_key",
    "missing_key",
    "text_for_list",
    "list_for_text",
    "blank_item",
    "unboxed_answer",
    "unclosed_box",
    "list_marks",
    "joined_lines",
    "wrapped_line",
    "missing_edges",
    "word_for_no_edges",
    "edge_arrow",
    "edge_chain",
    "edge_list",
]
"""Every kind of slip that is mended in an assistant turn.

The first eight concern its tags (`protocols.grammar`), the next eight its JSON (this file), the next what the JSON or
the answer holds (`protocols.kg_search`), the last eight a search plan (`protocols.nl_dag`), which may have a code
fence, too.
"""

Value = str | list[str] | None
"""The value of a key: a text, a list of texts, or nothing. A number is read as its text."""

_FENCE = re.compile(r"```\w* (?:```)?")
_OPENING = "\"'“‘"
_CLOSING = {'"': '"', "'": "'", "“": "”", "‘": "’"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_BARE = re.compile(r"-?\d[\w.+-]*|[A-Za-z]+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
# A quote ends a text only where what follows can follow a text: so apostrophes and quotes inside need no backslash.
# White space is taken possessively: given back piece by piece, a long run of it would take quadratic time.
_AFTER_KEY = re.compile(r"\s*+:")
_AFTER_VALUE = re.compile(rf"\s*+(?:\}}|,\s*+[}}{_OPENING}]|,?\s*+$)")
_AFTER_ITEM = re.compile(rf"\s*+(?:[\]}}]|,\s*+(?:[\]{_OPENING}\d]|null\b|None\b)|,?\s*+$)")


def read_object(text: str) -> tuple[dict[str, Value], list[Repair]]:
    """Read the one JSON object in a text; returns it with the repairs made. Raises `MalformedReply` when not exactly
    one object can be read.
    """
    start = text.find("{")
    if start < 0:
        raise MalformedReply("expected a JSON object, found no `{`")
    found, end, repairs = _strict(text, start) or _Reader(text, start).object()
    before, after = text[:start].strip(), text[end:].strip()
    if "{" in after:
        raise MalformedReply("expected one JSON object, found another after it")
    if before or after:
        repairs.append("code_fence" if _FENCE.fullmatch(f"{before} {after}") else "surrounding_text")
    return {_whole(key): _whole_value(value) for key, value in found.items()}, repairs


def _strict(text: str, start: int) -> tuple[dict[str, Value], int, list[Repair]] | None:
    """The object by the rules of JSON, and where it ends; None when it breaks them or holds what no key may hold."""
    repairs: list[Repair] = []

    def as_text(number: str) -> str:
        repairs[:] = ["number_as_text"]
        return number

    try:
        found, end = json.JSONDecoder(parse_int=as_text, parse_float=as_text).raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return (found, end, repairs) if all(_is_value(value) for value in found.values()) else None


def _is_value(value: object) -> bool:
    return (
        value is None or isinstance(value, str) or (isinstance(value, list) and all(isinstance(v, str) for v in value))
    )


class _Reader:
    """Reads an object of texts and lists of texts from left to right, noting what it mends."""

    def __init__(self, text: str, start: int) -> None:
        """`start` is where the object's `{` stands."""
        self._text, self._at = text, start
        self._repairs: dict[Repair, None] = {}  # as an ordered set

    def object(self) -> tuple[dict[str, Value], int, list[Repair]]:
        """The object, where it ends, and what was mended."""
        found: dict[str, Value] = {}
        self._skip("{")
        while not self._ends("}"):
            key = self._string(_AFTER_KEY)
            self._skip(":")
            found[key] = self._list() if self._peek() == "[" else self._scalar(_AFTER_VALUE)
            self._comma("}")
        return found, self._at, list(self._repairs)

    def _list(self) -> list[str]:
        self._skip("[")
        items: list[str] = []
        while not self._ends("]"):
            item = self._scalar(_AFTER_ITEM)
            if item is None:
                self._repairs["blank_item"] = None
            else:
                items.append(item)
            self._comma("]")
        return items

    def _scalar(self, after: re.Pattern[str]) -> str | None:
        if self._peek() in _CLOSING:
            return self._string(after)
        match = _BARE.match(self._text, self._at)
        if match and _NUMBER.fullmatch(match[0]):
            self._repairs["number_as_text"] = None
        elif not match or match[0] not in ("null", "None"):
            raise self._error("a text in quotes")
        elif match[0] == "None":
            self._repairs["python_literal"] = None
        self._at = match.end()
        return None if match[0] in ("null", "None") else match[0]

    def _string(self, after: re.Pattern[str]) -> str:
        quote = self._peek()
        if quote not in _CLOSING:
            raise self._error("a text in quotes")
        start = at = self._at + 1
        while at < len(self._text):
            if self._text[at] == "\\":
                at += 2
                continue
            if self._text[at] in (quote, _CLOSING[quote]) and after.match(self._text, at + 1):
                return self._content(start, at, quote)
            at += 1
        raise self._error("the end of a text in quotes")

    def _content(self, start: int, end: int, quote: str) -> str:
        raw, self._at = self._text[start:end], end + 1
        if quote != '"' or '"' in _ESCAPE.sub("", raw):
            self._repairs["quotes"] = None
        if any(character < " " for character in raw):
            self._repairs["control_character"] = None
        return _ESCAPE.sub(_unescaped, raw)

    def _peek(self) -> str:
        """The next character that is no white space, and go there; empty at the end."""
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _skip(self, mark: str) -> None:
        if self._peek() != mark:
            raise self._error(f"`{mark}`")
        self._at += 1

    def _ends(self, bracket: str) -> bool:
        """Is the list or object over? Its bracket is passed; where it is missing at the end, it is thought there."""
        found = self._peek()
        if found == bracket:
            self._at += 1
        elif not found or (bracket, found) == ("]", "}"):
            self._repairs["missing_bracket"] = None
        else:
            return False
        return True

    def _comma(self, bracket: str) -> None:
        """Pass a comma, if one stands before the next item."""
        if self._peek() == ",":
            self._at += 1
            if self._peek() in (bracket, "}", ""):
                self._repairs["trailing_comma"] = None
        elif self._peek() not in (bracket, "}", ""):
            raise self._error(f"`,` or `{bracket}`")

    def _error(self, expected: str) -> MalformedReply:
        found = self._text[self._at : self._at + 20]
        return MalformedReply(f"expected {expected} at character {self._at} of the JSON, found {found!r}")


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) == 5:
        return chr(int(code[1:], 16))
    return _ESCAPED.get(code, match[0])  # an escape that does not exist is what it looks like


def _whole(text: str) -> str:
    """Halves of surrogate pairs joined; single ones, which no file takes, replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _whole_value(value: Value) -> Value:
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return value if value is None else _whole(value)
