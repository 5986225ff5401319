"""Measure how many documents are bundled, how purely, and how many near copies come together, by similarity threshold.

Over finished runs of `document-bundles --bundles-only`, whose documents and vectors are read; nothing is embedded anew.
What thresholds give is told without `min_retold`, for which texts are read; a last row has the run's own bundles.
`--events FILE` names the gold event of each document (JSON Lines with `id` and `event`): a bundle of one event is pure.

    trailforge document-bundles --documents articles.jsonl.gz --bundles-only --out runs/ecb
    make bench B=bundle_quality ARGS="runs/ecb --events articles.jsonl.gz --min-cosine 0.4 0.5 0.55"
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from tests.support.bundling import bundle_documents
from trailforge.generators.document_bundles.bundling.config import BundleConfig
from trailforge.generators.document_bundles.bundling.copies import COPIED_SHARE, copied_share, sketch
from trailforge.generators.document_bundles.bundling.names import joining_names, name_weights
from trailforge.presets import load_preset
from trailforge.retrieval.entities import CaseCounts, merge_short_names, names_of
from trailforge.schemas import Bundle, DocumentEmbedding, RejectedRow, SourceDocument, read_rows

PRESET = BundleConfig(**load_preset("r-search", "document_bundles")["bundles"])
_HEAD = """\
| documents | least cosine | bundles | bundled | with copies | pure | left over |
|---|---|---|---|---|---|---|"""


def main() -> None:
    """Bundle each run's documents at each threshold and print a row; one more for its own bundles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--events", type=Path, help="gold event of each document")
    parser.add_argument("--min-cosine", nargs="+", type=float, default=[0.4, 0.5, 0.55])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    events = _read_events(options.events) if options.events else {}
    print(_HEAD)
    for run in options.runs:
        documents, vectors = _read_run(run)
        counts = CaseCounts.of(document.text for document in documents)
        found = merge_short_names([names_of(document.title, document.text, counts) for document in documents])
        names, sketches = joining_names(found), np.stack([sketch(document.text) for document in documents])
        for least in options.min_cosine:
            config = replace(PRESET, min_cosine=least)
            made = bundle_documents(
                vectors,
                [document.origin for document in documents],
                config,
                options.seed,
                [document.published for document in documents],
                [document.source for document in documents],
                name_weights(names, config, counts, [document.source for document in documents]),
                sketches,
                [document.kind == "academic" for document in documents],
            )
            left = Counter(each.reason for each in made.leftovers)
            _report(run, str(least), documents, sketches, made.bundles, left, events)
        _report(run, "as made", documents, sketches, *_read_bundles(run, documents), events)


def _report(
    run: Path,
    how: str,
    documents: Sequence[SourceDocument],
    sketches: np.ndarray,
    bundles: Sequence[Sequence[int]],
    left: Mapping[str, int],
    events: Mapping[str, str],
) -> None:
    pairs = [[(sketches[a], sketches[b]) for a, b in combinations(rows, 2)] for rows in bundles]
    copies = sum(any(copied_share(*pair) >= COPIED_SHARE for pair in of_one) for of_one in pairs)
    told = [{events.get(documents[row].id.split(":", 1)[1]) for row in rows} for rows in bundles]
    pure = f"{sum(len(each) == 1 for each in told)} of {len(told)}" if events else ""
    bundled = sum(map(len, bundles))
    reasons = ", ".join(f"{reason} {n}" for reason, n in Counter(left).most_common())
    print(
        f"| {run.name}, {len(documents):,} | {how} | {len(bundles)} | {bundled} "
        f"({bundled / len(documents):.0%}) | {copies} | {pure} | {reasons} |",
        flush=True,
    )


def _read_bundles(run: Path, documents: Sequence[SourceDocument]) -> tuple[list[list[int]], Counter[str]]:
    """The run's own, by the rows of its documents, and why others are in none."""
    place = {document.id: row for row, document in enumerate(documents)}
    made = read_rows(sorted((run / "bundles").glob("*.parquet")), Bundle)
    rejected = read_rows(sorted((run / "rejected").glob("*.parquet")), RejectedRow)
    left = Counter(row.reason for row in rejected if row.stage == "bundle")
    return [[place[id] for id in bundle.document_ids] for bundle in made], left


def _read_events(path: Path) -> dict[str, str]:
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    return {row["id"]: row["event"] for row in map(json.loads, text.splitlines())}


def _read_run(run: Path) -> tuple[list[SourceDocument], np.ndarray]:
    """The documents that were embedded, and their vectors."""
    rows = read_rows(sorted((run / "embeddings").glob("*.parquet")), DocumentEmbedding)
    vectors = {row.document_id: row.vector for row in rows}
    documents = list(read_rows(sorted((run / "documents").glob("*.parquet")), SourceDocument))
    kept = [document for document in documents if document.id in vectors]
    return kept, np.array([vectors[document.id] for document in kept], np.float32)


if __name__ == "__main__":
    main()
