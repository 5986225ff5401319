"""Words of several scripts: how long they take, and how often BM25 by them finds the right passage first.

Against `\\w+` of the case-folded text, which knows no marks, normal forms or scripts without spaces. The passages and
queries are the tests' (20 of each list); times are of CPU for 600 characters, the best of five rounds.

    make bench B=words
"""

from __future__ import annotations

import argparse
import asyncio
import re
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import trailforge
from trailforge.retrieval.backends import bm25
from trailforge.retrieval.words import words_of
from trailforge.schemas import Document

_LISTS = Path(trailforge.__file__).parent.parent / "tests" / "retrieval" / "scripts"
_FORMS: tuple[Literal["NFC"], Literal["NFD"]] = ("NFC", "NFD")
_LENGTH, _ROUNDS = 600, 5
_ENGLISH = "The quick brown fox jumps over the lazy dog near the river, and nobody knows why. "


def _plain_words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _microseconds(split: Callable[[str], list[str]], text: str, times: int) -> float:
    """A text's, the best of some rounds."""
    rounds: list[float] = []
    for _ in range(_ROUNDS):
        begun = time.process_time()
        for _ in range(times):
            split(text)
        rounds.append(time.process_time() - begun)
    return min(rounds) / times * 1e6


def _right_first(split: Callable[[str], list[str]], rows: list[list[str]], form: Literal["NFC", "NFD"]) -> int:
    """Queries whose passage comes first, of passages in a normal form."""
    bm25.words_of = split
    texts = [unicodedata.normalize(form, passage) for passage, _ in rows]
    retriever = bm25.Bm25Retriever([Document(id=str(row), title="", text=text) for row, text in enumerate(texts)])
    found = [asyncio.run(retriever.retrieve(query, 1)) for _, query in rows]
    return sum([passage.id for passage in each] == [str(row)] for row, each in enumerate(found))


def main() -> None:
    """Split and search the passages of each script, and print a table of the time and of right first passages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=400, help="that a text is split in each round")
    options = parser.parse_args()
    print("| | right first, NFC / NFD | by `\\w+` | µs | by `\\w+` |\n|---|---:|---:|---:|---:|")
    texts = {"English": _ENGLISH, "English with – and é": f"{_ENGLISH[:60]} – café"}
    lists = {
        path.stem: [line.split("\t") for line in path.read_text("utf-8").splitlines()] for path in _LISTS.iterdir()
    }
    texts |= {name: " ".join(passage for passage, _ in rows) for name, rows in sorted(lists.items())}
    for name, text in texts.items():
        long = (text * _LENGTH)[:_LENGTH]
        cells = [
            " / ".join(str(_right_first(split, lists[name], form)) for form in _FORMS) if name in lists else ""
            for split in (words_of, _plain_words)
        ]
        cells += [f"{_microseconds(split, long, options.times):.0f}" for split in (words_of, _plain_words)]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
