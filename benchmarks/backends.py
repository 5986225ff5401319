"""Which retrieval back end finds most of what multi-hop questions rest on, without a language model, and how fast?

The paragraphs of all questions of a set are one corpus. Of the questions that rest on two paragraphs or more, drawn by
a fixed seed, 125 are for tuning and 125 for the report. Recall at k: the share of a question's supporting paragraphs
that the first k finds of a back end are or were made from. A summary is one find, as an agent gets it, and counts for
all of its sources, as in evaluations (`metrics.find_supporting`): what was brought, not what can be read in it. Seconds
of a build and milliseconds of a query are of CPU, in one thread, and without encoding, but for texts that
a query has encoded besides itself.

    make bench B=backends ARGS="--backends dense,bm25,hybrid,linear_rag --cache FOLDER --out table.md"
    make bench B=backends ARGS="--backends linear_rag --sets musique --half tune --grid linear_rag.threshold=.3,.4,.5"
    make bench B=backends ARGS="--sets musique --copies 23 --cache FOLDER"

The last asks LinearRAG over copies of a corpus, 23 of MuSiQue's for 100 k passages: vectors with jitter, and names of
their own but for those that stand in more than 1 passage of 100.

`--cache` keeps corpora and vectors: `SET/passages.jsonl`, `SET/questions.jsonl`, `SET/vectors.npy` (of the passages)
and `SET/encoded.npy` (of other texts). $TRAILFORGE_DATA holds the question files.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import hashlib
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from trailforge.pipelines.sources import read_questions
from trailforge.retrieval.backends import BACKENDS, FoundPassage, Workbench, load_backend
from trailforge.retrieval.backends.graph import NameFinder
from trailforge.retrieval.backends.linear_rag import LinearRagIndex, NameLinks
from trailforge.retrieval.backends.vectors import Vectors, embedded_text
from trailforge.retrieval.encoder import Encoder
from trailforge.schemas import Document, Question

FILES = {
    "musique": "musique/musique_original20.jsonl.gz",
    "2wiki": "2wikimultihopqa/2wiki_context.jsonl.gz",
    "hotpotqa": "hotpotqa/hotpotqa.jsonl.gz",
}
PLACES = (2, 5, 10)
PER_HALF = 125
_RESAMPLES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question and what it rests on."""

    question: str
    supporting: frozenset[str]
    """Ids of passages."""
    half: str
    """`tune`, `test` or `rest`."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """A corpus with the questions about it."""

    name: str
    passages: list[Document]
    questions: list[Asked]

    @classmethod
    def of(cls, name: str, questions: Sequence[Question]) -> QuestionSet:
        """From questions with their paragraphs, of which equal ones are one passage."""
        passages: dict[tuple[str, str], Document] = {}
        asked: list[Asked] = []
        for question in questions:
            own: dict[str, str] = {}
            for paragraph in question.paragraphs:
                passage = Document(id=f"{name}-{len(passages)}", title=paragraph.title, text=paragraph.text)
                passage = passages.setdefault((paragraph.title, paragraph.text), passage)
                own[paragraph.id] = passage.id
                own.setdefault(f"title: {paragraph.title}", passage.id)
            found = (own.get(s.id or "") or own.get(f"title: {s.title}") for s in question.supporting_documents)
            supporting = frozenset(filter(None, found))
            if len(supporting) > 1:
                asked.append(Asked(question=question.question, supporting=supporting, half="rest"))
        random.Random(0).shuffle(asked)
        halves = ["tune"] * PER_HALF + ["test"] * PER_HALF
        asked[: len(halves)] = [replace(each, half=half) for each, half in zip(asked, halves, strict=False)]
        return cls(name, list(passages.values()), asked)

    @classmethod
    def read(cls, name: str, cache: Path | None) -> QuestionSet:
        """From the cache; else from the public file, and into the cache."""
        folder = cache / name if cache else None
        if folder and (folder / "questions.jsonl").is_file():
            passages = [Document(**row) for row in _rows(folder / "passages.jsonl")]
            rows = _rows(folder / "questions.jsonl")
            keys = ("question", "half")
            asked = [Asked(**{k: row[k] for k in keys}, supporting=frozenset(row["supporting"])) for row in rows]
            return cls(name, passages, asked)
        path = Path(os.environ["TRAILFORGE_DATA"]) / FILES[name]
        made = cls.of(name, [q for q in read_questions(path) if isinstance(q, Question) and q.paragraphs])
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            _write(folder / "passages.jsonl", [{"id": d.id, "title": d.title, "text": d.text} for d in made.passages])
            asked = made.questions
            rows = [{"question": a.question, "supporting": sorted(a.supporting), "half": a.half} for a in asked]
            _write(folder / "questions.jsonl", rows)
        return made


class KeptEncoder(Encoder):
    """An encoder that encodes no text twice, here or in an earlier run with the same cache."""

    def __init__(self, folder: Path | None, passages: Sequence[Document]) -> None:
        super().__init__()
        self._folder = folder
        self._kept: dict[str, np.ndarray] = {}
        self.texts = 0
        """That were asked for."""
        self.seconds = 0.0
        """That encoding took."""
        if folder and (folder / "vectors.npy").is_file():
            vectors = np.load(folder / "vectors.npy")
            self._kept |= {_hash(embedded_text(d)): vector for d, vector in zip(passages, vectors, strict=True)}
        if folder and (folder / "encoded.json").is_file():
            hashes = json.loads((folder / "encoded.json").read_text())
            self._kept |= dict(zip(hashes, np.load(folder / "encoded.npy"), strict=True))

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        """See `Encoder`."""
        begun = time.process_time()
        self.texts += len(texts)
        new = list(dict.fromkeys(text for text in texts if _hash(text) not in self._kept))
        if new:
            self._kept |= dict(zip(map(_hash, new), super().encode_documents(new), strict=True))
        found = np.stack([self._kept[_hash(text)] for text in texts]) if texts else super().encode_documents([])
        self.seconds += time.process_time() - begun
        return found

    def encode_query(self, text: str) -> np.ndarray:
        """See `Encoder`."""
        key = _hash(f"query: {text}")
        if key not in self._kept:
            self._kept[key] = super().encode_query(text)
        return self._kept[key]

    def save(self) -> None:
        """Keep what was encoded."""
        if self._folder:
            self._folder.mkdir(parents=True, exist_ok=True)
            np.save(self._folder / "encoded.npy", np.stack(list(self._kept.values())))
            (self._folder / "encoded.json").write_text(json.dumps(list(self._kept)))


@dataclass(frozen=True, slots=True)
class Figures:
    """What a back end did with a set's questions."""

    recall: np.ndarray
    """Shape (questions, places), 0 to 1."""
    build: float
    """Seconds of CPU without encoding."""
    encoded: int
    """Texts, for the build."""
    queries: np.ndarray
    """Milliseconds of CPU of each, without its encoding."""


async def measure(backend: str, config: Any, corpus: QuestionSet, half: str, encoder: KeptEncoder) -> Figures:
    """Build and ask."""
    encoder.seconds, encoder.texts = 0.0, 0
    begun = time.process_time()
    index = await load_backend(backend).build(corpus.passages, config, Workbench(encoder=encoder))
    build, encoded = time.process_time() - begun - encoder.seconds, encoder.texts
    encoder.save()
    recall: list[list[float]] = []
    took: list[float] = []
    asked = [each for each in corpus.questions if half in (each.half, "all")]
    for each in asked:
        encoder.encode_query(each.question)
    await index.find(asked[0].question, max(PLACES))
    with threadpool_limits(1):
        for each in asked:
            begun = time.process_time()
            found = await index.find(each.question, max(PLACES))
            took.append(1e3 * (time.process_time() - begun))
            recall.append([share_found(each.supporting, found[:k]) for k in PLACES])
    encoder.save()
    return Figures(np.array(recall), build, encoded, np.array(took))


def share_found(supporting: frozenset[str], found: Sequence[FoundPassage]) -> float:
    """Share of these documents that are among the finds, or among what these were made from."""
    return len(supporting & {source for each in found for source in each.sources}) / len(supporting)


async def measure_copies(corpus: QuestionSet, copies: int, encoder: KeptEncoder) -> str:
    """Milliseconds that LinearRAG takes over a corpus of many copies."""
    passages = corpus.passages
    backend = load_backend("linear_rag")
    config = backend.config()
    small = await backend.build(passages, config, Workbench(encoder=encoder))
    assert isinstance(small, LinearRagIndex)
    finder = NameFinder.of(passages)
    read = list(finder.sentences(passages))
    stands_in = Counter(key for _, key in {(each.passage, key) for each in read for key in each.names})
    everywhere = {key for key, count in stands_in.items() if count > len(passages) / 100}
    documents = [replace(each, id=f"{each.id}-{copy}") for copy in range(copies) for each in passages]
    copied = [
        each._replace(
            passage=each.passage + copy * len(passages),
            names=[key if key in everywhere or not copy else f"{key} {copy}" for key in each.names],
        )
        for copy in range(copies)
        for each in read
    ]
    rng = np.random.default_rng(0)
    vectors = [_jittered(each, copies, rng) for each in (small.passages, small.sentences)]
    links = NameLinks.of(copied, len(documents))
    index = LinearRagIndex(documents, config, encoder, finder, links, links.graph(), *vectors)
    took: list[float] = []
    with threadpool_limits(1):
        for each in [each for each in corpus.questions if each.half == "test"]:
            encoder.encode_query(each.question)
            started = time.process_time()
            await index.find(each.question, max(PLACES))
            took.append(1e3 * (time.process_time() - started))
    middle, last = np.percentile(took, (50, 99))
    return f"linear_rag, {len(documents):,} passages: {middle:.0f} / {last:.0f} CPU ms"


def _jittered(vectors: Vectors, copies: int, rng: np.random.Generator) -> Vectors:
    """Copies whose cosines with the first are about .98."""
    matrix = np.tile(vectors.matrix, (copies, 1))
    matrix[len(vectors) :] += rng.standard_normal(matrix[len(vectors) :].shape, np.float32) * 0.01
    return Vectors(matrix / np.linalg.norm(matrix, axis=1, keepdims=True))


def interval(gains: np.ndarray) -> tuple[float, float]:
    """Where 95 % of the means of resampled questions lie."""
    drawn = np.random.default_rng(0).integers(0, len(gains), (_RESAMPLES, len(gains)))
    low, high = np.percentile(gains[drawn].mean(axis=1), (2.5, 97.5))
    return float(low), float(high)


def describe(name: str, figures: Figures, dense: Figures | None) -> str:
    """A row of the table."""
    found = " ".join(f"{100 * share:.1f}" for share in figures.recall.mean(axis=0))
    every = " ".join(f"{100 * share:.1f}" for share in (figures.recall == 1).mean(axis=0))
    gain = ""
    if dense is not None and dense is not figures:
        gains = 100 * (figures.recall - dense.recall)[:, PLACES.index(5)]
        low, high = interval(gains)
        gain = f"{gains.mean():+.1f} [{low:.1f}, {high:.1f}]"
    middle, last = np.percentile(figures.queries, (50, 99))
    texts = f"{figures.encoded / 1000:.1f}"
    return f"| {name} | {found} | {every} | {gain} | {figures.build:.1f} | {texts} | {middle:.1f} / {last:.1f} |"


def _configs(backend: str, grid: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The default, and the default with each value of a grid for this back end."""
    default = load_backend(backend).config()
    yield backend, default
    for each in grid:
        where, _, values = each.partition("=")
        name, _, fields = where.partition(".")
        if name == backend:
            names = fields.split("+")
            for value in values.split(","):
                parts = [ast.literal_eval(part) for part in value.split("+")]
                yield f"{backend}, {fields} {value}", replace(default, **dict(zip(names, parts, strict=True)))


async def _table(given: argparse.Namespace) -> list[str]:
    lines: list[str] = []
    for name in given.sets.split(","):
        corpus = QuestionSet.read(name, given.cache)
        encoder = KeptEncoder(given.cache / name if given.cache else None, corpus.passages)
        lines += ["", f"**{name}**: {len(corpus.passages):,} passages, half `{given.half}`", ""]
        lines += [
            "| back end | recall at 2 5 10 | all found at 2 5 10 | over dense at 5 [95 %] | build, CPU s | texts \
encoded, thousand | query, CPU ms p50 / p99 |",
            "|---|---|---|---|---:|---:|---:|",
        ]
        dense = None
        for backend in given.backends.split(","):
            for label, config in _configs(backend, given.grid):
                figures = await measure(backend, config, corpus, given.half, encoder)
                dense = figures if label == "dense" else dense
                lines.append(describe(label, figures, dense))
                print(lines[-1], flush=True)
    return lines


async def _copies(given: argparse.Namespace) -> list[str]:
    lines: list[str] = []
    for name in given.sets.split(","):
        corpus = QuestionSet.read(name, given.cache)
        encoder = KeptEncoder(given.cache / name if given.cache else None, corpus.passages)
        lines.append(await measure_copies(corpus, given.copies, encoder))
    return lines


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _hash(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backends", default="dense,bm25,hybrid,linear_rag", help=f"of {', '.join(BACKENDS)}")
    parser.add_argument("--sets", default=",".join(FILES))
    parser.add_argument("--half", default="test", choices=("tune", "test", "all"))
    parser.add_argument("--grid", action="append", default=[], metavar="BACKEND.FIELD=VALUE,VALUE")
    parser.add_argument("--copies", type=int, default=0, help="of each corpus, for LinearRAG's milliseconds alone")
    parser.add_argument("--cache", type=Path, help="folder that keeps corpora and vectors")
    parser.add_argument("--out", type=Path, help="Markdown file")
    given = parser.parse_args()
    lines = asyncio.run(_copies(given) if given.copies else _table(given))
    text = "\n".join(lines)
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
