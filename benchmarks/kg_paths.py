"""Count what a graph offers for questions: paths, different answers, pairs of relations, refused paths, and seconds.

The graph is CoDEx's labelled triples with the names and types of its entities, or one that `trailforge kg build` made.
Paths are those of a preset, with other numbers of its `paths` if given.

    python benchmarks/kg_paths.py --count 200
    python benchmarks/kg_paths.py --count 200 --set spare_hops=[1] --show 30
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import yaml

from trailforge.generators.kg_questions.config import KgQuestionRunConfig
from trailforge.generators.kg_questions.paths.config import KgPathConfig
from trailforge.generators.kg_questions.paths.sampling import PathSampler
from trailforge.generators.kg_questions.paths.shortage import list_refusals
from trailforge.generators.kg_questions.wording import compose
from trailforge.pipelines.runs.config import read_config
from trailforge.presets import load_preset
from trailforge.retrieval.kg import KgStore, build_kg, open_source
from trailforge.schemas import FactChain


def main() -> None:
    """Build the graph, sample paths, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kg", type=Path, help="a folder of `trailforge kg build` instead of CoDEx")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--preset", default="kg-questions")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="others than the preset's, as YAML")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=0, help="so many of the paths, by lot")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = KgStore.open(given.kg or _codex(Path(folder) / "kg"))
        sampler = PathSampler(store, _read_paths(given.preset, given.set), given.seed)
        began = time.monotonic()
        chains = list(sampler.sample(given.count))
        seconds = time.monotonic() - began
        _report(chains, sampler, seconds)
        for chain in random.Random(given.seed).sample(chains, min(given.show, len(chains))):
            print(f"\n{compose(chain).question} {chain.answer.label}")
            print("  " + "; ".join(fact.triple.text for fact in chain.facts))


def _read_paths(preset: str, changes: Sequence[str]) -> KgPathConfig:
    content = load_preset(preset, "kg_questions")
    changed = {name: yaml.safe_load(value) for name, _, value in (change.partition("=") for change in changes)}
    content["paths"] = content.get("paths", {}) | changed
    return read_config(KgQuestionRunConfig, content, source=preset).paths


def _codex(folder: Path) -> Path:
    data = Path(os.environ["TRAILFORGE_DATA"]) / "kg"
    entities, relations = ([data / f"codex_{name}.jsonl.gz"] for name in ("entities", "relations"))
    triples = data / "codex_labelled_triples.parquet"
    build_kg(open_source(triples, entities=entities, relations=relations), folder)
    return folder


def _report(chains: Sequence[FactChain], sampler: PathSampler, seconds: float) -> None:
    pairs = Counter(
        pair
        for chain in chains
        for pair in {tuple(sorted(two)) for two in combinations([f.triple.relation_label for f in chain.facts], 2)}
    )
    forms = Counter((chain.shape, len(chain.facts)) for chain in chains)
    by_hops = Counter(len(chain.facts) for chain in chains)
    print("facts: " + ", ".join(f"{hops} in {number}" for hops, number in sorted(by_hops.items())))
    print(f"{len(chains)} paths with {len({chain.answer.label for chain in chains})} answers in {seconds:.1f} s")
    print("forms: " + ", ".join(f"{shape} of {hops} {number}" for (shape, hops), number in sorted(forms.items())))
    print(f"{len(pairs)} pairs of relations: " + ", ".join(f"{' and '.join(p)} {n}" for p, n in pairs.most_common(6)))
    print(f"attempts that gave none: {list_refusals(sampler.rejected)}")


if __name__ == "__main__":
    main()
