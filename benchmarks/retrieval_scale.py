"""Measure how long a search takes among 10 k, 100 k and 1 M passages, in how much memory, and what it misses.

Dense: MiniLM's vectors of the paragraphs of MuSiQue, 2WikiMultihopQA and HotpotQA, under $TRAILFORGE_DATA; more than
those are the same with jitter (noise of `--jitter` of their length in a direction of chance, then length 1 again).
Queries are real questions. An index sets its effort by first sentences of passages, as a build does; the recall
reported is that of the questions, against exact search. BM25: made-up texts, their words drawn by Zipf's law, as the
twelve words of each query are. Query encoding is measured apart.

Each index is made in one process and searched in another that opens it memory-mapped: one query after the other on one
thread (p50 and p99, of the clock and of its CPU time, which other work on the machine lengthens little), then from as
many threads as there are cores (searches a second). Memory (MB): the peak of the process that builds, mapped vectors
and smaller indexes before included; what the searching process holds of its own, and what it shares with others (pages
of files). Lag: how late a timer of 5 ms on the event loop comes, p99, while eight agents search through `retrieve`,
against the same loop idle.

    make bench B=retrieval_scale ARGS="--cache FOLDER --work FOLDER"
    make bench B=retrieval_scale ARGS="--parts dense --sizes 1000000 --kinds ivf_pq --cache FOLDER --work FOLDER"

`--cache` keeps `SET/passages.jsonl` and `SET/vectors.npy`; `--work` the indexes (4 GB), which are then not made again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from trailforge.pipelines.sources import read_questions
from trailforge.retrieval import split_sentences
from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.retrieval.backends.dense import DenseIndex, DenseRetriever
from trailforge.retrieval.backends.vectors import AnnConfig, Vectors, embedded_text
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.schemas import Document, Question

FILES = {
    "musique": "musique/musique_original20.jsonl.gz",
    "2wiki": "2wikimultihopqa/2wiki_context.jsonl.gz",
    "hotpotqa": "hotpotqa/hotpotqa.jsonl.gz",
}
SIZES = (10_000, 100_000, 1_000_000)
QUERIES, SAMPLED, RUNS = 300, 200, 500
VOCABULARY, WORDS_A_TEXT, WORDS_A_QUERY = 300_000, 60, 12
_BLOCK = 50_000


def main() -> None:
    """Make the indexes, search them, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="encode,dense,bm25,lag")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--kinds", default="auto", help="auto, flat, hnsw, ivf_pq, of dense indexes")
    parser.add_argument("--jitter", type=float, default=0.4)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--search", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.search:
        print(json.dumps(_SEARCHES[options.search[0]](Path(options.search[1]))))
        return
    sizes, parts = [int(each) for each in options.sizes.split(",")], options.parts.split(",")
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
        real = None
        if "dense" in parts or "lag" in parts or "encode" in parts:
            real = _real_vectors(options.cache or work, work, "encode" in parts)
        if "dense" in parts and real is not None:
            _report_dense(real, sizes, options.kinds.split(","), options.jitter, work)
        if "bm25" in parts:
            _report_bm25(sizes, work)
        if "lag" in parts and real is not None:
            _report_lag(real, options.jitter, work)


# What is searched


def _real_vectors(cache: Path, work: Path, is_timed: bool) -> np.ndarray:
    """Vectors of all passages; beside them in `work` those of questions and of first sentences."""
    encoder = Encoder()
    documents, questions, matrices = [], [], []
    for name, file in FILES.items():
        folder = cache / name
        read = [q for q in read_questions(Path(os.environ["TRAILFORGE_DATA"]) / file) if isinstance(q, Question)]
        questions += [question.question for question in read]
        if not (folder / "vectors.npy").exists():
            folder.mkdir(parents=True, exist_ok=True)
            _keep_vectors(read, encoder, folder)
        with (folder / "passages.jsonl").open(encoding="utf-8") as lines:
            documents += [Document(**json.loads(line)) for line in lines]
        matrices.append(np.load(folder / "vectors.npy"))
    chosen = [questions[row] for row in np.linspace(0, len(questions) - 1, QUERIES).astype(int)]
    rows = np.linspace(0, len(documents) - 1, SAMPLED).astype(int)
    for name, texts in (
        ("questions", chosen),
        ("sentences", [split_sentences(documents[row].text)[0] for row in rows]),
    ):
        path = work / f"{name}.npy"
        if not path.exists() or is_timed:
            vectors, seconds = zip(
                *(_timed(lambda text=text: encoder.encode_query(text)) for text in texts), strict=True
            )
            np.save(path, np.stack(vectors))
            print(f"encoding of {len(texts)} {name}, one by one: {_percentiles(seconds)}", flush=True)
    return np.concatenate(matrices)


def _keep_vectors(questions: Sequence[Question], encoder: Encoder, folder: Path) -> None:
    """Passages of all questions, each once, and their vectors."""
    found = {(p.title, p.text): p for question in questions for p in question.paragraphs}
    documents = [Document(id=f"{folder.name}-{n}", title=title, text=text) for n, (title, text) in enumerate(found)]
    with (folder / "passages.jsonl").open("w", encoding="utf-8") as file:
        for each in documents:
            file.write(json.dumps({"id": each.id, "title": each.title, "text": each.text}) + "\n")
    np.save(folder / "vectors.npy", encoder.encode_documents([embedded_text(each) for each in documents]))


def _jittered(real: np.ndarray, count: int, jitter: float, work: Path) -> np.ndarray:
    """So many unit vectors, in a file: the real ones, then these again and again with jitter."""
    draw = np.random.default_rng(0)
    path, shape = work / f"jittered-{count}.npy", (count, real.shape[1])
    matrix = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    for start in range(0, count, _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, count))
        noise = draw.standard_normal((len(rows), real.shape[1]), dtype=np.float32) / np.sqrt(real.shape[1])
        vectors = real[rows % len(real)] + np.where(rows < len(real), 0, jitter)[:, None].astype(np.float32) * noise
        matrix[rows] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return matrix


def _zipf_ids(count: int, seed: int) -> np.ndarray:
    """Numbers of words; the n-th is drawn in proportion to 1/n."""
    shares = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    return np.searchsorted(shares, np.random.default_rng(seed).random(count) * shares[-1])


class _ZipfTexts(Sequence[Document]):
    """Made-up texts, each written when it is read."""

    def __init__(self, count: int) -> None:
        self._ids = _zipf_ids(count * WORDS_A_TEXT, 1).astype(np.int32).reshape(count, WORDS_A_TEXT)

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, row: Any) -> Any:
        text = " ".join([f"w{number}" for number in self._ids[row].tolist()])
        return Document(id=str(row), title="", text=text)


class _Untold(Sequence[Document]):
    """Documents of whom only the number matters."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: Any) -> Any:
        if row >= self._count:
            raise IndexError(row)
        return Document(id=str(row), title="", text="")


# Making and searching


def _report_dense(real: np.ndarray, sizes: Sequence[int], kinds: Sequence[str], jitter: float, work: Path) -> None:
    print(
        "\n| dense | index | build s | CPU s | peak | index MB | effort | set for | recall "
        "| p50 ms | p99 ms | CPU p50 | CPU p99 | a s | own | shared |"
    )
    print(f"|---:|---|{'---:|' * 14}", flush=True)
    for size in sizes:
        matrix = real[:size] if size <= len(real) else _jittered(real, size, jitter, work)
        for kind in kinds:
            folder = _make_dense(matrix, kind, work)
            made = json.loads((folder / "made.json").read_text())
            found = _search_elsewhere("dense", folder)
            cost = f"{made['build_s']:.0f} | {made['cpu_s']:.0f} | {made['peak_mb']:,} | {made['disk_mb']:,}"
            made_of = f"{made['kind']} | {cost} | {made['effort'] or '–'} | {made['recall']:.3f}"
            print(f"| {size:,} | {made_of} | {found['recall']:.3f} | {_row(found)} |", flush=True)


def _make_dense(matrix: np.ndarray, kind: Any, work: Path) -> Path:
    """A folder of vectors and index, and the ten best of exact search for the questions."""
    folder = work / f"dense-{len(matrix)}-{kind}"
    if (folder / "made.json").exists():
        return folder
    folder.mkdir(exist_ok=True)
    questions = np.load(work / "questions.npy")
    began = time.process_time()
    vectors, seconds = _timed(lambda: Vectors(matrix).indexed(AnnConfig(kind=kind), np.load(work / "sentences.npy")))
    cpu, peak = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    vectors.save(folder / "vectors.npy")
    disk = sum(path.stat().st_size for path in folder.glob("vectors*"))
    np.save(folder / "questions.npy", questions)
    np.save(folder / "exact.npy", faiss.knn(questions, matrix, 10, faiss.METRIC_INNER_PRODUCT)[1])
    stats = vectors.ann.stats if vectors.ann else None
    made = {
        "kind": stats.kind if stats else "flat",
        "build_s": seconds,
        "cpu_s": cpu,
        "peak_mb": peak // 1024,
        "disk_mb": disk // 10**6,
        "effort": stats.effort if stats else 0,
        "recall": stats.recall_at_10 if stats else 1.0,
    }
    (folder / "made.json").write_text(json.dumps(made))
    return folder


def _search_dense(folder: Path) -> dict[str, float]:
    faiss.omp_set_num_threads(1)  # a search is one thread's, and threads are searches side by side
    questions, exact = np.load(folder / "questions.npy"), np.load(folder / "exact.npy")
    vectors = Vectors.open(folder / "vectors.npy")
    found = [[row for _, row in vectors.search(question, 10)] for question in questions]
    recall = np.mean([np.isin(*each).mean() for each in zip(exact, found, strict=True)])
    index = DenseIndex(vectors, _Untold(len(vectors)))
    return {"recall": float(recall), **_measure(lambda query: index.search(questions[query % QUERIES], 10))}


def _report_bm25(sizes: Sequence[int], work: Path) -> None:
    print("\n| BM25 | build s | p50 ms | p99 ms | CPU p50 | CPU p99 | threads/s | own MB | shared |")
    print(f"|---:|{'---:|' * 8}", flush=True)
    for size in sizes:
        folder = _make_bm25(size, work)
        made, found = json.loads((folder / "made.json").read_text()), _search_elsewhere("bm25", folder)
        print(f"| {size:,} | {made['build_s']:.0f} | {_row(found)} |", flush=True)


def _make_bm25(size: int, work: Path) -> Path:
    folder = work / f"bm25-{size}"
    if not (folder / "made.json").exists():
        folder.mkdir(exist_ok=True)
        retriever, seconds = _timed(lambda: Bm25Retriever(_ZipfTexts(size)))
        retriever.save(folder)
        (folder / "made.json").write_text(json.dumps({"build_s": seconds, "documents": size}))
    return folder


def _open_bm25(folder: Path) -> tuple[Bm25Retriever, list[str]]:
    """And queries for it."""
    retriever = Bm25Retriever.open(folder, _Untold(json.loads((folder / "made.json").read_text())["documents"]))
    words = _zipf_ids(RUNS * WORDS_A_QUERY, 2).reshape(RUNS, WORDS_A_QUERY)
    return retriever, [" ".join(f"w{number}" for number in row) for row in words]


def _search_bm25(folder: Path) -> dict[str, float]:
    retriever, queries = _open_bm25(folder)
    return _measure(lambda query: retriever._search(queries[query], 10))


_SEARCHES: dict[str, Callable[[Path], dict[str, float]]] = {"dense": _search_dense, "bm25": _search_bm25}


def _search_elsewhere(what: str, folder: Path) -> dict[str, float]:
    """What a process of its own measures."""
    done = subprocess.run(
        [sys.executable, __file__, "--search", what, str(folder)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def _measure(search: Callable[[int], object]) -> dict[str, float]:
    for query in range(QUERIES):  # so that what is mapped is in memory
        search(query)
    taken, worked = [], []
    for query in range(RUNS):
        start, start_cpu = time.perf_counter(), time.thread_time()
        search(query)
        taken.append(time.perf_counter() - start)
        worked.append(time.thread_time() - start_cpu)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        _, together = _timed(lambda: list(pool.map(search, range(RUNS))))
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    own, shared = (int(status[name].split()[0]) / 1024 for name in ("RssAnon", "RssFile"))
    p50, p99 = np.percentile(taken, [50, 99]) * 1000
    cpu_p50, cpu_p99 = np.percentile(worked, [50, 99]) * 1000
    times = {"p50": p50, "p99": p99, "cpu_p50": cpu_p50, "cpu_p99": cpu_p99, "per_s": RUNS / together}
    return {**times, "own_mb": own, "shared_mb": shared}


def _row(found: dict[str, float]) -> str:
    """Of a table, what `_measure` gives."""
    times = " | ".join(f"{found[name]:.2f}" for name in ("p50", "p99", "cpu_p50", "cpu_p99"))
    return f"{times} | {found['per_s']:,.0f} | {found['own_mb']:.0f} | {found['shared_mb']:.0f}"


# The event loop


def _report_lag(real: np.ndarray, jitter: float, work: Path) -> None:
    print("\n| 8 agents search | lag p99 ms, idle | … while they search | searches/s |")
    print("|---|---:|---:|---:|", flush=True)
    print(_lag_row("BM25, 100,000", *_open_bm25(_make_bm25(100_000, work))), flush=True)
    vectors = Vectors.open(_make_dense(_jittered(real, 100_000, jitter, work), "auto", work) / "vectors.npy")
    encoder = Encoder()
    dense = DenseRetriever(DenseIndex(vectors, _Untold(len(vectors))), encoder)
    print(_lag_row("dense, 100,000, with encoding", dense, [f"who was number {n}?" for n in range(RUNS)]), flush=True)


def _lag_row(name: str, retriever: Any, queries: Sequence[str]) -> str:
    idle, busy, per_s = asyncio.run(_lags(retriever, queries))
    return f"| {name} | {idle:.1f} | {busy:.1f} | {per_s:,.0f} |"


async def _lags(retriever: Any, queries: Sequence[str], seconds: float = 8.0) -> tuple[float, float, float]:
    await retriever.retrieve(queries[0], 5)
    idle = await _lag(seconds)
    searches, until = 0, time.perf_counter() + seconds

    async def agent(number: int) -> None:
        nonlocal searches
        query = number
        while time.perf_counter() < until:
            await retriever.retrieve(queries[query % len(queries)], 5)
            searches, query = searches + 1, query + 8

    agents = [asyncio.create_task(agent(number)) for number in range(8)]
    busy = await _lag(seconds)
    await asyncio.gather(*agents)
    return idle, busy, searches / seconds


async def _lag(seconds: float, tick: float = 0.005) -> float:
    """p99 of how much later than due a timer of `tick` seconds comes, ms."""
    late, until = [], time.perf_counter() + seconds
    while (now := time.perf_counter()) < until:
        await asyncio.sleep(tick)
        late.append(time.perf_counter() - now - tick)
    return float(np.percentile(late, 99) * 1000)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def _percentiles(seconds: Sequence[float]) -> str:
    return f"p50 {statistics.median(seconds) * 1000:.1f} ms, p99 {np.percentile(seconds, 99) * 1000:.1f} ms"


if __name__ == "__main__":
    main()
