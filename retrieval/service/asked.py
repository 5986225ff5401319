"""What a request asks, read and checked: whoever asks wrongly learns the field."""

from __future__ import annotations

from typing import Any

from trailforge.retrieval.web.http import text_field
from trailforge.schemas import InvalidInput, parse_json

LONGEST_TEXT = 1 << 15
"""Characters of a query, a title or a mention."""
MOST_K = 1000


class Asked:
    """The object in a request's body."""

    def __init__(self, body: bytes) -> None:
        """Raises `InvalidInput` for what is no JSON object, as do all methods for a field of another kind."""
        try:
            fields = parse_json(body)
        except ValueError as error:
            raise InvalidInput(f"the body is no JSON ({error})") from None
        if not isinstance(fields, dict):
            raise InvalidInput("the body is no JSON object")
        self._fields: dict[str, Any] = fields

    def text(self, name: str, default: str | None = None) -> str:
        """A text; the default where it is missing or null."""
        value = self._fields.get(name)
        if value is None and default is not None:
            return default
        return _text(value, name)

    def texts(self, name: str, most: int, *, is_needed: bool = True) -> list[str]:
        """A list of texts."""
        value = self._fields.get(name)
        if value is None and not is_needed:
            return []
        if not isinstance(value, list):
            raise InvalidInput("has to be a list of texts", field=name)
        if len(value) > most:
            raise InvalidInput(f"{len(value)} of them; at most {most} in a request", field=name)
        return [_text(each, name) for each in value]

    def number(self, name: str, default: int, most: int) -> int:
        """A whole number from 1 on; the default where it is missing, null or 0."""
        value = self._fields.get(name) or default
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise InvalidInput(f"has to be a whole number from 1 to {most}", field=name)
        return value

    def flag(self, name: str) -> bool:
        """Whether it is true; false where it is missing or null."""
        value = self._fields.get(name)
        if value not in (None, True, False) or (isinstance(value, int | float) and not isinstance(value, bool)):
            raise InvalidInput("has to be true or false", field=name)
        return bool(value)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput("has to be text", field=name)
    if len(value) > LONGEST_TEXT:
        raise InvalidInput(f"{len(value)} characters; at most {LONGEST_TEXT}", field=name)
    return text_field(value)
