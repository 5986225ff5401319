"""Measure from how many phrases on an approximate search for synonyms beats comparing all pairs, and what it misses.

The phrases of MuSiQue's passages, as `hippo_rag_plain` finds them, and copies of them with jitter (cosine about .98).
Sought are all pairs with a cosine of .8 or more, at most 100 of a phrase. CPU seconds are of one thread; those of
comparing all are computed from 2,048 phrases, over which recall is measured, too.

    make bench B=near_rows ARGS="--cache FOLDER"

`--cache` is that of `make bench B=backends`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import faiss
import numpy as np
from _corpora import KeptEncoder, QuestionSet
from threadpoolctl import threadpool_limits

from trailforge.retrieval.backends.facts import NearRows
from trailforge.retrieval.backends.graph import NameFinder
from trailforge.retrieval.backends.vectors import Vectors

_SET, _LEAST, _MOST, _NOISE = "musique", 0.8, 100, 0.01
_SAMPLE, _ROWS, _LISTS = 2_048, 1_024, 16


def encode_phrases(cache: Path) -> np.ndarray:
    """Return unit vectors of all phrases, in the order in which the passages mention them."""
    passages = QuestionSet.read(_SET, cache).passages
    sentences = NameFinder.of(passages).sentences(passages)
    phrases = list(dict.fromkeys(name for sentence in sentences for name in sentence.names))
    encoder = KeptEncoder(cache / _SET, passages)
    vectors = encoder.encode_documents(phrases)
    encoder.save()
    return vectors.astype(np.float32)


def with_copies(vectors: np.ndarray, count: int) -> np.ndarray:
    """Return `count` unit vectors: the given ones, and then copies of them with a little noise."""
    rng = np.random.default_rng(0)
    noise = (_NOISE * rng.standard_normal(vectors.shape, np.float32) for _ in range(count // len(vectors)))
    more = np.concatenate([vectors, *(vectors + each for each in noise)])[:count]
    return more / np.linalg.norm(more, axis=1, keepdims=True)


def measure(matrix: np.ndarray) -> str:
    """Measure one matrix of phrase vectors and return a row of the table."""
    begun = time.process_time()
    near = NearRows.of(Vectors(matrix), _LEAST, _MOST, 0)
    if near.lists is None:
        return f"| {len(matrix):,} | no number of lists finds 99 % | | | |"
    lists = len(near.lists.members)
    found = near.best(np.concatenate([near.find(range(at, min(at + _LISTS, lists))) for at in range(0, lists, _LISTS)]))
    listed = time.process_time() - begun
    sample = np.unique(np.linspace(0, len(matrix) - 1, _SAMPLE).astype(int)).tolist()
    exact, begun = NearRows(matrix, _LEAST, _MOST), time.process_time()
    wanted = np.concatenate([exact.find(sample[at : at + _ROWS]) for at in range(0, len(sample), _ROWS)])
    compared = (time.process_time() - begun) * len(matrix) / len(sample)
    found = found[np.isin(found[:, 0], sample)]
    pairs, expected = (set(map(tuple, each[:, :2].astype(int).tolist())) for each in (found, wanted))
    recall = f"{near.lists.recall:.3f} | {len(pairs & expected) / len(expected):.3f}"
    return f"| {len(matrix):,} | {near.lists.effort} of {lists} | {recall} | {listed:.1f} | {compared:.1f} |"


def main() -> None:
    """Search among each of `--sizes` phrases, and print a table of CPU seconds and recall."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="23871,47742,102000,450000")
    parser.add_argument("--cache", type=Path, required=True)
    given = parser.parse_args()
    phrases = encode_phrases(given.cache)
    faiss.omp_set_num_threads(1)
    with threadpool_limits(1):
        print("| phrases | lists searched | recall, said | recall | CPU s | all compared |")
        print("|---:|---:|---:|---:|---:|---:|", flush=True)
        for size in map(int, given.sizes.split(",")):
            print(measure(with_copies(phrases, size)), flush=True)


if __name__ == "__main__":
    main()
