"""A JSON object read field by field, each by the type that it has to have. What is wrong raises `InvalidInput`."""

from __future__ import annotations

import email.utils
import re
from datetime import date, datetime
from typing import Any

from trailforge.schemas import InvalidInput

_JSON_NAMES = {
    bool: "true or false",
    dict: "an object",
    float: "a number",
    int: "a whole number",
    list: "a list",
    str: "a text",
    type(None): "null",
}


class Fields:
    """The fields of a JSON object. `values`: the object itself. `path`: where it stands in its row, for messages."""

    def __init__(self, value: Any, path: str = "") -> None:
        self.values: dict[str, Any] = expect(value, dict, path)
        self._path = path

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def name(self, name: str) -> str:
        """The full name of a field, as `question_decomposition[1].answer`."""
        return f"{self._path}.{name}" if self._path else name

    def text(self, name: str) -> str:
        """A text, white space around it trimmed; may be empty."""
        return expect(self.value(name), str, self.name(name)).strip()

    def text_or_empty(self, name: str) -> str:
        """A text, trimmed; empty when the field is null or missing."""
        return "" if self.values.get(name) is None else self.text(name)

    def filled_text(self, name: str) -> str:
        """A text that says something, white space around it trimmed."""
        text = self.text(name)
        if not text:
            raise InvalidInput("empty", field=self.name(name))
        return text

    def integer(self, name: str) -> int:
        """A whole number."""
        return expect(self.value(name), int, self.name(name))

    def integer_or_none(self, name: str) -> int | None:
        """A whole number; None when the field is null or missing."""
        return None if self.values.get(name) is None else self.integer(name)

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        return expect(self.values.get(name, default), bool, self.name(name))

    def texts(self, name: str) -> list[str]:
        """A list of texts, trimmed; empty when the field is missing."""
        values = self.items(name) if name in self else []
        return [expect(value, str, f"{self.name(name)}[{i}]").strip() for i, value in enumerate(values)]

    def objects(self, name: str) -> list[Fields]:
        """A list of objects."""
        return [Fields(value, f"{self.name(name)}[{i}]") for i, value in enumerate(self.items(name))]

    def items(self, name: str) -> list[Any]:
        """A list of anything."""
        return expect(self.value(name), list, self.name(name))

    def value(self, name: str) -> Any:
        """Anything, but not missing."""
        if name not in self.values:
            raise InvalidInput("missing", field=self.name(name))
        return self.values[name]


def expect(value: Any, kind: type, name: str) -> Any:
    """The value, when it is exactly of that JSON type. Raises `InvalidInput` naming the field otherwise."""
    if type(value) is not kind:
        found, wanted = _JSON_NAMES.get(type(value), type(value).__name__), _JSON_NAMES[kind]
        raise InvalidInput(f"expected {wanted}, found {found}", field=name or None)
    return value


_BEGINS_AS_ISO = re.compile(r"\d{4}-?(?:\d\d|W\d\d)")


def iso_date(text: str, field: str) -> str:
    """The day of an ISO 8601 date or time, or of an e-mail date as in RSS, where it was written (no change of zone).

    Raises `InvalidInput` naming the field. A year or month alone is refused, and so is 31/05/2024: some read it 5 May.
    """
    text = text.strip()
    try:
        if _BEGINS_AS_ISO.match(text):
            return (date.fromisoformat(text) if len(text) <= 10 else datetime.fromisoformat(text).date()).isoformat()
        return email.utils.parsedate_to_datetime(text).date().isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        raise InvalidInput(f"expected a date as 2024-05-31, found {text[:40]!r}", field=field) from None
