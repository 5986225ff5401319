"""Builds a store from a source: what its rows come to is gathered, made numbers, sorted columns, and files."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from trailforge.retrieval.kg.columns import as_texts, bucket_bits, grouped, offsets, save, save_texts
from trailforge.retrieval.kg.folding import name_words, unqualified
from trailforge.retrieval.kg.graph import both_ways, sorted_triples
from trailforge.retrieval.kg.layout import write_manifest
from trailforge.retrieval.kg.names import save_names
from trailforge.retrieval.seals import building
from trailforge.schemas import InvalidInput, KgStats, RejectedRow, write_parquet

REJECTED = "rejected.parquet"
_CHUNK = 200_000
_GATHERED = 500_000
"""Texts that are moved into Arrow at once."""
_MOST_INVALID = 0.05
"""Share of invalid rows above which the source is taken for a wrong or broken one."""
_ENOUGH_INVALID = 1000
"""Invalid rows from which their share is looked at while reading."""


class KgSource(Protocol):
    """Published files of a graph."""

    @property
    def name(self) -> str:
        """Of the graph or its format."""
        ...

    def files(self) -> list[Path]:
        """What is read. Raises `InvalidInput` when something is missing."""
        ...

    def read(self, into: Gathered) -> None:
        """Read all rows. Raises `InvalidInput` for files that cannot be used at all."""
        ...


class _Texts:
    """Texts that are moved from Python objects into Arrow, chunk by chunk."""

    def __init__(self) -> None:
        self._chunks: list[pa.LargeStringArray] = []
        self.fresh: list[str] = []

    def flush(self) -> None:
        """Move what is fresh."""
        self._chunks.append(as_texts(self.fresh))
        self.fresh.clear()

    def all(self) -> pa.ChunkedArray:
        """All texts in order; they are given away, so that their memory can be."""
        self.flush()
        chunks, self._chunks = self._chunks, []
        return pa.chunked_array(chunks, pa.large_string())


class NamedThings:
    """Entities or relations with their names, in the order of the source. An id may come several times."""

    def __init__(self) -> None:
        self._ids, self._names = _Texts(), _Texts()
        self._counts: list[np.ndarray] = []
        self._fresh_counts: list[int] = []

    def add(self, key: str, names: Iterable[str]) -> None:
        """One thing's names, the label first. Repeated and empty ones are left out."""
        distinct = dict.fromkeys(" ".join(name.split()) for name in names)
        distinct.pop("", None)
        self._ids.fresh.append(key)
        self._names.fresh += distinct
        self._fresh_counts.append(len(distinct))
        if len(self._fresh_counts) >= _GATHERED:
            self._flush()

    def ids(self) -> pa.ChunkedArray:
        """The id of each addition."""
        return self._ids.all()

    def names(self) -> tuple[pa.ChunkedArray, np.ndarray]:
        """All names, and how many each addition has."""
        self._flush()
        return self._names.all(), np.concatenate(self._counts)

    def _flush(self) -> None:
        self._ids.flush()
        self._names.flush()
        self._counts.append(np.array(self._fresh_counts, np.int64))
        self._fresh_counts.clear()


class Gathered:
    """Where a source puts its rows."""

    def __init__(self) -> None:
        self.entities, self.relations = NamedThings(), NamedThings()
        self.rejected: list[RejectedRow] = []
        self._values: set[str] = set()
        self.rows = 0
        """Read, the invalid ones too."""
        self._heads, self._relations, self._tails = _Texts(), _Texts(), _Texts()

    def named(self, things: NamedThings, key: str, names: Iterable[str]) -> None:
        """A valid row about one of the entities or relations: its id and names, the label first."""
        self.rows += 1
        things.add(key, names)

    def triple(self, head: str, relation: str, tail: str) -> None:
        """A valid row that is a triple, by ids."""
        self.rows += 1
        self._heads.fresh.append(head)
        self._relations.fresh.append(relation)
        self._tails.fresh.append(tail)
        if len(self._heads.fresh) >= _GATHERED:
            for column in (self._heads, self._relations, self._tails):
                column.flush()

    def fact(self, head: str, relation: str, value: str) -> None:
        """A valid row that is a triple with a value instead of a tail: a date, a number, a text."""
        key = value_id(value)
        if key not in self._values:
            self._values.add(key)
            self.entities.add(key, [value])
        self.triple(head, relation, key)

    def triples(self) -> tuple[pa.ChunkedArray, pa.ChunkedArray, pa.ChunkedArray]:
        """All heads, relations and tails, by id."""
        return self._heads.all(), self._relations.all(), self._tails.all()

    def reject(self, file: object, row: int, field: str | None, problem: str, payload: str) -> None:
        """A row that cannot be used. Raises `InvalidInput` when there are too many of them."""
        self.rows += 1
        detail = str(InvalidInput(problem, file=file, row=row, field=field))
        rejected = RejectedRow(
            uid=f"{file}:{row}", stage="kg", reason=InvalidInput.reason, score=0.0, detail=detail, payload=payload
        )
        self.rejected.append(rejected)
        if len(self.rejected) > _ENOUGH_INVALID:
            self.check()

    def check(self) -> None:
        """Raise `InvalidInput` with the first reason when more than 5 % of the rows are invalid."""
        share = len(self.rejected) / max(self.rows, 1)
        if share > _MOST_INVALID:
            raise InvalidInput(
                f"{len(self.rejected):,} of {self.rows:,} rows are invalid ({share:.0%}, at most {_MOST_INVALID:.0%}); "
                f"the first: {self.rejected[0].detail}"
            )


def value_id(value: str) -> str:
    """The id of a value: between quotation marks, as no entity's is."""
    return f'"{value}"'


def codes_of(groups: Sequence[pa.ChunkedArray]) -> tuple[pa.LargeStringArray, list[np.ndarray]]:
    """Groups of texts as numbers (int32, same lengths), and the distinct texts in the order they first come."""
    encoded = pa.chunked_array(list(chain.from_iterable(g.chunks for g in groups)), pa.large_string())
    encoded = encoded.dictionary_encode().unify_dictionaries()
    numbers = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks] or [np.zeros(0, np.int32)])
    distinct = encoded.chunk(0).dictionary if encoded.num_chunks else as_texts([])
    return distinct, np.split(numbers, np.cumsum([len(group) for group in groups])[:-1])


def build_kg(source: KgSource, out: Path) -> KgStats:
    """Build a store in a folder, whole or not at all; the same source gives the same bytes. Returns what it holds.

    Triples are merged and each kept once. Needs about 350 bytes of memory a triple at Wikidata5M's proportions. Raises
    `InvalidInput` for a source that cannot be read, has no triples or more than 5 % invalid rows, and `OutputError` for
    a folder that exists or cannot be written.
    """
    inputs = source.files()
    with building(out) as folder:
        gathered = Gathered()
        source.read(gathered)
        gathered.check()
        stats = _write(gathered, folder)
        write_manifest(folder, source.name, inputs, stats)
    return stats


def _write(gathered: Gathered, folder: Path) -> KgStats:
    write_parquet(folder / REJECTED, RejectedRow, gathered.rejected)
    heads, relations, tails = gathered.triples()
    rows = len(heads)
    if not rows:
        raise InvalidInput("the source has no triples")
    named = gathered.entities.ids()
    entity_ids, (named_rows, head_rows, tail_rows) = codes_of([named, heads, tails])
    relation_ids, (named_relations, relation_rows) = codes_of([gathered.relations.ids(), relations])
    del heads, relations, tails, named
    triples = sorted_triples(head_rows, relation_rows, tail_rows)
    del head_rows, relation_rows, tail_rows
    degrees = np.bincount(triples[0], minlength=len(entity_ids)) + np.bincount(triples[2], minlength=len(entity_ids))
    for adjacency, name in zip(both_ways(triples, len(entity_ids)), ("out", "into"), strict=True):
        adjacency.save(folder, name)
    _save_ids(folder, entity_ids)
    save_texts(folder, "relations", relation_ids)
    _save_names(folder, "relation_names", gathered.relations, named_relations, relation_ids)
    names, unnamed = _save_names(folder, "names", gathered.entities, named_rows, entity_ids)
    words = _index_names(folder, names)
    return KgStats(
        entities=len(entity_ids),
        relations=len(relation_ids),
        triples=triples.shape[1],
        duplicate_triples=rows - triples.shape[1],
        names=len(names),
        words=words,
        unnamed_entities=unnamed,
        isolated_entities=int(np.count_nonzero(degrees == 0)),
        rows=gathered.rows,
        invalid_rows=len(gathered.rejected),
        mean_degree=round(float(degrees.mean()), 4),
        max_degree=int(degrees.max()),
        bytes=sum(path.stat().st_size for path in folder.iterdir()),
    )


def _save_ids(folder: Path, ids: pa.LargeStringArray) -> None:
    save_texts(folder, "ids", ids)
    hashes = np.fromiter((id_hash(key) for key in ids.to_pylist()), np.int64, len(ids))
    starts, rows = grouped(hashes >> (32 - bucket_bits(len(ids), 2)), 1 << bucket_bits(len(ids), 2))
    save(folder, "ids.buckets", starts)
    save(folder, "ids.rows", rows.astype(np.int32))


def id_hash(key: str) -> int:
    """An id's hash, 32 bits."""
    return zlib.crc32(key.encode())


def _save_names(
    folder: Path, name: str, things: NamedThings, rows: np.ndarray, ids: pa.LargeStringArray
) -> tuple[pa.LargeStringArray, int]:
    """Write the names of things by row, each thing's in order, the label first; and how many got their id for a name.

    `rows`: the thing of each addition. Things that were added several times keep the first label; a name that comes
    twice stays once.
    """
    texts, counts = things.names()
    owners = np.repeat(rows, counts)
    unnamed = np.flatnonzero(np.bincount(owners, minlength=len(ids)) == 0)
    owners = np.concatenate([owners, unnamed.astype(np.int32)])
    names = pa.chunked_array([*texts.chunks, ids.take(pa.array(unnamed))], pa.large_string()).combine_chunks()
    if np.any(owners[1:] < owners[:-1]) or len(rows) != len(np.unique(rows)):
        names, owners = _in_order(names, owners)
    save_texts(folder, name, names)
    save(folder, f"{name}.of", offsets(np.bincount(owners, minlength=len(ids))))
    return names, len(unnamed)


def _in_order(names: pa.LargeStringArray, owners: np.ndarray) -> tuple[pa.LargeStringArray, np.ndarray]:
    """Names by owner, in the order they came, each once."""
    codes = names.dictionary_encode().indices.to_numpy()
    _, first = np.unique(owners.astype(np.int64) << 32 | codes, return_index=True)
    kept = first[np.lexsort((first, owners[first]))]
    return names.take(pa.array(kept)), owners[kept]


def _index_names(folder: Path, names: pa.LargeStringArray) -> int:
    """Write the index of entities' names; how many distinct words they have."""
    words, counts, cores = [], [], []
    for start in range(0, len(names), _CHUNK):
        texts = names.slice(start, _CHUNK).to_pylist()
        split = [name_words(name) for name in texts]
        counts.append(np.fromiter(map(len, split), np.int64, len(split)))
        before = (name_words(core) if (core := unqualified(name)) else () for name in texts)
        cores.append(np.fromiter(map(len, before), np.int64, len(split)))
        words.append(as_texts([word for each in split for word in each]))
    every = pa.chunked_array(words, pa.large_string()).combine_chunks()
    return save_names(folder, every, np.concatenate(counts), np.concatenate(cores))
