"""Corpora for benchmarks of retrieval back ends, made of all paragraphs of a question set, and an encoder with a
cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from trailforge.pipelines.sources import read_questions
from trailforge.retrieval.backends.vectors import embedded_text
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.schemas import Document, Question

FILES = {
    "musique": "musique/musique_original20.jsonl.gz",
    "2wiki": "2wikimultihopqa/2wiki_context.jsonl.gz",
    "hotpotqa": "hotpotqa/hotpotqa.jsonl.gz",
}
PER_HALF = 125


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question with the ids of the documents that support its answer."""

    question: str
    supporting: frozenset[str]
    """Ids of passages."""
    golds: tuple[str, ...]
    half: str
    """`tune`, `test` or `rest`."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """A corpus with the questions that are asked about it."""

    name: str
    passages: list[Document]
    questions: list[Asked]

    @classmethod
    def of(cls, name: str, questions: Sequence[Question]) -> QuestionSet:
        """Make the set from these questions and their paragraphs; equal paragraphs become one passage."""
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
                asked.append(
                    Asked(question=question.question, supporting=supporting, golds=question.golds, half="rest")
                )
        random.Random(0).shuffle(asked)
        halves = ["tune"] * PER_HALF + ["test"] * PER_HALF
        asked[: len(halves)] = [replace(each, half=half) for each, half in zip(asked, halves, strict=False)]
        return cls(name, list(passages.values()), asked)

    @classmethod
    def read(cls, name: str, cache: Path | None) -> QuestionSet:
        """Read the set from the cache, or else from the public file, and then write it to the cache."""
        folder = cache / name if cache else None
        if folder and (folder / "questions.jsonl").is_file():
            passages = [Document(**row) for row in _rows(folder / "passages.jsonl")]
            rows = _rows(folder / "questions.jsonl")
            return cls(name, passages, [_asked(row) for row in rows])
        path = Path(os.environ["TRAILFORGE_DATA"]) / FILES[name]
        made = cls.of(name, [q for q in read_questions(path) if isinstance(q, Question) and q.paragraphs])
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            _write(folder / "passages.jsonl", [{"id": d.id, "title": d.title, "text": d.text} for d in made.passages])
            _write(
                folder / "questions.jsonl", [asdict(a) | {"supporting": sorted(a.supporting)} for a in made.questions]
            )
        return made


class KeptEncoder(Encoder):
    """An encoder that keeps the vector of every text, so that no text is encoded twice, even by a later run with the
    same cache.
    """

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
            self._kept |= {hash_text(embedded_text(d)): vector for d, vector in zip(passages, vectors, strict=True)}
        if folder and (folder / "encoded.json").is_file():
            hashes = json.loads((folder / "encoded.json").read_text())
            self._kept |= dict(zip(hashes, np.load(folder / "encoded.npy"), strict=True))

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Return one unit vector a text, encoding only those that the cache lacks; see `Encoder`."""
        begun = time.thread_time()
        self.texts += len(texts)
        new = list(dict.fromkeys(text for text in texts if hash_text(text) not in self._kept))
        if new:
            self._kept |= dict(zip(map(hash_text, new), super().encode_documents(new), strict=True))
        found = np.stack([self._kept[hash_text(text)] for text in texts]) if texts else super().encode_documents([])
        self.seconds += time.thread_time() - begun
        return found

    def encode_query(self, text: str) -> np.ndarray:
        """Return the unit vector of a query, from the cache where it is there; see `Encoder`."""
        key = hash_text(f"query: {text}")
        if key not in self._kept:
            self._kept[key] = super().encode_query(text)
        return self._kept[key]

    def save(self) -> None:
        """Write all vectors, if any, to the cache file."""
        if self._folder and self._kept:
            self._folder.mkdir(parents=True, exist_ok=True)
            np.save(self._folder / "encoded.npy", np.stack(list(self._kept.values())))
            (self._folder / "encoded.json").write_text(json.dumps(list(self._kept)))


def _asked(row: dict[str, Any]) -> Asked:
    return Asked(**row | {"supporting": frozenset(row["supporting"]), "golds": tuple(row["golds"])})


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def hash_text(text: str) -> str:
    """Return the hash by which a text is found in the cache."""
    return hashlib.sha1(text.encode()).hexdigest()
