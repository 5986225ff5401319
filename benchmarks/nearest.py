"""Measure how long finding the vectors nearest to a question takes: by exact cosines, by faiss, by an approximate
index.

The vectors are those that `make bench B=backends` keeps of a set (of passages, names, facts or summaries, whatever was
built), in their order, and beyond that the same with jitter (noise of 0.4 of their length); queries are the set's
questions. Each is searched for in all ways in turn, over a file that is memory-mapped, in one thread; milliseconds are
of CPU, p50 / p99. The recall of the approximate index is measured with 100 questions when it is made, and here with 200
others.

    make bench B=nearest ARGS="--cache FOLDER --set hotpotqa"
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
from _corpora import QuestionSet, hash_text
from threadpoolctl import threadpool_limits

from trailforge.retrieval.backends.vectors import AnnConfig, Vectors, best_rows

_WANTED, _JITTER, _SAMPLED = (5, 20, 25), 0.4, 100


def read_vectors(cache: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors of what back ends index, and those of the questions."""
    kept = np.load(cache / name / "encoded.npy")
    rows = {key: row for row, key in enumerate(json.loads((cache / name / "encoded.json").read_text()))}
    asked = [rows[hash_text(f"query: {each.question}")] for each in QuestionSet.read(name, cache).questions]
    return np.delete(kept, asked, axis=0), kept[asked]


def with_jitter(real: np.ndarray, count: int) -> np.ndarray:
    """Return `count` unit vectors: the real ones, and then these again and again with a little noise."""
    rows = np.arange(count)
    noise = np.random.default_rng(0).standard_normal((count, real.shape[1]), np.float32) / np.sqrt(real.shape[1])
    made = real[rows % len(real)] + np.where(rows < len(real), 0, _JITTER)[:, None].astype(np.float32) * noise
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def measure(folder: Path, questions: np.ndarray) -> list[str]:
    """Measure one folder of vectors and return rows of the table."""
    vectors = Vectors.open(folder / "vectors.npy")
    ways: list[Callable[[np.ndarray, int], list[int]]] = [
        lambda query, k: [row for row, _ in best_rows(vectors.scores(query), k)],
        lambda query, k: [row for _, row in Vectors(vectors.matrix).search(query, k)],
        lambda query, k: [row for _, row in vectors.search(query, k)],
    ]
    lines: list[str] = []
    for k in _WANTED:
        taken: list[list[float]] = [[] for _ in ways]
        found: list[list[list[int]]] = [[] for _ in ways]
        for query in questions[_SAMPLED : 3 * _SAMPLED] if len(questions) > _SAMPLED else questions:
            for way, search in enumerate(ways):
                begun = time.thread_time()
                found[way].append(search(query, k))
                taken[way].append(1e3 * (time.thread_time() - begun))
        times = ["{:.1f} / {:.1f}".format(*np.percentile(each, (50, 99))) for each in taken]
        equal = sum(one == other for one, other in zip(found[0], found[1], strict=True))
        recall = np.mean([len(set(one) & set(other)) / k for one, other in zip(found[1], found[2], strict=True)])
        approximate = f"{times[2]} | {recall:.3f}" if vectors.ann else "– | –"
        lines.append(
            f"| {len(vectors):,} | {k} | {times[0]} | {times[1]} | {equal} of {len(found[0])} | {approximate} |"
        )
    return lines


def main() -> None:
    """Search among each of `--sizes` vectors in all ways, and print a table of the milliseconds and the recall."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--set", default="hotpotqa")
    parser.add_argument("--sizes", default="20000,60000")
    given = parser.parse_args()
    real, questions = read_vectors(given.cache, given.set)
    faiss.omp_set_num_threads(1)
    print(f"{len(real):,} real vectors, {len(questions)} questions")
    print("| vectors | wanted | all cosines | faiss, exact | same rows, same order | approximate | found |")
    print(f"|{'---:|' * 7}", flush=True)
    for size in map(int, given.sizes.split(",")):
        with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
            begun = time.process_time()
            made = Vectors(with_jitter(real, size)).indexed(AnnConfig(), questions[:_SAMPLED])
            took = time.process_time() - begun
            made.save(Path(folder) / "vectors.npy")
            print(*measure(Path(folder), questions), sep="\n", flush=True)
        if made.ann:
            print(f"{size:,}: made in {took:.0f} s of CPU, {made.ann.stats}", flush=True)


if __name__ == "__main__":
    main()
