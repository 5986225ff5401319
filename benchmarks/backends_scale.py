"""Measure what building and searching an index over 100,000 passages costs: seconds, milliseconds, memory.

The paragraphs of MuSiQue's questions and copies of them, each with names of its own: a word with a capital that stands
in at most one passage of a hundred, and nowhere in small letters, gets letters behind it. So a copy has its own graph,
as large as the first one's, and what connects copies are names that stand everywhere. A text of a copy has the vector
of the first one's with jitter (cosine about .98): real texts are encoded once, and encoding is not part of any figure.

Each index is built as `index build` does, in a process of its own, and searched in another that opens it memory-mapped,
with one thread and real questions, one after the other. Memory (MB): the peak of the build; of the search what the
process holds of its own, and what it shares with others (pages of files). The load average of the machine stands
beside: seconds of the clock grow with it, those of CPU hardly.

    make bench B=backends_scale ARGS="--cache FOLDER --work FOLDER"

`--cache` is that of `make bench B=backends`; `--work` keeps the indexes, which are then not made again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _corpora import KeptEncoder, QuestionSet
from threadpoolctl import threadpool_limits

from trailforge.retrieval.indexes.store import build_index, open_index
from trailforge.schemas import Document

_SET = "musique"
_WORD = re.compile(r"[^\W\d_]{3,}")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MARK = re.compile(r"qz[a-z]{2}(?![^\W\d_])")
_NOISE = 0.01
"""Of each number of a vector of 384."""


def mark_of(copy: int) -> str:
    """Return the suffix that marks the names of a copy of the corpus; empty for the first."""
    return f"qz{_LETTERS[copy // 26]}{_LETTERS[copy % 26]}" if copy else ""


def names_in(passages: Sequence[Document]) -> frozenset[str]:
    """Return the capitalised words that are names and stand in few passages."""
    stands_in: dict[str, int] = {}
    small = set[str]()
    for each in passages:
        found = set(_WORD.findall(f"{each.title} {each.text}"))
        small |= {word for word in found if word.islower()}
        for word in found:
            stands_in[word] = stands_in.get(word, 0) + 1
    most = len(passages) / 100
    return frozenset(
        word for word, count in stands_in.items() if word[0].isupper() and count <= most and word.lower() not in small
    )


def copies_of(passages: Sequence[Document], count: int) -> Iterator[Document]:
    """Yield all passages of `count` copies of the corpus, copy by copy."""
    names = names_in(passages)
    for copy in range(count):
        mark = mark_of(copy)

        def marked(text: str, mark: str = mark) -> str:
            return _WORD.sub(lambda word: word[0] + mark if word[0] in names else word[0], text) if mark else text

        for each in passages:
            yield replace(each, id=f"{each.id}-{copy}", title=marked(each.title), text=marked(each.text))


class CopiesEncoder(KeptEncoder):
    """An encoder that gives a copied text the vector of its original plus a little noise."""

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Return one unit vector a text: the original's with a little noise; see `Encoder`."""
        first = [_MARK.sub("", text) for text in texts]
        vectors = super().encode_documents(first).astype(np.float32)
        rows = [row for row, text in enumerate(texts) if text != first[row]]
        rng = np.random.default_rng(len("".join(texts)))
        vectors[rows] += rng.standard_normal((len(rows), vectors.shape[1]), np.float32) * _NOISE
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _build(given: argparse.Namespace) -> dict[str, Any]:
    corpus = QuestionSet.read(_SET, given.cache)
    encoder = CopiesEncoder(given.cache / _SET, corpus.passages)
    began, clock = time.process_time(), time.monotonic()
    made = asyncio.run(
        build_index(copies_of(corpus.passages, given.copies), given.folder, given.build, encoder=encoder)
    )
    encoder.save()
    return {
        "passages": made.documents,
        "cpu_s": round(time.process_time() - began - encoder.seconds),
        "clock_s": round(time.monotonic() - clock),
        "lookup_s": round(encoder.seconds),
        "texts": encoder.texts,
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "disk_mb": round(made.bytes / 1e6),
        "stats": made.stats,
        "load": os.getloadavg()[0],
    }


def _ask(given: argparse.Namespace) -> dict[str, Any]:
    corpus = QuestionSet.read(_SET, given.cache)
    encoder = CopiesEncoder(given.cache / _SET, corpus.passages)
    questions = [each.question for each in corpus.questions][: given.questions]
    for each in questions:
        encoder.encode_query(each)
    held = _memory()
    index = open_index(given.folder, encoder=encoder)

    async def ask() -> tuple[list[float], list[float]]:
        cpu, clock = list[float](), list[float]()
        await index.find(questions[0], 5)
        for each in questions:
            began, at = time.process_time(), time.perf_counter()
            await index.find(each, 5)
            cpu.append(1e3 * (time.process_time() - began))
            clock.append(1e3 * (time.perf_counter() - at))
        return cpu, clock

    with threadpool_limits(1):
        cpu, clock = asyncio.run(ask())
    now = _memory()
    return {
        "questions": len(questions),
        "cpu_ms": [round(float(each), 1) for each in np.percentile(cpu, (50, 99))],
        "clock_ms": [round(float(each), 1) for each in np.percentile(clock, (50, 99))],
        "own_mb": now["RssAnon"] - held["RssAnon"],
        "shared_mb": now["RssFile"] - held["RssFile"],
        "load": os.getloadavg()[0],
    }


def _memory() -> dict[str, int]:
    """MB by kind."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(":") for line in lines if line.startswith("Rss"))
    return {name: int(value.split()[0]) // 1024 for name, value in pairs}


def main() -> None:
    """Build the indexes, search them, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", default="hybrid,linear_rag,hippo_rag_plain")
    parser.add_argument("--copies", type=int, default=23, help="of 4,336 passages, the first one included")
    parser.add_argument("--questions", type=int, default=262)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--build", help=argparse.SUPPRESS)
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.build or given.ask:
        print(json.dumps(_build(given) if given.build else _ask(given)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        for name in given.backends.split(","):
            folder = (given.work or Path(temporary)) / f"{name}-{given.copies}"
            for act in ([] if folder.exists() else ["--build"]) + ["--ask"]:
                said = [f"--copies={given.copies}", f"--questions={given.questions}", f"--cache={given.cache}"]
                command = [sys.executable, __file__, act, name, "--folder", str(folder), *said]
                found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                print(name, act.removeprefix("--"), found.strip(), flush=True)


if __name__ == "__main__":
    main()
