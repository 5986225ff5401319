"""Near duplicates: recall and precision on planted copies with 5, 10 and 20 % of words changed, and documents a second.

A corpus of made-up documents, each with a passage that many others have too, and of copies in which words were
replaced at random; beside our signatures those of the datasketch package, over the same 3-word shingles, on one core. A
copy is found when it and its original fall into one component; what is flagged beside it is an error. Mind that the
threshold is on shingles: 20 % of words changed leave a Jaccard similarity of 0.34 (see `DuplicateConfig`).

    make bench B=near_duplicates
    make bench B=near_duplicates ARGS="--documents 1000 --threshold 0.3"
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import accumulate

import numpy as np

from tests.support.bundling import keep_one
from trailforge.generators.document_bundles.bundling.duplicates import (
    SHINGLE_WORDS,
    SIGNATURE,
    DuplicateConfig,
    Order,
    find_near_copies,
    shingle_hashes,
    signature,
)

Corpus = dict[Order, str]
_VOCABULARY = 30_000
_PASSAGES = 50


def main() -> None:
    """Print one table, with a line for each share of changed words and each method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--words", type=int, default=300, help="of a document")
    parser.add_argument("--shared", type=float, default=0.1, help="share of words in the passage that others have")
    parser.add_argument("--copies", type=float, default=0.1, help="planted, as a share of the documents")
    parser.add_argument("--threshold", type=float, default=DuplicateConfig().threshold)
    parser.add_argument("--without-datasketch", action="store_true")
    options = parser.parse_args()
    config = DuplicateConfig(threshold=options.threshold)
    methods: dict[str, Callable[[Corpus, DuplicateConfig], dict[str, str]]] = {"ours": _ours, "datasketch": _datasketch}
    if options.without_datasketch:
        del methods["datasketch"]
    print(f"{options.documents:,} documents of {options.words} words, threshold {options.threshold}\n")
    print("| words changed | Jaccard, mean | method | recall | precision | documents a second |")
    print("|---|---|---|---|---|---|")
    for share in (0.05, 0.1, 0.2):
        corpus, similarity = _corpus(options, share)
        for name, method in methods.items():
            started = time.process_time()
            found = method(corpus, config)
            seconds = time.process_time() - started
            recall, precision = _quality(corpus, found)
            print(
                f"| {share:.0%} | {similarity:.2f} | {name} | {recall:.4f} | {precision:.4f} "
                f"| {len(corpus) / seconds:,.0f} |",
                flush=True,
            )


def _ours(corpus: Corpus, config: DuplicateConfig) -> dict[str, str]:
    return find_near_copies({document: signature(text) for document, text in corpus.items()}, config)


def _datasketch(corpus: Corpus, config: DuplicateConfig) -> dict[str, str]:
    """MinHash with as many components, and bands chosen by the package for the threshold."""
    from datasketch import MinHash, MinHashLSH

    shingles = ([*_shingles(text)] for text in corpus.values())
    hashes = dict(zip(corpus, MinHash.bulk(shingles, num_perm=SIGNATURE), strict=True))
    index = MinHashLSH(threshold=config.threshold, num_perm=SIGNATURE)
    edges = []
    for document, values in hashes.items():
        for other in hashes.keys() & index.query(values):
            edges += [(document, other)] if hashes[other].jaccard(values) >= config.threshold else []
        index.insert(document, values)
    return keep_one(edges)


def _shingles(text: str) -> set[bytes]:
    words = text.split()
    return {" ".join(words[start : start + SHINGLE_WORDS]).encode() for start in range(len(words) - SHINGLE_WORDS + 1)}


def _exact_jaccard(first: str, second: str) -> float:
    """Of the sets of shingles of two texts; 0 when both have none."""
    left, right = set(shingle_hashes(first).tolist()), set(shingle_hashes(second).tolist())
    return len(left & right) / len(left | right) if left or right else 0.0


def _corpus(options: argparse.Namespace, share: float) -> tuple[Corpus, float]:
    """Documents and copies, and the mean similarity of a copy to its original. A copy's id begins like the original's.

    Words are drawn by Zipf's law, so that strangers too share some shingles.
    """
    rng = np.random.default_rng(0)
    words = np.array([f"w{number:x}" for number in range(_VOCABULARY)])
    cumulated = np.array(list(accumulate(1 / rank for rank in range(1, _VOCABULARY + 1))))

    def draw(count: int) -> np.ndarray:
        return words[np.searchsorted(cumulated, rng.random(count) * cumulated[-1])]

    shared = int(options.words * options.shared)
    passages = [draw(shared) for _ in range(_PASSAGES)]
    corpus, similarities = {}, []
    copies = int(options.documents * options.copies)
    for number in range(options.documents):
        text = np.concatenate([draw(options.words - shared), passages[number % _PASSAGES]])
        corpus["2025-01-01", f"{number}"] = " ".join(text)
        if number < copies:
            changed = np.where(rng.random(len(text)) < share, draw(len(text)), text)
            corpus["2025-01-02", f"{number}.copy"] = " ".join(changed)
            similarities.append(_exact_jaccard(" ".join(text), " ".join(changed)))
    return corpus, float(np.mean(similarities))


def _quality(corpus: Corpus, found: dict[str, str]) -> tuple[float, float]:
    """Recall over the planted copies and precision over all that was flagged; 1 when nothing was."""
    copies = [name for _, name in corpus if name.endswith(".copy")]
    kept = [
        found.get(copy, copy) == found.get(copy.removesuffix(".copy"), copy.removesuffix(".copy")) for copy in copies
    ]
    right = [dropped.removesuffix(".copy") == twin for dropped, twin in found.items()]
    return sum(kept) / max(len(kept), 1), sum(right) / len(right) if right else 1.0


if __name__ == "__main__":
    main()
