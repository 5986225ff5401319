"""Measure what a score of entity matching means: which share of mentions is matched rightly and wrongly at each
threshold.

The graph is that of `kg.py --real`, CoDEx and FB15k-237, with every fourth entity left out, and of those that stay one
name of every second that has several. Asked for are: names left out of entities that stay; their labels with one and
two edits; Wikipedia's titles of them, where they are no names in the graph; what people wrote for them in the questions
of Mintaka. And of the entities that were left out their labels and what people wrote, for which nothing is right.
Names that an entity of the graph has are no mentions here: they are found whatever the score. *Right* is the entity
that was meant, in the first place; *wrong* any other one there.

    python benchmarks/kg_names.py
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from kg import _edited, _real

from trailforge.retrieval.kg import KgStore, build_kg, match, match_entity
from trailforge.retrieval.kg.folding import fold
from trailforge.retrieval.kg.rows import Gathered

_LEAST = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)


class _Part:
    """The triples and names of some of the entities."""

    name = "part"

    def __init__(self, whole: KgStore, names: dict[str, list[str]]) -> None:
        self._whole, self._names = whole, names

    def files(self) -> list[Path]:
        """None."""
        return []

    def read(self, into: Gathered) -> None:
        """See `KgSource`."""
        for key, names in self._names.items():
            into.named(into.entities, key, names)
            for triple in self._whole.triples_of(key):
                if triple.head == key and triple.tail in self._names:
                    into.triple(triple.head, triple.relation, triple.tail)


def main() -> None:
    """Build the graph, look the names up, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=1000, help="of each kind")
    parser.add_argument("--show", type=int, default=0, help="so many that are found wrong at 0.5, of each kind")
    options = parser.parse_args()
    match.MIN_SCORE = _LEAST[0]
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        build_kg(_real(folder), folder / "whole")
        whole = KgStore.open(folder / "whole")
        names = {whole.id_of(row): whole.names_of(row) for row in range(len(whole))}
        absent = {key for number, key in enumerate(names) if number % 4 == 0}
        kept = {key: list(each) for key, each in names.items() if key not in absent}
        withheld = {key: each.pop(rng.randrange(1, len(each))) for key, each in kept.items() if len(each) > 2}
        withheld = {key: name for number, (key, name) in enumerate(withheld.items()) if number % 2}
        build_kg(_Part(whole, kept), folder / "part")
        store = KgStore.open(folder / "part")
        known = {fold(name) for each in kept.values() for name in each}
        print(f"| mention | n | {' | '.join(f'{least:.2f}' for least in _LEAST)} |")
        print(f"|---|---:|{'---:|' * len(_LEAST)}")
        for kind, pairs in _mentions(names, kept, absent, withheld, rng).items():
            asked = [(text, key) for text, key in pairs if fold(text) not in known]
            _print_row(store, kind, rng.sample(asked, min(options.queries, len(asked))), options.show)


def _mentions(
    names: dict[str, list[str]],
    kept: dict[str, list[str]],
    absent: set[str],
    withheld: dict[str, str],
    rng: random.Random,
) -> dict[str, list[tuple[str, str]]]:
    """Mentions with the entity that is meant, by kind."""
    labels = [(each[0], key) for key, each in kept.items()]
    asked: dict[str, list[tuple[str, str]]] = defaultdict(list)
    asked["a name that the graph lacks"] = [(name, key) for key, name in withheld.items()]
    for edits in (1, 2):
        changed = [(_edited(edits)(label, rng), key) for label, key in labels]
        asked[f"{edits} edit{'s' * (edits > 1)}"] = [(text, key) for text, key in changed if text]
    for title, key in _wikipedia():
        asked["a Wikipedia title" + (" of an entity left out" if key in absent else "")].append((title, key))
    asked["a label of an entity left out"] = [(names[key][0], key) for key in sorted(absent)]
    for text, key in _written():
        if key in names:
            asked["as people wrote" + (", an entity left out" if key in absent else "")].append((text, key))
    return asked


def _wikipedia() -> Iterator[tuple[str, str]]:
    for row in [*_rows("codex_entities"), *_rows("fb15k237_entities")]:
        if row.get("wikipedia") and row.get("qid"):
            yield unquote(row["wikipedia"].rpartition("/wiki/")[2]).replace("_", " "), row["qid"]


def _written() -> Iterable[tuple[str, str]]:
    found = [entity for row in _rows("mintaka_dev_en") for entity in row["question_entities"]]
    return dict.fromkeys((each["mention"], each["name"]) for each in found if each["entityType"] == "entity")


def _rows(name: str) -> list[dict[str, Any]]:
    path = Path(os.environ["TRAILFORGE_DATA"]) / "kg" / f"{name}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _print_row(store: KgStore, kind: str, asked: list[tuple[str, str]], show: int) -> None:
    found = [(text, key, one) for text, key in asked for one in match_entity(store, text)[:1]]
    shares = []
    for least in _LEAST:
        counted = [one.entity_id == key for _, key, one in found if one.score >= least]
        shares.append(f"{sum(counted) / max(len(asked), 1):.3f}, {counted.count(False) / max(len(asked), 1):.3f}")
    print(f"| {kind} | {len(asked)} | {' | '.join(shares)} |", flush=True)
    wrong = sorted((one.score, text, one.name) for text, key, one in found if one.entity_id != key)
    for score, text, name in wrong[:: max(len(wrong) // show, 1)] if show else ():
        print(f"    {score:.3f} {text!r} -> {name!r}")


if __name__ == "__main__":
    main()
