"""Which format a file has, and its rows as questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.sources import musique, own_jsonl, titled_context
from pipelines.sources.rows import InvalidRow, RawRow, read_rows
from schemas import InvalidInput, Question


class Format(NamedTuple):
    """A format of question files."""

    recognises: Callable[[dict[str, Any]], bool]
    parse: Callable[[dict[str, Any]], Question]


FORMATS: dict[str, Format] = {
    "musique": Format(musique.recognises, musique.parse),
    "2wikimultihopqa": Format(titled_context.recognises_twowiki, titled_context.parse_twowiki),
    "hotpotqa": Format(titled_context.recognises_hotpotqa, titled_context.parse_hotpotqa),
    "trailforge": Format(own_jsonl.recognises, own_jsonl.parse),
}
"""In the order in which they are tried; the first row that is an object decides for the file."""


def read_questions(path: Path) -> Iterator[Question | InvalidRow]:
    """Stream a file's questions, with an `InvalidRow` for each row that is none.

    Raises `InvalidInput` when the file itself is missing, unreadable or damaged.
    """
    chosen: Format | None = None
    seen: set[str] = set()
    for raw in read_rows(path):
        if chosen is None and isinstance(raw.content, dict):
            chosen = next((f for f in FORMATS.values() if f.recognises(raw.content)), None)
        try:
            question = _question(raw, chosen)
            if question.id in seen:
                raise InvalidInput(f"{question.id!r} has been used by an earlier row", field="id")
            seen.add(question.id)
            yield question
        except InvalidInput as error:
            yield InvalidRow(
                file=str(path), row=raw.number, field=error.field, problem=error.problem, payload=raw.text
            )


def _question(raw: RawRow, chosen: Format | None) -> Question:
    if raw.problem is not None:
        raise InvalidInput(raw.problem)
    if not isinstance(raw.content, dict):
        raise InvalidInput("not a JSON object")
    if chosen is None:
        raise InvalidInput(f"of no known format ({', '.join(FORMATS)})")
    return chosen.parse(raw.content)
