"""Questions that must not be trained on: those of named benchmark files, by shared word n-grams."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from trailforge.schemas import InvalidInput, parse_json
from trailforge.schemas.files import json_lines, open_unpacked, read_limited

_HEAD = 4096
_WORD = re.compile(r"\w+")
_FIELDS = ("question", "query", "prompt", "problem", "instruction", "input")


class Benchmarks:
    """The n-grams of all benchmark questions."""

    def __init__(self, questions: Iterable[tuple[str, str]], n: int) -> None:
        """`questions`: name of the benchmark and question."""
        self._n = n
        self._found: dict[str, tuple[str, str]] = {}
        for name, question in questions:
            for ngram in ngrams_of(question, n):
                self._found.setdefault(ngram, (name, question))

    def asking(self, question: str) -> str | None:
        """Who asks this too, as a line for a person; None when nobody does."""
        for ngram in sorted(ngrams_of(question, self._n)):
            if ngram in self._found:
                name, other = self._found[ngram]
                return f"{name} asks {other!r}"
        return None


def ngrams_of(text: str, n: int) -> set[str]:
    """Runs of n words, case-folded; a shorter text is one run."""
    words = _WORD.findall(text.casefold())
    return {" ".join(words[at : at + n]) for at in range(max(1, len(words) - n + 1))} if words else set()


def read_benchmarks(paths: Iterable[str], n: int) -> Benchmarks:
    """From files of JSON Lines or a JSON list, plain or gzip, whose rows hold a field `question`, `query`, `prompt` ….

    Raises `InvalidInput` for the first row that has none, since a benchmark that is half read protects nothing.
    """
    files = [Path(path) for path in paths]
    return Benchmarks(((path.name.partition(".")[0], question) for path in files for question in _questions(path)), n)


def _questions(path: Path) -> Iterator[str]:
    number = 0
    for number, row in enumerate(_rows(path), start=1):
        fields = {str(key).casefold(): value for key, value in row.items()} if isinstance(row, dict) else {}
        question = next((fields[name] for name in _FIELDS if isinstance(fields.get(name), str)), "")
        if not question.strip():
            raise InvalidInput(f"no question; expected a text in {', '.join(_FIELDS)}", file=path, row=number)
        yield question
    if not number:
        raise InvalidInput("holds no questions", file=path)


def _rows(path: Path) -> Iterator[object]:
    try:
        with open_unpacked(path) as file:
            is_list = file.peek(_HEAD)[:_HEAD].removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")
            content = read_limited(file, path).decode("utf-8-sig") if is_list else ""
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot be read ({error})", file=path) from error
    if not is_list:
        yield from (row for _, row in json_lines(path))
        return
    try:
        yield from parse_json(content)
    except ValueError as error:
        raise InvalidInput(f"not valid JSON ({error})", file=path) from error
