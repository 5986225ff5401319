"""Cleaning documents that are made from a template: CPU seconds and peak memory, by template and number of documents.

Any two of such documents are similar, whether or not they are copies: the search for near copies has to look at as
many pairs as it ever will. `frame`: 300 words that all share and 60 of a document's own; all are copies. `weather` and
`earnings`: sentences in which names and figures change, below the threshold. `strangers`: nothing is shared. Each row
is the stage `clean` in a process of its own, whose memory includes Python, Beam and Arrow.

    make bench B=cleaning
    make bench B=cleaning ARGS="--templates weather --sizes 1000,4000"
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.pipelines.support import stage_run
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.stages.cleaning import clean
from trailforge.pipelines.engine.shards import Shard
from trailforge.schemas import RejectedRow, SourceDocument, read_rows, write_parquet

_SYLLABLES = "ba co du fen gor hal im jun kel lo mar nid or pem qua rus tel ul ven wy".split()
_COMMON = "the of and to in a is that for it on was with as by from at had not".split()
_SHARD = 1000
_TEMPLATES = {
    "weather": (
        "The weather office in {} said on {} that winds from {} would bring rain to the coast of the {} bay by noon.",
        "It was the third storm to reach {} in a week and the river at {} stood at {} feet above the {} mark by night.",
        "Schools in {} county stay open but buses to {} will leave {} hours late because water is on the road to {}.",
        "A spokesman for {} asked people of the {} quarter to keep away from the harbour and to move cars to {} or {}.",
        "The next report from {} will be given at {} in the evening and can be heard on the radio in {} and in {}.",
        "Ferries to the islands of {} and {} will not sail before the wind has dropped below {} knots for {} hours.",
    ),
    "earnings": (
        "{} said on {} that net income for the quarter rose to {} million as sales of its {} unit went on growing.",
        "Revenue was {} million and the company of {} expects about {} for the rest of the year that ends in {}.",
        "Chief executive {} said that demand in {} was strong and that costs for {} had come down by {} since May.",
        "Shares of {} closed at {} before the figures were given and had gained {} in the year up to {} of this month.",
        "The board of {} will pay a dividend of {} a share on {} to those who hold it at the end of the {} week.",
        "Analysts who were asked by {} had on average looked for {} a share without the cost of the {} merger in {}.",
    ),
}


def main() -> None:
    """Print one table, with a line for each template and number of documents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--templates", default="frame,weather,earnings,strangers", help="separated by commas")
    parser.add_argument("--sizes", default="4000,20000", help="numbers of documents")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_measure(options.templates, int(options.sizes))))
        return
    print("| template | documents | CPU s | wall s | peak MB | near copies |\n|---|---:|---:|---:|---:|---:|")
    for template in options.templates.split(","):
        for size in options.sizes.split(","):
            child = [sys.executable, __file__, "--child", "--templates", template, "--sizes", size]
            done = subprocess.run(child, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                print(f"| {template} | {int(size):,} | ended with {done.returncode} | | | |", flush=True)
                continue
            cpu, wall, peak, copies = json.loads(done.stdout.splitlines()[-1])
            row = f"| {template} | {int(size):,} | {cpu:.1f} | {wall:.1f} | {peak:,.0f} | {copies:,} |"
            print(row, flush=True)


def _measure(template: str, size: int) -> tuple[float, float, float, int]:
    with tempfile.TemporaryDirectory(prefix="trailforge-cleaning-") as scratch:
        folder = Path(scratch)
        shards = _write(folder, template, size)
        cpu, wall = time.process_time(), time.monotonic()
        clean(stage_run(folder, BundleRunConfig(), shards))
        cpu, wall = time.process_time() - cpu, time.monotonic() - wall
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rejected = read_rows(sorted(folder.glob("rejected/*.parquet")), RejectedRow)
        reasons = [row.reason for row in rejected]
    copies = reasons.count("near_duplicate")
    if copies < len(reasons):
        raise SystemExit(f"{len(reasons) - copies} made-up documents were rejected for another reason")
    return cpu, wall, peak, copies


def _write(folder: Path, template: str, size: int) -> list[Shard]:
    (folder / "inputs").mkdir()
    rng, shards = random.Random(0), list[Shard]()
    frame = _prose(rng, 300)
    for first in range(0, size, _SHARD):
        numbers = range(first, min(size, first + _SHARD))
        name = f"part-{len(shards):05d}"
        shard = Shard(name=name, input=f"inputs/{name}.parquet", first=first, rows=len(numbers))
        documents = [_document(rng, number, template, frame) for number in numbers]
        write_parquet(folder / shard.input, SourceDocument, documents)
        shards.append(shard)
    return shards


def _document(rng: random.Random, number: int, template: str, frame: str) -> SourceDocument:
    if template == "frame":
        text = f"{frame} {_prose(rng, 60)}"
    elif template == "strangers":
        text = _prose(rng, 360)
    else:
        lines = [line.format(*(_word(rng).title() for _ in range(line.count("{}")))) for line in _TEMPLATES[template]]
        text = " ".join(lines)
    day = f"2025-03-{number % 28 + 1:02d}"
    source = f"office{number % 50}"
    return SourceDocument(id=f"n{number:06d}", source=source, kind="news", title=_word(rng), text=text, published=day)


def _prose(rng: random.Random, words: int) -> str:
    """Every third word is one of the most common of English, as the stage asks for a language."""
    return " ".join(_word(rng) if place % 3 else rng.choice(_COMMON) for place in range(words))


def _word(rng: random.Random) -> str:
    return "".join(rng.choices(_SYLLABLES, k=4))


if __name__ == "__main__":
    main()
