"""What ranking bundles takes: CPU seconds, by how many documents they are of.

Over the documents and bundles of a finished run (`trailforge document-bundles --bundles-only`), in one process. Above
their number they are taken again under other ids, so that texts and bundles are real ones. `read` is what bundling
reads of all documents and needs without a ranking, too: names, words, sketches.

    make bench B=bundle_ranking ARGS="out/bundles --sizes 2500,10000"
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from trailforge.generators.document_bundles.bundling.config import Bundling
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.stages.grouping import read_meta, worths_of
from trailforge.pipelines.engine.shards import Shard
from trailforge.pipelines.runs.config import read_config
from trailforge.presets import load_preset
from trailforge.schemas import Bundle, DocumentEmbedding, SourceDocument, read_rows, write_parquet

_SHARD = 256


def main() -> None:
    """Print a line of the table for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--sizes", type=lambda text: [int(part) for part in text.split(",")], default=[2500, 10_000])
    options = parser.parse_args()
    print(
        "| documents | bundles | pairs | read, CPU s | ranking, CPU s | ms a bundle |\n|---:|---:|---:|---:|---:|---:|"
    )
    for size in options.sizes:
        print(_line(options.run, size), flush=True)


def _line(run: Path, size: int) -> str:
    config = read_config(BundleRunConfig, load_preset("r-search", "document_bundles"), source="r-search")
    rows = list(read_rows(_files(run, "documents"), SourceDocument))
    held = {row.document_id: row.vector for row in read_rows(_files(run, "embeddings"), DocumentEmbedding)}
    made = [row.document_ids for row in read_rows(_files(run, "bundles"), Bundle)]
    times = -(-size // len(rows))
    documents = [replace(row, id=f"{turn} {row.id}") for turn in range(times) for row in rows][:size]
    place = {document.id: number for number, document in enumerate(documents)}
    bundles = [[place.get(f"{turn} {id}", -1) for id in ids] for turn in range(times) for ids in made]
    bundling = Bundling(bundles=tuple(tuple(rows) for rows in bundles if min(rows) >= 0), leftovers=())
    vectors = np.array([held[document.id.partition(" ")[2]] for document in documents], np.float32)
    with tempfile.TemporaryDirectory() as scratch:
        shards = _write(Path(scratch), documents)
        began = time.process_time()
        meta = read_meta(Path(scratch), shards, config.bundles)
        read = time.process_time() - began
        pairs = sum(1 for _ in worths_of(Path(scratch), bundling, meta, vectors, config))
        ranked = time.process_time() - began - read
    count = len(bundling.bundles)
    return f"| {size:,} | {count:,} | {pairs:,} | {read:.1f} | {ranked:.1f} | {1000 * ranked / count:.1f} |"


def _write(folder: Path, documents: list[SourceDocument]) -> list[Shard]:
    shards: list[Shard] = []
    for first in range(0, len(documents), _SHARD):
        part = list(islice(documents, first, first + _SHARD))
        path = f"part-{len(shards):05d}.parquet"
        write_parquet(folder / path, SourceDocument, part)
        shards.append(Shard(name=Path(path).stem, input=path, first=first, rows=len(part)))
    return shards


def _files(run: Path, table: str) -> list[Path]:
    return sorted((run / table).glob("part-*.parquet"))


if __name__ == "__main__":
    main()
