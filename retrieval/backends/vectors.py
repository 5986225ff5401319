"""Unit vectors of passages, sentences, entities or facts: embedded in shards, and stored in one file that processes
share.

Searched exactly; above a size through an approximate index (HNSW or IVF-PQ, by faiss), whose finds are ranked by their
exact cosine, and whose recall against exact search is measured when it is made.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from trailforge.retrieval.backends.declaration import Workbench
from trailforge.retrieval.sentences import split_sentences
from trailforge.schemas import Document, RetrievalError, install_hint, parse_json

Hit = tuple[float, int]
"""Result of a search for vectors: cosine, rounded as in a passage, and row."""
AnnKind = Literal["flat", "hnsw", "ivf_pq"]

_SPARE_HITS = 8
_ANN, _ANN_STATS = "ann.faiss", "ann.json"
_CANDIDATES = {"hnsw": (4, 50), "ivf_pq": (40, 400)}
"""For each wanted passage so many are ranked by their exact cosine, and at least so many: compressed vectors tell less
of the order."""
_LEAST_TO_TRAIN = 1_000
"""Vectors. Of fewer none of the approximate indexes can be trained, and all are compared."""
_MEASURED_AT = 10
"""Passages a query, of which recall is the share that exact search finds too."""
_QUERIES = 200
"""Documents whose first sentences are the queries over which recall is measured."""
_EFFORTS = {"hnsw": (256, 512, 1024), "ivf_pq": (16, 32, 64, 128, 256)}
"""Nodes kept in view; lists searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnConfig:
    """Settings of the search for nearest vectors."""

    kind: Literal["auto", "flat", "hnsw", "ivf_pq"] = "auto"
    """Kind of index. `flat`: all vectors are compared. `hnsw`: a graph of neighbours over vectors of one byte a number.
    `ivf_pq`: lists of compressed vectors, made in less time and memory. `auto`: by the number of vectors."""
    flat_up_to: int = 50_000
    """Number of vectors up to which `auto` compares all: 50,000 of 384 dimensions are compared in 7 ms."""
    hnsw_up_to: int = 200_000
    """Number of vectors up to which `auto` makes a graph, which takes long for more."""
    least_recall: float = 0.99
    """Recall@10 against exact search for which the effort of a search is set, where the most effort reaches it. It is
    measured with sentences of passages, which are nearer to passages than questions are: these find a little less."""
    links: int = 16
    """Number of links of a node in the graph (HNSW's M)."""
    build_effort: int = 80
    """Number of candidate nodes while the graph is made (HNSW's efConstruction)."""

    def choose(self, vectors: int) -> AnnKind:
        """Return the kind of index for this number of vectors."""
        if vectors < _LEAST_TO_TRAIN:
            return "flat"
        if self.kind != "auto":
            return self.kind
        return "flat" if vectors <= self.flat_up_to else "hnsw" if vectors <= self.hnsw_up_to else "ivf_pq"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnStats:
    """Kind of an approximate index, and its measured recall."""

    kind: AnnKind
    vectors: int
    effort: int
    """Effort of a search: for `hnsw` the number of nodes kept in view (efSearch), for `ivf_pq` the number of lists
    searched."""
    recall_at_10: float
    """Share of the 10 best of exact search that the index finds."""
    queries: int
    """Number of queries over which recall was measured."""


@dataclass(frozen=True, slots=True)
class Ann:
    """An approximate nearest-neighbour index of faiss."""

    index: Any
    """The faiss index itself."""
    stats: AnnStats

    def width(self, k: int) -> int:
        """Return the number of candidates to fetch for `k` results."""
        each, least = _CANDIDATES[self.stats.kind]
        return max(each * k, least)

    def candidates(self, vector: np.ndarray, width: int) -> np.ndarray:
        """Return about the `width` best rows, in any order."""
        _, rows = self.index.search(vector.reshape(1, -1), width, params=_parameters(self.stats, width))
        return rows[0][rows[0] >= 0]


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors of length 1, one in each row of a matrix."""

    matrix: np.ndarray
    """The vectors, shape (rows, dimension), float32."""
    ann: Ann | None = None
    """Approximate index with which `search` finds candidates; None: it compares all vectors."""

    def __len__(self) -> int:
        return len(self.matrix)

    def stats(self, of: str) -> dict[str, Any]:
        """Return the kind of the approximate index and its recall, under names that begin with `of`; nothing where all
        vectors are compared."""
        return (
            {} if self.ann is None else {f"{of}_ann": self.ann.stats.kind, f"{of}_recall": self.ann.stats.recall_at_10}
        )

    def scores(self, vector: np.ndarray) -> np.ndarray:
        """Return the cosine of every row with a vector of shape (dimension,); shape (rows,), float32."""
        return self.matrix @ vector

    def search(self, vector: np.ndarray, k: int) -> list[Hit]:
        """Return the best `k` by cosine: score, rounded to 6 decimals, and row; ties in the order of the rows. They are
        found through the approximate index where there is one.

        Without one faiss compares all, which gives the same bits for any number of threads; those of `scores` depend on
        the platform.
        """
        k = min(k, len(self))
        if k <= 0:
            return []
        if self.ann is not None and (width := self.ann.width(k)) <= len(self) // 4:
            rows = np.sort(self.ann.candidates(vector, width))
            if len(rows) >= k:
                exact = self.matrix[rows].astype(np.float64) @ vector.astype(np.float64)
                return _ranked(exact, rows, k)
        return self._exact(vector, k)

    def _exact(self, vector: np.ndarray, k: int) -> list[Hit]:
        rows = len(self)
        width = min(k + _SPARE_HITS, rows)
        hits = self._hits(vector, width)
        while width < rows and hits[-1][0] == hits[k - 1][0]:
            width = min(2 * width, rows)
            hits = self._hits(vector, width)
        return hits[:k]

    def _hits(self, vector: np.ndarray, width: int) -> list[Hit]:
        """The `width` best rows, best first. Rows that tie with the last one may be missing."""
        faiss = load_faiss()
        scores, rows = faiss.knn(vector.reshape(1, -1), self.matrix, width, faiss.METRIC_INNER_PRODUCT)
        return _ranked(scores[0], rows[0], width)

    def indexed(self, config: AnnConfig, queries: np.ndarray) -> Vectors:
        """Return the vectors with an approximate index where the configuration wants one. It takes minutes of all cores
        for a million vectors.

        `queries`: vectors like those that will be searched, shape (queries, dimension), to measure recall with. A graph
        that several threads make differs from run to run; lists do not.
        """
        kind = config.choose(len(self))
        if kind == "flat":
            return Vectors(self.matrix)
        return self._measured(_make(kind, self.matrix, config), kind, config, queries)

    def with_more(self, more: Vectors) -> Vectors:
        """Return these rows and, below them, those of `more`, without an approximate index."""
        return Vectors(np.concatenate([self.matrix, more.matrix]))

    def grown(self, more: Vectors, config: AnnConfig, queries: np.ndarray) -> Vectors:
        """Return these rows and, below them, those of `more`, with the approximate index extended by them; it is
        rebuilt when another kind is due or its recall falls. `queries` are as for `indexed`.
        """
        every = self.with_more(more)
        kind = config.choose(len(every))
        if self.ann is None or self.ann.stats.kind != kind:
            return every.indexed(config, queries)
        faiss = load_faiss()
        index = faiss.deserialize_index(faiss.serialize_index(self.ann.index))  # what is mapped cannot grow
        index.add(more.matrix)
        vectors = every._measured(index, kind, config, queries)
        is_worse = vectors.ann is not None and vectors.ann.stats.recall_at_10 < config.least_recall
        return every.indexed(config, queries) if is_worse else vectors

    def _measured(self, index: Any, kind: AnnKind, config: AnnConfig, queries: np.ndarray) -> Vectors:
        """With the least effort that reaches the recall wanted."""
        faiss = load_faiss()
        _, expected = faiss.knn(queries, self.matrix, _MEASURED_AT, faiss.METRIC_INNER_PRODUCT)
        vectors = self
        for effort in _EFFORTS[kind]:
            stats = AnnStats(kind=kind, vectors=len(self), effort=effort, recall_at_10=0.0, queries=len(queries))
            vectors = Vectors(self.matrix, Ann(index, stats))
            found = [[row for _, row in vectors.search(query, _MEASURED_AT)] for query in queries]
            recall = float(np.mean([np.isin(*each).mean() for each in zip(expected, found, strict=True)]))
            vectors = Vectors(self.matrix, Ann(index, replace(stats, recall_at_10=round(recall, 4))))
            if recall >= config.least_recall:
                break
        return vectors

    def save(self, path: Path) -> None:
        """Write the vectors to a `.npy` file; an approximate index goes into two files beside it."""
        np.save(path, self.matrix)
        if self.ann is not None:
            load_faiss().write_index(self.ann.index, str(path.with_suffix(f".{_ANN}")))
            path.with_suffix(f".{_ANN_STATS}").write_text(json.dumps(asdict(self.ann.stats)), encoding="utf-8")

    @classmethod
    def open(cls, path: Path) -> Vectors:
        """Open the files that `save` wrote, memory-mapped. Raises `RetrievalError` for other files."""
        try:
            matrix = np.load(path, mmap_mode="r")
            if matrix.ndim != 2 or matrix.dtype != np.float32:
                raise ValueError("no matrix of float32")
        except (OSError, ValueError, EOFError) as error:
            raise RetrievalError(f"{path} is missing or damaged ({error}): build the index again") from error
        described = path.with_suffix(f".{_ANN_STATS}")
        return cls(matrix, _open_ann(described, matrix) if described.exists() else None)


def best_rows(scores: np.ndarray, k: int) -> list[tuple[int, float]]:
    """Return the best `k`, best first: row and score, rounded to 6 decimals; ties in the order of the rows."""
    count = min(max(k, 0), len(scores))
    if not count:
        return []
    # Only what may be among the best is rounded and sorted: what is equal when rounded is 1e-6 apart at most.
    last = float(np.partition(scores, -count)[-count])
    near = ((int(row), round(float(scores[row]), 6)) for row in np.flatnonzero(scores >= last - 2e-6))
    return sorted(near, key=lambda hit: (-hit[1], hit[0]))[:count]


async def embed(name: str, texts: Sequence[str], tools: Workbench) -> Vectors:
    """Embed texts as passages and return their vectors. It works in shards, which the build stores under `name`, so
    that a killed build does not embed them again."""
    dimension = len(await tools.vectors.query("dimension"))  # off the event loop: a server may take its time
    matrix = np.empty((len(texts), dimension), np.float32)
    await tools.map(name, tools.vectors.documents, texts, tools.vectors.per_shard, into=matrix)
    return Vectors(matrix)


async def embed_passages(
    name: str, documents: Sequence[Document], tools: Workbench, known: Vectors | None = None
) -> Vectors:
    """Return the vectors of documents as `embed` makes them; for the first documents the vectors in `known` are
    reused.
    """
    more = await embed(name, EmbeddedTexts(documents, len(known) if known else 0), tools)
    return known.with_more(more) if known else more


async def sample_queries(
    vectors: int, documents: Sequence[Document], config: AnnConfig, tools: Workbench
) -> np.ndarray:
    """Return vectors of queries like those that will be searched among this number of vectors: first sentences of
    documents. There are none where all vectors are compared."""
    if config.choose(vectors) == "flat":
        return np.zeros((0, 0), np.float32)
    rows = np.linspace(0, len(documents) - 1, _QUERIES).astype(int)
    sentences = [(split_sentences(documents[row].text) or [documents[row].title])[0] for row in rows]
    return np.stack([await tools.vectors.query(sentence) for sentence in sentences])


async def index_above(compared: int, vectors: Vectors, documents: Sequence[Document], tools: Workbench) -> Vectors:
    """Return the vectors, with an approximate index where there are more than `compared` of them; its other settings
    are the defaults of `AnnConfig`. Its recall is measured with first sentences of `documents` (`sample_queries`).
    """
    config = AnnConfig(flat_up_to=compared)
    return await asyncio.to_thread(
        vectors.indexed, config, await sample_queries(len(vectors), documents, config, tools)
    )


def embedded_text(document: Document) -> str:
    """Return the text of a document that is embedded: title and text."""
    return f"{document.title}\n{document.text}" if document.title else document.text


class EmbeddedTexts(Sequence[str]):
    """The `embedded_text` of each document from the one at row `first` on, made when it is read: a large corpus stays
    where it is."""

    def __init__(self, documents: Sequence[Document], first: int = 0) -> None:
        self._documents, self._rows = documents, range(first, len(documents))

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [embedded_text(self._documents[each]) for each in self._rows[row]]
        return embedded_text(self._documents[self._rows[row]])


def load_faiss() -> Any:
    """Import and return the package faiss. Raises `RetrievalError` where it is missing."""
    try:
        import faiss
    except ImportError as error:
        raise RetrievalError(
            f"dense retrieval needs faiss: {install_hint('dense')}, or set retrieval.kind to bm25"
        ) from error
    return faiss


def _ranked(scores: np.ndarray, rows: np.ndarray, count: int) -> list[Hit]:
    hits = ((round(float(score), 6), int(row)) for score, row in zip(scores, rows, strict=True))
    return sorted(hits, key=lambda hit: (-hit[0], hit[1]))[:count]


def _parameters(stats: AnnStats, width: int) -> Any:
    faiss = load_faiss()
    if stats.kind == "hnsw":
        return faiss.SearchParametersHNSW(efSearch=max(stats.effort, width))
    return faiss.SearchParametersIVF(nprobe=stats.effort)


def _make(kind: AnnKind, matrix: np.ndarray, config: AnnConfig) -> Any:
    """An index of faiss. Training reads a sample that is always the same."""
    faiss = load_faiss()
    rows, dimension = matrix.shape
    if kind == "hnsw":
        index = faiss.IndexHNSWSQ(dimension, faiss.ScalarQuantizer.QT_8bit, config.links, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = config.build_effort
        index.train(_sample(matrix, 50_000))
    else:
        lists = max(1, min(round(2 * math.sqrt(rows)), rows // 40))
        pieces = next(pieces for pieces in range(max(1, dimension // 8), 0, -1) if dimension % pieces == 0)
        bits = 8 if rows >= 2_560 else 4
        coarse = faiss.IndexFlatIP(dimension)
        index = faiss.IndexIVFPQ(coarse, dimension, lists, pieces, bits, faiss.METRIC_INNER_PRODUCT)
        for clustering in (index.cp, index.pq.cp):
            clustering.niter, clustering.min_points_per_centroid, clustering.max_points_per_centroid = 10, 1, 40
        index.train(_sample(matrix, max(40 * lists, 10_240)))
    index.add(matrix)
    return index


def _sample(matrix: np.ndarray, count: int) -> np.ndarray:
    return matrix[sampled_rows(len(matrix), count)]


def sampled_rows(rows: int, count: int) -> np.ndarray:
    """Return about `count` of this number of rows, evenly spread."""
    return np.unique(np.linspace(0, rows - 1, min(count, rows)).astype(np.int64))


def _open_ann(described: Path, matrix: np.ndarray) -> Ann:
    faiss, path = load_faiss(), described.with_name(described.name.removesuffix(_ANN_STATS) + _ANN)
    try:
        stats = AnnStats(**parse_json(described.read_bytes()))
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        if (index.ntotal, index.d) != matrix.shape or stats.kind not in _EFFORTS:
            raise ValueError("of other vectors")
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        raise RetrievalError(f"{path} is missing or damaged ({error}): build the index again") from error
    return Ann(index, stats)
