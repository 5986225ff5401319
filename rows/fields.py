"""Read the fields of a JSON object, each with the type that it must have.

A required field that is wrong raises `InvalidInput`. An optional field counts as missing where it is null, absent or a
text such as `nan`; where it has another type, it is ignored, and that is noted.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from trailforge.rows.json_rows import parsed
from trailforge.schemas import NOTICE, InvalidInput

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
    """Tell whether a value stands for a missing one: null, not-a-number, or a text such as `nan`, `N/A` or an empty
    one."""
    if isinstance(value, str):
        return value.strip() in _MISSING
    return value is None or (isinstance(value, float) and math.isnan(value))


class Asides:
    """The ignored fields of a file's rows, with the reasons; each is logged once as a warning."""

    def __init__(self, path: Path) -> None:
        self._path, self._said = path, set[tuple[str, str]]()

    def say(self, found: list[tuple[str, str]]) -> None:
        """Log fields with what is wrong, once for each field, whatever its position in a list."""
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
    """The fields of a JSON object (`values`), with typed access.

    `path` is the object's place in its row, for messages. `asides` collects fields that were ignored, with the reasons,
    and is shared with the objects in it.
    """

    def __init__(self, value: Any, path: str = "", asides: list[tuple[str, str]] | None = None) -> None:
        self.values: dict[str, Any] = expect(parsed(value) if isinstance(value, str) else value, dict, path)
        self._path = path
        self.asides = [] if asides is None else asides

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def name(self, name: str) -> str:
        """Return the full name of a field, such as `question_decomposition[1].answer`."""
        return f"{self._path}.{name}" if self._path else name

    def has(self, name: str) -> bool:
        """Tell whether an optional field has a value (see `is_missing`)."""
        return not is_missing(self.values.get(name))

    def text(self, name: str) -> str:
        """Return a text without surrounding white space; it may be empty. A number is read as a text, too."""
        value = self.value(name)
        if isinstance(value, dict) and (inner := [other for other in self.values if other.startswith(f"{name}.")]):
            problem = f"expected a text, found an object; name a field of it: {', '.join(inner[:_SHOWN])}"
            raise InvalidInput(problem, field=self.name(name))
        return as_text(value, self.name(name))

    def text_or_empty(self, name: str) -> str:
        """Return an optional text, trimmed; empty when it is missing or of another type."""
        return self._lenient(self.text, name, "") if self.has(name) else ""

    def filled_text(self, name: str) -> str:
        """Return a text that is not empty, without surrounding white space."""
        text = self.text(name)
        if not text:
            raise InvalidInput("is empty; a text is needed", field=self.name(name))
        return text

    def integer(self, name: str) -> int:
        """Return a whole number, which may be written as a text."""
        value = self.value(name)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
            return int(float(value))
        return expect(value, int, self.name(name))

    def integer_or_none(self, name: str) -> int | None:
        """Return an optional whole number; None when it is missing or of another type."""
        return self._lenient(self.integer, name, None) if self.has(name) else None

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false; the default when the field is missing."""
        return expect(self.values[name], bool, self.name(name)) if self.has(name) else default

    def texts(self, name: str) -> list[str]:
        """Return a list of texts, trimmed, without nulls; empty when the field is null or missing."""
        values = self.items(name) if name in self else []
        named = ((value, f"{self.name(name)}[{i}]") for i, value in enumerate(values))
        return [as_text(value, at) for value, at in named if isinstance(value, str) or not is_missing(value)]

    def objects(self, name: str) -> list[Fields]:
        """Return a list of objects, each as `Fields`."""
        return [Fields(value, f"{self.name(name)}[{i}]", self.asides) for i, value in enumerate(self.items(name))]

    def items(self, name: str) -> list[Any]:
        """Return a list of values of any type, which may be written as a text; empty when it is null."""
        value = self.value(name)
        value = parsed(value) if isinstance(value, str) else value
        return [] if is_missing(value) else expect(value, list, self.name(name))

    def value(self, name: str) -> Any:
        """Return a value of any type that is not missing."""
        if name not in self.values:
            raise InvalidInput("missing", field=self.name(name))
        return self.values[name]

    def leave_unused(self, name: str) -> None:
        """Record that a field is not used."""
        self.asides.append((self.name(name), "not used"))

    def leave(self, error: InvalidInput) -> None:
        """Record that a field is ignored because of this error."""
        self.asides.append((error.field or "", f"{error.problem}; left aside"))

    def _lenient(self, read: Callable[[str], V], name: str, otherwise: V) -> V:
        try:
            return read(name)
        except InvalidInput as error:
            self.leave(error)
            return otherwise


def as_text(value: Any, name: str) -> str:
    """Return a text, trimmed, or a number as text: 1969 for 1969.0, as tables with gaps write it. Raises
    `InvalidInput`."""
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() and abs(value) < _EXACT else repr(value)
    return str(value) if type(value) is int else expect(value, str, name).strip()


def expect(value: Any, kind: type, name: str) -> Any:
    """Return the value if it is exactly of that JSON type. Raises `InvalidInput` naming the field otherwise."""
    if type(value) is not kind:
        found, wanted = _JSON_NAMES.get(type(value), type(value).__name__), _JSON_NAMES[kind]
        raise InvalidInput(f"expected {wanted}, found {found}", field=name or None)
    return value


_LONGEST_TITLE = 200
"""Characters; a longer line without quotes is a text's first one."""


def split_contents(contents: str) -> tuple[str, str]:
    """Split a passage into title and text, as corpora for Pyserini and FlashRAG hold both in `contents`: the title is
    on the first line, in quotes or not. A single line is the text."""
    title, line_break, text = contents.partition("\n")
    title = title.strip()
    if len(title) > 1 and title[0] == title[-1] == '"' and line_break:
        return title[1:-1], text
    return ("", contents) if not line_break or len(title) > _LONGEST_TITLE else (title, text)


_NAMES = ("name", "title", "rendered", "main", "original")
"""Of an object that stands for its name, as the source of an article does: the key with the name."""


def flattened(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace nested objects by their names, where they have one, and add their fields under dotted keys.

    `{"source": {"id": "w", "name": "Wire"}}` becomes `source` Wire, `source.id` and `source.name`.
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
