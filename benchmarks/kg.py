"""Benchmark the knowledge graph: build and open time, size, memory, latency of name matches and searches, recall under
typos.

`--real` builds a store from the graph under $TRAILFORGE_DATA/kg, `--synthetic` from a made-up one in Wikidata5M's
files, as large as that by default: both splits are written, so that every triple but the last 1 % comes twice.
Queries are drawn from all entities: a label as it is, an alias, another case, one and two edits anywhere (letters put
in, left out, replaced), the words in another order; and labels that several entities have, with a sub-query that
names a relation and a neighbour of the one that is meant. *Right* counts the entity that the query was made of;
*name* any entity that has the same name, which is all that can be asked without a sub-query. Times are wall times,
and in the last columns CPU times, which say more where other programs run.

    make bench B=kg ARGS="--real"
    make bench B=kg ARGS="--synthetic --entities 46000 --triples 206000"
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import os
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trailforge.retrieval.kg import KgStore, KgTool, build_kg, match_entity
from trailforge.retrieval.kg.folding import name_words
from trailforge.retrieval.kg.sources import KgSource, Tables, Wikidata5M

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CHUNK = 100_000
_RELATIONS = 822
Result = TypeVar("Result")


class Query(NamedTuple):
    """A name that is looked up, and the entity that is meant by it."""

    kind: str
    mention: str
    sub_query: str
    entity: str
    name: str


def main() -> None:
    """Build the store, open it, run the queries and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--synthetic", action="store_true")
    parser.add_argument("--entities", type=int, default=4_600_000)
    parser.add_argument("--triples", type=int, default=20_600_000)
    parser.add_argument("--words", type=int, default=2_000_000, help="of the made-up language")
    parser.add_argument("--queries", type=int, default=1000, help="of each kind, and whole searches")
    parser.add_argument("--folder", type=Path, help="for the files of the synthetic graph and the stores; kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if options.real:
            _measure("CoDEx and FB15k-237", _real(folder), folder / "real", options.queries)
        if options.synthetic:
            files = folder / "wikidata5m"
            if not files.exists():
                _timed("writing the synthetic files", lambda: _write_synthetic(files, options))
            _measure("synthetic", Wikidata5M(files), folder / "synthetic", options.queries)


def _measure(title: str, source: KgSource, folder: Path, queries: int) -> None:
    print(f"\n## {title}\n", flush=True)
    if not folder.exists():
        # In a process of its own, so that its memory and the queries' are apart.
        builder = multiprocessing.get_context("spawn").Process(target=build_kg, args=(source, folder))
        _timed("build", lambda: (builder.start(), builder.join()))
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"build: {used.ru_utime + used.ru_stime:.1f} s of CPU, peak memory {used.ru_maxrss / 1e6:.2f} GB")
    before = _memory()
    store = _timed("open", lambda: KgStore.open(folder))
    print(store.stats)
    _timed("first match", lambda: match_entity(store, store.label_of(0)))
    _print_recall(store, queries)
    _print_searches(store, queries)
    after = _memory()
    print(f"memory over import: {after[0] - before[0]:.0f} MB anonymous, {after[1] - before[1]:.0f} MB of mapped files")


def _timed(what: str, work: Callable[[], Result]) -> Result:
    started = time.perf_counter()
    result = work()
    print(f"{what}: {time.perf_counter() - started:.3f} s", flush=True)
    return result


def _memory() -> tuple[float, float]:
    """Anonymous and file-backed resident memory in MB."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    anonymous, mapped = (int(status[name].split()[0]) / 1e3 for name in ("RssAnon", "RssFile"))
    return anonymous, mapped


def _print_recall(store: KgStore, queries: int) -> None:
    rng = random.Random(0)
    print("\n| query | n | right @1 | right @5 | name @1 | p50 ms | p99 ms | max ms | CPU p50 | CPU p99 |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind in ("exact", "alias", "case", "1 edit", "2 edits", "word order", "collision"):
        made = [query for query in _queries(store, kind, rng, queries)]
        first = fifth = named = 0
        times = _Times()
        for query in made:
            matches = times.of(partial(match_entity, store, query.mention, query.sub_query))
            ids = [match.entity_id for match in matches]
            first += ids[:1] == [query.entity]
            fifth += query.entity in ids
            wanted = sorted(name_words(query.name))
            named += any(sorted(name_words(name)) == wanted for i in ids[:1] for name in store.names_of(store.row(i)))
        shares = " | ".join(f"{hits / max(len(made), 1):.3f}" for hits in (first, fifth, named))
        print(f"| {kind} | {len(made)} | {shares} | {times.row()} |", flush=True)


def _print_searches(store: KgStore, queries: int) -> None:
    """Whole searches: three mentions with one edit each, a relation, triples ranked and cut; then hubs."""
    rng = random.Random(1)
    tool = KgTool(store)
    asked = [query.mention for query in _queries(store, "1 edit", rng, 3 * queries)]
    relations = [rng.choice(store.relation_names)[0] for _ in range(queries)]
    columns = "p50 | p99 | max ms | CPU p50 | CPU p99"
    times = _Times()
    for number in range(len(asked) // 3):
        mentions, relation = asked[3 * number : 3 * number + 3], relations[number]
        times.of(partial(tool.search, mentions, [relation], f"{relation} of it"))
    print(f"\nwhole search, 3 mentions with one edit, {columns}: {times.row()}")
    degrees = store.degrees(np.arange(len(store)))
    hubs = np.argsort(-degrees, kind="stable")[: max(queries // 10, 1)]
    times = _Times()
    for hub in hubs.tolist():
        times.of(partial(tool.search, [store.label_of(hub)], [rng.choice(store.relation_names)[0]]))
    print(f"search for one of the {len(hubs)} largest hubs, {columns}: {times.row()}")


class _Times:
    """Wall and CPU milliseconds of calls."""

    def __init__(self) -> None:
        self._wall, self._cpu = [], []

    def of(self, work: Callable[[], Result]) -> Result:
        """Time one call."""
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        self._wall.append(1e3 * (time.perf_counter() - wall))
        self._cpu.append(1e3 * (time.process_time() - cpu))
        return result

    def row(self) -> str:
        """Wall p50, p99 and longest, CPU p50 and p99."""
        values = [*np.percentile(self._wall or [0.0], [50, 99, 100]), *np.percentile(self._cpu or [0.0], [50, 99])]
        return " | ".join(f"{value:.2f}" for value in values)


def _queries(store: KgStore, kind: str, rng: random.Random, count: int) -> Iterator[Query]:
    """Up to so many queries of a kind; entities without letters or aliases are passed over."""
    tries = made = 0
    while made < count and tries < 50 * count:
        tries += 1
        row = rng.randrange(len(store))
        label, *aliases = store.names_of(row)
        name = rng.choice(aliases) if kind == "alias" and aliases else label
        sub_query = _hint(store, row, rng) if kind == "collision" else ""
        if (kind == "alias" and not aliases) or (kind == "collision" and not (sub_query and _collides(store, label))):
            continue
        mention = _CHANGES.get(kind, lambda text, _: text)(name, rng)
        if mention is not None:
            made += 1
            yield Query(kind, mention, sub_query, store.id_of(row), name)


def _collides(store: KgStore, label: str) -> bool:
    """Whether several entities have this label."""
    matches = match_entity(store, label, k=2)
    return len(matches) == 2 and matches[0].score == matches[1].score == 1


def _hint(store: KgStore, row: int, rng: random.Random) -> str:
    """A relation and a neighbour of an entity, as a sub-query would name them; empty for one without triples."""
    relations = store.out.relations_of(row).tolist()
    if not relations:
        return ""
    relation = rng.choice(relations)
    neighbour = rng.choice(store.out.neighbours_of(row, relation).tolist())
    return f"Which has the {store.relation_names[relation][0]} {store.label_of(neighbour)}?"


def _edited(edits: int) -> Callable[[str, random.Random], str | None]:
    def change(text: str, rng: random.Random) -> str | None:
        if sum(map(str.isalpha, text)) < 2 + 2 * edits:
            return None  # less than every other letter stays: nobody could tell what was meant
        for _ in range(edits):
            at, way = rng.randrange(len(text)), rng.randrange(3)
            put_in = "" if way == 0 else rng.choice(_LETTERS)
            text = text[:at] + put_in + text[at + (way != 1) :]
        return text

    return change


def _reordered(text: str, rng: random.Random) -> str | None:
    words = text.split()
    changed = rng.sample(words, len(words))
    return " ".join(changed) if changed != words else None


_CHANGES: dict[str, Callable[[str, random.Random], str | None]] = {
    "case": lambda text, _: text.swapcase(),
    "1 edit": _edited(1),
    "2 edits": _edited(2),
    "word order": _reordered,
}


def _real(folder: Path) -> KgSource:
    """CoDEx and FB15k-237 in one: entities meet by their Wikidata ids."""
    data = Path(os.environ["TRAILFORGE_DATA"]) / "kg"
    entities, relations = (_column_of(data / f"fb15k237_{kind}.jsonl.gz") for kind in ("entities", "relations"))
    triples = pq.read_table(data / "fb15k237_triples.parquet")
    ids = {
        "head": pa.array([entities[n] for n in triples["head"].to_pylist()]),
        "relation": pa.array([relations[n] for n in triples["relation"].to_pylist()]),
        "tail": pa.array([entities[n] for n in triples["tail"].to_pylist()]),
    }
    path = folder / "fb15k237_triples_by_id.parquet"
    pq.write_table(pa.table(ids), path)
    return Tables(
        triples=(data / "codex_labelled_triples.parquet", path),
        entities=(data / "codex_entities.jsonl.gz", data / "fb15k237_entities.jsonl.gz"),
        relations=(data / "codex_relations.jsonl.gz",),
        name="codex and fb15k237",
    )


def _column_of(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row.get("qid") or row.get("mid") or row["label"] for row in rows]


def _write_synthetic(folder: Path, options: argparse.Namespace) -> None:
    """Wikidata5M's files. Words and the tails of triples are drawn by Zipf's law, half of the tails evenly."""
    temporary = folder.with_name(folder.name + ".tmp")
    temporary.mkdir(parents=True)
    rng = np.random.default_rng(0)
    words = _language(rng, options.words)
    with open(temporary / "wikidata5m_entity.txt", "w", encoding="utf-8") as file:
        for start in range(0, options.entities, _CHUNK):
            count = min(_CHUNK, options.entities - start)
            each = 1 + rng.poisson(2.4, count)
            names = iter(_names(rng, words, int(each.sum())))
            lines = (
                "\t".join([f"Q{start + i}", *(next(names) for _ in range(n))]) for i, n in enumerate(each.tolist())
            )
            file.write("\n".join(lines) + "\n")
    relations = list(_names(rng, words, 2 * _RELATIONS))
    batched = zip(relations[::2], relations[1::2], strict=True)
    with open(temporary / "wikidata5m_relation.txt", "w", encoding="utf-8") as file:
        file.writelines(f"P{i}\t{a}\t{b}\n" for i, (a, b) in enumerate(batched))
    _write_triples(temporary, rng, options)
    temporary.rename(folder)


def _language(rng: np.random.Generator, count: int) -> np.ndarray:
    """Made-up words of one to four syllables, short ones first, as frequent words are."""
    onsets, vowels, codas = (
        np.array([*"bcdfghjklmnprstvwz", "ch", "sh", "th", "st"]),
        np.array([*"aeiou"]),
        ["", "n", "r", "s"],
    )
    syllables = [o + v + c for o in onsets for v in vowels for c in codas]
    words: dict[str, None] = {}
    while len(words) < count:
        share = min(1 + len(words) ** 0.5 / 40, 4)
        for picks in rng.integers(0, len(syllables), (10_000, 4)):
            words["".join(syllables[p] for p in picks[: max(1, int(rng.integers(1, int(share) + 2)))])] = None
    return np.array(list(words)[:count], dtype=object)


def _names(rng: np.random.Generator, words: np.ndarray, count: int) -> Iterator[str]:
    """Names of one to four words, the last one drawn evenly, so that not too many collide, the others by Zipf's law."""
    lengths = rng.choice([1, 2, 3, 4], count, p=[0.15, 0.5, 0.25, 0.1])
    frequent = words[_zipf(rng, len(words), int(lengths.sum()) - count)].tolist()
    last = words[rng.integers(0, len(words), count)].tolist()
    at = 0
    for length, word in zip(lengths.tolist(), last, strict=True):
        yield " ".join([*frequent[at : at + length - 1], word]).title()
        at += length - 1


def _zipf(rng: np.random.Generator, most: int, count: int) -> np.ndarray:
    """Numbers below `most`, each drawn with a frequency of about one over it."""
    return np.minimum((most + 1.0) ** rng.random(count), most).astype(np.int64) - 1


def _write_triples(folder: Path, rng: np.random.Generator, options: argparse.Namespace) -> None:
    splits = ("transductive", "inductive")
    with ExitStack() as stack:
        both, most = (stack.enter_context(open(folder / f"wikidata5m_{split}_train.txt", "w")) for split in splits)
        for start in range(0, options.triples, _CHUNK):
            count = min(_CHUNK, options.triples - start)
            heads = rng.integers(0, options.entities, count).tolist()
            relations = _zipf(rng, _RELATIONS, count).tolist()
            even = rng.integers(0, options.entities, count)
            hubs = np.minimum(_zipf(rng, options.entities, count) * 7, options.entities - 1)
            tails = np.where(rng.random(count) < 0.5, even, hubs).tolist()
            lines = [f"Q{h}\tP{r}\tQ{t}\n" for h, r, t in zip(heads, relations, tails, strict=True)]
            both.writelines(lines)
            if start < 0.99 * options.triples:
                most.writelines(lines)
    for split in splits:
        for part in ("valid", "test"):
            (folder / f"wikidata5m_{split}_{part}.txt").write_text("Q0\tP0\tQ1\n")


if __name__ == "__main__":
    main()
