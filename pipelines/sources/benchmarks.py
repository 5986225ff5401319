"""Questions of benchmarks, which nothing may be trained on: of a row only what it asks is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trailforge.pipelines.sources.rows import InvalidRow, iter_rows
from trailforge.schemas import InvalidInput

_NAMES = ("question", "query", "prompt", "problem", "instruction", "input")


def read_benchmark(path: Path) -> Iterator[str]:
    """The questions of a file: JSON Lines or a JSON list, plain or gzip, in a field `question`, `query`, `prompt` ….

    Raises `InvalidInput` for the first row that has none, since a benchmark that is half read protects nothing.
    """
    for row in iter_rows(path):
        if isinstance(row, InvalidRow):
            raise InvalidInput(row.problem, file=path, row=row.row, field=row.field)
        values = {str(key).casefold(): value for key, value in row.value.items()} if isinstance(row.value, dict) else {}
        question = next((values[name] for name in _NAMES if isinstance(values.get(name), str)), "")
        if not question.strip():
            raise InvalidInput(f"no question; expected a text in {', '.join(_NAMES)}", file=path, row=row.row)
        yield question.strip()
