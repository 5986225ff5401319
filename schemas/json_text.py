"""JSON that others wrote: values, or one kind of error."""

from __future__ import annotations

import json
from typing import Any

MOST_DEEP = 100
"""Levels of lists and objects. Nothing of ours has ten; what follows a value down must not run out of stack."""


def parse_json(text: str | bytes) -> Any:
    """Read a value. Raises `ValueError` for what is no JSON, no UTF-8, or nested deeper than `MOST_DEEP`."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    opened = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    if opened > MOST_DEEP:
        refuse_deep(value)
    return value


def refuse_deep(value: Any) -> None:
    """Raise `ValueError` for a value of JSON that is nested deeper than `MOST_DEEP`."""
    if _is_deeper(value, MOST_DEEP):
        raise ValueError(f"it is nested more than {MOST_DEEP} levels deep")


def _is_deeper(value: Any, levels: int) -> bool:
    level = [value]
    for _ in range(levels + 1):
        level = [inner for outer in level for inner in _inner(outer)]
        if not level:
            return False
    return True


def _inner(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
