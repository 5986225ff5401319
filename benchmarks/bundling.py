"""Measure what bundling 1,000 to 100,000 documents costs in seconds and memory, and compare its variants with the
paper's.

Every size and variant runs in a process of its own, on one core, after a small warm-up that loads and compiles.
Documents are made up, with vectors, names and dates in themes and events, half of them of an event that no other one
tells, unless a file gives real ones; `--embed` makes such a file from the news and abstracts under $TRAILFORGE_DATA
with the packaged encoder. Window, names and centring are those of the preset `r-search`. Agreement is the mean adjusted
Rand index with runs of the recipe under several seeds; in the recipe's own line it is that of these runs with each
other, which no other method can be asked to surpass.

    make bench B=bundling
    make bench B=bundling ARGS="--sizes 1000,3500 --compare 1000 --seeds 0,1"
    make bench B=bundling ARGS="--embed vectors.npz"
    make bench B=bundling ARGS="--vectors vectors.npz --compare 3500 --sizes ''"
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.support.bundling import bundle_documents
from trailforge.generators.document_bundles.bundling.config import BundleConfig, Bundling, Leftover
from trailforge.generators.document_bundles.bundling.measures import cohesion, size_counts
from trailforge.generators.document_bundles.bundling.names import name_weights
from trailforge.retrieval.entities import CaseCounts, Name, merge_short_names, names_of

_PRESET = BundleConfig(is_centred=True, min_shared=4.0, window_days=92)
VARIANTS = {
    "recipe": replace(_PRESET, method="recipe"),
    "recipe-pca": replace(_PRESET, method="recipe", reduction="pca"),
    "hdbscan": replace(_PRESET, method="hdbscan"),
    "greedy": replace(_PRESET, method="greedy"),
    "parts-recipe": replace(_PRESET, within="recipe", reduction="pca"),
    "parts-greedy": _PRESET,
}
CURVE = ("recipe", "parts-recipe", "parts-greedy")
_WARM_UP = 300
_DIMENSIONS = 384
_SOURCES = 40
_CHARACTERS = 1000  # of a text, beside its title; the encoder reads 256 tokens
_YEARS_OF_DAYS = 5 * 365
_ALONE = 0.5  # of the documents
_THEME_NAMES, _EVENT_NAMES = 30, 3
_ALL_THEME_NAMES = 300  # themes share them, so that they are as usual in many documents as in few
_PER_DOCUMENT = 3  # names of its theme, beside those of its event; of real ones 5.8 stand in two documents or more


@dataclass(frozen=True)
class _Archive:
    """Documents as bundling is given them."""

    vectors: np.ndarray
    """Of length 1."""
    sources: list[str]
    published: list[str]
    names: list[list[Name]]

    def bundle(self, config: BundleConfig, seed: int) -> Bundling:
        names = name_weights(self.names, config, CaseCounts.of(()))
        return bundle_documents(self.vectors, self.sources, config, seed, self.published, names=names)

    def take(self, rows: list[int]) -> _Archive:
        return _Archive(
            self.vectors[rows],
            [self.sources[row] for row in rows],
            [self.published[row] for row in rows],
            [self.names[row] for row in rows],
        )


def main() -> None:
    """Measure seconds and memory at each of `--sizes`, compare the variants at `--compare` documents, and write both
    tables and a plot to the folder `--out`. With `--embed FILE`, only make that file of real vectors.
    """
    options = _options()
    if options.embed:
        _embed(options.embed)
    elif options.child:
        print(json.dumps(_measure(options)))
    else:
        options.out.mkdir(parents=True, exist_ok=True)
        curve = _curve(options)
        comparison = _comparison(options) if options.compare else ""
        table = _curve_table(curve) if curve else ""
        (options.out / "bundling.md").write_text("\n\n".join(filter(None, [table, comparison])) + "\n")
        if curve:
            (options.out / "bundling.json").write_text(json.dumps(curve, indent=1))
            _plot(curve, options.out / "bundling.svg")
        print(f"\nwritten to {options.out}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=_numbers, default=[1000, 3500, 10_000, 30_000, 100_000], help="of the curve")
    parser.add_argument("--recipe-up-to", type=int, default=30_000, help="documents; Ward's memory grows with n²")
    parser.add_argument("--compare", type=int, default=3500, help="documents of the comparison; 0: none")
    parser.add_argument("--seeds", type=_numbers, default=[0, 1, 2], help="of the recipe's runs in the comparison")
    parser.add_argument("--min-cosine", type=float, default=BundleConfig().min_cosine)
    parser.add_argument("--vectors", type=Path, help="npz of `--embed`; larger sizes are made up")
    parser.add_argument("--embed", type=Path, help="make that file and end")
    parser.add_argument("--out", type=Path, default=Path("datasets_out/benchmarks"))
    parser.add_argument("--child", choices=VARIANTS, help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--bundling", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


# One run


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    documents = _documents(options.size, options.vectors)
    config = replace(VARIANTS[options.child], min_cosine=options.min_cosine)
    documents.take(list(range(min(_WARM_UP, options.size)))).bundle(config, options.seed)
    before = _forget_peak()
    started, cpu = time.perf_counter(), time.process_time()
    bundling = documents.bundle(config, options.seed)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    if options.bundling:
        options.bundling.write_text(json.dumps([bundling.bundles, bundling.leftovers]))
    return {
        "variant": options.child,
        "documents": options.size,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "peak_mb": _peak_mb(),
        "added_mb": _peak_mb() - before,
        "cohesion": mean_cohesion(documents.vectors, bundling),
        "left_over": leftover_share(bundling),
        "sizes": size_counts(bundling),
        "sources": source_counts(bundling, documents.sources),
    }


def _forget_peak() -> float:
    """Let the peak begin anew, from what is held now, in MB: making the vectors took more than bundling them may."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak_mb()


def _peak_mb() -> float:
    """Largest resident memory since the peak was forgotten; Linux only."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def _documents(count: int, file: Path | None) -> _Archive:
    """Those of the file when it holds enough, drawn at random; else made up."""
    rng = np.random.default_rng(0)
    if file:
        real = _read(file)
        if len(real.sources) >= count:
            return real.take(rng.choice(len(real.sources), count, replace=False).tolist())
    themes, events = -(-count // 100), -(-count // 4)
    event_of = rng.integers(events, size=count)
    alone = np.flatnonzero(rng.random(count) < _ALONE)
    event_of[alone] = events + np.arange(len(alone))
    events += len(alone)
    theme_of = rng.integers(themes, size=events)
    centres = (
        rng.normal(size=(themes, _DIMENSIONS)).astype(np.float32)[theme_of]
        + rng.normal(size=(events, _DIMENSIONS)).astype(np.float32) * 0.7
    )
    vectors = centres[event_of] + rng.normal(size=(count, _DIMENSIONS)).astype(np.float32) * 0.5
    # A theme is told by a few sources more than by the others, as real ones are.
    habits = rng.dirichlet(np.full(_SOURCES, 0.3), size=themes).cumsum(axis=1)
    chosen = (rng.random((count, 1)) > habits[theme_of[event_of]]).sum(axis=1)
    days = rng.integers(_YEARS_OF_DAYS, size=events)[event_of] + rng.integers(20, size=count)
    return _Archive(
        vectors / np.linalg.norm(vectors, axis=1, keepdims=True),
        [f"source{number}" for number in chosen],
        [str(date(2019, 1, 1) + timedelta(int(day))) for day in days],
        [list(_made_up_names(rng, int(event), int(theme_of[event]))) for event in event_of],
    )


def _made_up_names(rng: np.random.Generator, event: int, theme: int) -> Iterator[Name]:
    """Each name of the event with three chances in four, and a few of the theme's, some much more often than others."""
    for number in np.flatnonzero(rng.random(_EVENT_NAMES) < 0.75):
        yield Name(f"event {event} {number}", "", 2, is_in_title=False)
    for number in np.unique((_THEME_NAMES * rng.random(_PER_DOCUMENT) ** 3).astype(int)):
        name = (theme * _THEME_NAMES // 3 + number) % _ALL_THEME_NAMES
        yield Name(f"theme {name}", "", 1 + int(rng.integers(2)), is_in_title=False)


def _run(variant: str, size: int, options: argparse.Namespace, seed: int = 0, keep: Path | None = None) -> dict:
    command = [sys.executable, __file__, "--child", variant, "--size", str(size), "--seed", str(seed),
               "--min-cosine", str(options.min_cosine)]  # fmt: skip
    command += ["--vectors", str(options.vectors)] if options.vectors else []
    command += ["--bundling", str(keep)] if keep else []
    compiled = Path(tempfile.gettempdir()) / "trailforge-numba"  # half a minute less in every process but the first
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "NUMBA_CACHE_DIR": str(compiled)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


# The curve


def _curve(options: argparse.Namespace) -> list[dict[str, Any]]:
    results = []
    for size in options.sizes:
        for variant in CURVE:
            if variant == "recipe" and size > options.recipe_up_to:
                continue
            results.append(_run(variant, size, options))
            if len(results) == 1:
                print(_CURVE_HEAD)
            print(_curve_line(results[-1]), flush=True)
    return results


_CURVE_HEAD = (
    "| variant | documents | CPU seconds | ms a document | peak MB | of it bundling | cohesion | left over |\n"
    "|---|---|---|---|---|---|---|---|"
)


def _curve_line(r: dict[str, Any]) -> str:
    return (
        f"| {r['variant']} | {r['documents']:,} | {r['cpu_seconds']:.2f} "
        f"| {r['cpu_seconds'] / r['documents'] * 1000:.2f} "
        f"| {r['peak_mb']:.0f} | {r['added_mb']:.0f} | {r['cohesion']:.3f} | {r['left_over']:.1%} |"
    )


def _curve_table(results: list[dict[str, Any]]) -> str:
    return "\n".join([_CURVE_HEAD, *map(_curve_line, results)])


def _plot(results: list[dict[str, Any]], file: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "trailforge"  # the same figures give the same file
    figure, panels = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for panel, key, label in zip(panels, ("cpu_seconds", "peak_mb"), ("CPU seconds", "peak memory, MB"), strict=True):
        for variant in CURVE:
            points = [(r["documents"], r[key]) for r in results if r["variant"] == variant]
            panel.plot(*zip(*points, strict=True), marker="o", label=variant) if points else None
        panel.set(xscale="log", yscale="log", xlabel="documents", ylabel=label)
        panel.grid(alpha=0.3)
    panels[0].legend()
    figure.savefig(file, metadata={"Date": None})


# The comparison


def _comparison(options: argparse.Namespace) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        recipes: list[Bundling] = []
        lines: list[str] = []
        for seed in options.seeds:
            result, bundling = _kept("recipe", options, seed, Path(scratch))
            recipes.append(bundling)
            lines += [] if lines else [_comparison_line(result, "")]
        own = [adjusted_rand(first, second) for first, second in combinations(recipes, 2)]
        lines = [line.replace("||", f"| {_mean(own)} |") for line in lines]
        for variant in VARIANTS:
            if variant != "recipe":
                # Another seed than any of the recipe's: with the same one hdbscan would cut the same layout.
                result, bundling = _kept(variant, options, max(options.seeds) + 1, Path(scratch))
                lines.append(_comparison_line(result, _mean([adjusted_rand(bundling, recipe) for recipe in recipes])))
    head = (
        f"{options.compare:,} documents, {len(options.seeds)} runs of the recipe\n\n"
        "| variant | cohesion | left over | bundles of 2, 3, 4 | of 2, 3, 4 sources | agreement with the recipe "
        "| CPU seconds |\n|---|---|---|---|---|---|---|"
    )
    table = "\n".join([head, *lines])
    print(f"\n{table}")
    return table


def _kept(variant: str, options: argparse.Namespace, seed: int, folder: Path) -> tuple[dict[str, Any], Bundling]:
    file = folder / f"{variant}-{seed}.json"
    result = _run(variant, options.compare, options, seed, file)
    bundles, leftovers = json.loads(file.read_text())
    return result, Bundling(bundles=tuple(map(tuple, bundles)), leftovers=tuple(Leftover(*left) for left in leftovers))


def _comparison_line(r: dict[str, Any], agreement: str) -> str:
    sizes, sources = ([str(r[key].get(number, 0)) for number in "234"] for key in ("sizes", "sources"))
    return (
        f"| {r['variant']} | {r['cohesion']:.3f} | {r['left_over']:.1%} | {', '.join(sizes)} | {', '.join(sources)} "
        f"|{f' {agreement} ' if agreement else ''}| {r['cpu_seconds']:.1f} |"
    )


def _mean(values: list[float]) -> str:
    return f"{sum(values) / len(values):.3f}" if values else "one run only"


# Real documents


def _embed(file: Path) -> None:
    """MiniLM's vectors and the names of all news articles and abstracts: about two minutes on two cores."""
    from trailforge.retrieval.encoders.encoder import Encoder

    articles = list(_articles(Path(os.environ["TRAILFORGE_DATA"])))
    counts = CaseCounts.of(article.text for article in articles)
    names = merge_short_names([names_of(article.title, article.text, counts) for article in articles])
    vectors = Encoder().encode_documents([f"{each.title}. {each.text[:_CHARACTERS]}" for each in articles])
    np.savez(
        file,
        vectors=vectors,
        sources=np.array([each.source for each in articles]),
        published=np.array([each.published for each in articles]),
        names=np.array(json.dumps(names)),
    )
    print(f"{len(articles)} documents in {file}")


def _read(file: Path) -> _Archive:
    held = np.load(file)
    names = [[Name(*name) for name in each] for each in json.loads(str(held["names"]))]
    return _Archive(held["vectors"], held["sources"].tolist(), held["published"].tolist(), names)


class _Article(NamedTuple):
    title: str
    text: str
    source: str
    published: str


def _articles(folder: Path) -> Iterator[_Article]:
    """The subject's archive is an abstract's source, since all come from arXiv."""
    for path in sorted(
        [*folder.glob("news/digitalgov*.gz"), *folder.glob("news/wikinews*.gz"), *folder.glob("arxiv/*.gz")]
    ):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                text = row.get("text") or row.get("abstract") or ""
                source = row.get("source") or f"arxiv {row['primary_category'].partition('.')[0]}"
                yield _Article(row["title"], text, source, row.get("date") or row["listed_date"])


def mean_cohesion(vectors: np.ndarray, bundling: Bundling) -> float:
    """Return the mean cohesion of the bundles, each of equal weight; NaN when there are none. `vectors` is (n, d), of
    length 1.
    """
    each = [cohesion(vectors[list(rows)]) for rows in bundling.bundles]
    return sum(each) / len(each) if each else math.nan


def source_counts(bundling: Bundling, sources: Sequence[str]) -> dict[int, int]:
    """Return how many bundles have documents from two, from three and from four sources."""
    return dict(sorted(Counter(len({sources[row] for row in rows}) for rows in bundling.bundles).items()))


def leftover_share(bundling: Bundling) -> float:
    """Return the share of documents that are in no bundle; 0 when there are no documents."""
    left, total = len(bundling.leftovers), len(bundling.leftovers) + sum(map(len, bundling.bundles))
    return left / total if total else 0.0


def adjusted_rand(first: Bundling, second: Bundling) -> float:
    """Return the adjusted Rand index of two bundlings of the same documents: 1 when they group the same pairs, about 0
    by chance. Each document in no bundle counts as a group of its own.
    """
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(_labels(first), _labels(second)))


def _labels(bundling: Bundling) -> list[int]:
    """For each document the number of its bundle, or one of its own."""
    groups = [*bundling.bundles, *((left.index,) for left in bundling.leftovers)]
    by_row = {row: number for number, rows in enumerate(groups) for row in rows}
    return [by_row[row] for row in range(len(by_row))]


if __name__ == "__main__":
    main()
