"""A JSON object read field by field, each by the type that it has to have.

What is wrong with a field that is needed raises `InvalidInput`. One that is not needed is missing where it is null,
not there or a text such as `nan`; where it is of another form, it is left aside, and that is noted.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from trailforge.rows.json_rows import parsed
from trailforge.schemas import InvalidInput
from trailforge.schemas.errors import NOTICE

V = TypeVar("V")
_INTEGER = re.compile(r"[+-]?\d{1,15}(?:\.0*)?")
_EXACT = 1 << 53
"""Whole numbers up to which a float holds each."""
_JSON_NAMES = {
    bool: "true or false",
    dict: "an object",
    float: "a number",
    int: "a whole number",
    list: "a list",
    str: "a text",
    type(None): "null",
}


_MISSING = frozenset(
    {
        *("", "nan", "NaN", "-nan", "-NaN", "NaT", "None", "null", "NULL", "Null", "N/A", "n/a", "<NA>", "#N/A"),
        *("NA", "#NA", "undefined", "\\N"),
    }
)
"""What tables hold for a value that is not there, as pandas, spreadsheets and databases write it."""
_LOG = logging.getLogger(__name__)
_SHOWN = 40
"""Names of fields that a warning holds, and characters of each."""
_POSITION = re.compile(r"\[\d+\]")


def is_missing(value: Any) -> bool:
    """Whether a value says that there is none: null, no number, or a text such as `nan`, `N/A` or nothing."""
    if isinstance(value, str):
        return value.strip() in _MISSING
    return value is None or (isinstance(value, float) and math.isnan(value))


class Asides:
    """What was left aside of a file's rows, and why; each said once, as a warning of the log."""

    def __init__(self, path: Path) -> None:
        self._path, self._said = path, set[tuple[str, str]]()

    def say(self, found: list[tuple[str, str]]) -> None:
        """Fields with what is the matter with each, wherever in a list they stand."""
        fresh: dict[str, list[str]] = {}
        for name, problem in found:
            field = _POSITION.sub("[]", name)
            if (field, problem) not in self._said:
                self._said.add((field, problem))
                fresh.setdefault(problem, []).append(field)
        for problem, names in fresh.items():
            shown = ", ".join(repr(name[:_SHOWN]) for name in names[:_SHOWN])
            _LOG.log(NOTICE, "%s, %s: %s", self._path, f"field{'s' if len(names) > 1 else ''} {shown}", problem)


class Fields:
    """The fields of a JSON object. `values`: the object itself. `path`: where it stands in its row, for messages.
    `asides`: fields that were left aside, and why; shared with the objects in it."""

    def __init__(self, value: Any, path: str = "", asides: list[tuple[str, str]] | None = None) -> None:
        self.values: dict[str, Any] = expect(parsed(value) if isinstance(value, str) else value, dict, path)
        self._path = path
        self.asides = [] if asides is None else asides

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def name(self, name: str) -> str:
        """The full name of a field, as `question_decomposition[1].answer`."""
        return f"{self._path}.{name}" if self._path else name

    def has(self, name: str) -> bool:
        """Whether a field that is not needed has a value (`is_missing`)."""
        return not is_missing(self.values.get(name))

    def text(self, name: str) -> str:
        """A text, white space around it trimmed; may be empty. A number is one, too."""
        value = self.value(name)
        if isinstance(value, dict) and (inner := [other for other in self.values if other.startswith(f"{name}.")]):
            problem = f"expected a text, found an object; name a field of it: {', '.join(inner[:_SHOWN])}"
            raise InvalidInput(problem, field=self.name(name))
        return as_text(value, self.name(name))

    def text_or_empty(self, name: str) -> str:
        """A text that is not needed, trimmed; empty when it is missing or of another form."""
        return self._lenient(self.text, name, "") if self.has(name) else ""

    def filled_text(self, name: str) -> str:
        """A text that says something, white space around it trimmed."""
        text = self.text(name)
        if not text:
            raise InvalidInput("empty", field=self.name(name))
        return text

    def integer(self, name: str) -> int:
        """A whole number, or the text of one."""
        value = self.value(name)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
            return int(float(value))
        return expect(value, int, self.name(name))

    def integer_or_none(self, name: str) -> int | None:
        """A whole number that is not needed; None when it is missing or of another form."""
        return self._lenient(self.integer, name, None) if self.has(name) else None

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false; the default when it is missing."""
        return expect(self.values[name], bool, self.name(name)) if self.has(name) else default

    def texts(self, name: str) -> list[str]:
        """A list of texts, trimmed, without what is null in it; empty when the field is null or missing."""
        values = self.items(name) if name in self else []
        named = ((value, f"{self.name(name)}[{i}]") for i, value in enumerate(values))
        return [as_text(value, at) for value, at in named if isinstance(value, str) or not is_missing(value)]

    def objects(self, name: str) -> list[Fields]:
        """A list of objects."""
        return [Fields(value, f"{self.name(name)}[{i}]", self.asides) for i, value in enumerate(self.items(name))]

    def items(self, name: str) -> list[Any]:
        """A list of anything, which may be the text of one; empty when it is null."""
        value = self.value(name)
        value = parsed(value) if isinstance(value, str) else value
        return [] if is_missing(value) else expect(value, list, self.name(name))

    def value(self, name: str) -> Any:
        """Anything, but not missing."""
        if name not in self.values:
            raise InvalidInput("missing", field=self.name(name))
        return self.values[name]

    def leave_unused(self, name: str) -> None:
        """Note that nothing reads a field."""
        self.asides.append((self.name(name), "not used"))

    def leave(self, error: InvalidInput) -> None:
        """Note that a field is left aside."""
        self.asides.append((error.field or "", f"{error.problem}; left aside"))

    def _lenient(self, read: Callable[[str], V], name: str, otherwise: V) -> V:
        try:
            return read(name)
        except InvalidInput as error:
            self.leave(error)
            return otherwise


def as_text(value: Any, name: str) -> str:
    """A text, trimmed, or a number as one: 1969 of 1969.0, as tables with gaps write it. Raises `InvalidInput`."""
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() and abs(value) < _EXACT else repr(value)
    return str(value) if type(value) is int else expect(value, str, name).strip()


def expect(value: Any, kind: type, name: str) -> Any:
    """The value, when it is exactly of that JSON type. Raises `InvalidInput` naming the field otherwise."""
    if type(value) is not kind:
        found, wanted = _JSON_NAMES.get(type(value), type(value).__name__), _JSON_NAMES[kind]
        raise InvalidInput(f"expected {wanted}, found {found}", field=name or None)
    return value


_LONGEST_TITLE = 200
"""Characters; a longer line without quotes is a text's first one."""


def split_contents(contents: str) -> tuple[str, str]:
    """Title and text of a passage in one text, as corpora for Pyserini and FlashRAG have it in `contents`: the title on
    the first line, in quotes or not. One line alone is the text."""
    title, line_break, text = contents.partition("\n")
    title = title.strip()
    if len(title) > 1 and title[0] == title[-1] == '"' and line_break:
        return title[1:-1], text
    return ("", contents) if not line_break or len(title) > _LONGEST_TITLE else (title, text)


_NAMES = ("name", "title", "rendered", "main", "original")
"""Of an object that stands for its name, as the source of an article does: the key with the name."""


def flattened(values: Mapping[str, Any]) -> dict[str, Any]:
    """An object whose objects are replaced by their names, where they have one; what they hold has dotted keys beside.

    `{"source": {"id": "w", "name": "Wire"}}` has `source` Wire, `source.id` and `source.name`.
    """
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat[name] = [_name_of(each) for each in value] if isinstance(value, list) else _name_of(value)
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": _name_of(inner) for key, inner in value.items()}
    return flat


def _name_of(value: Any) -> Any:
    named = (value[key] for key in _NAMES if isinstance(value.get(key), str)) if isinstance(value, dict) else ()
    return next(iter(named), value)
