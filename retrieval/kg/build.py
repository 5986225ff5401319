"""Build a store from a source: rows to numbers, numbers to sorted columns, columns to files."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from trailforge.retrieval.indexes.seals import building
from trailforge.retrieval.kg.columns import as_texts, bucket_bits, grouped, offsets, save, save_texts
from trailforge.retrieval.kg.folding import name_words, unqualified
from trailforge.retrieval.kg.graph import both_ways, sorted_triples
from trailforge.retrieval.kg.layout import write_manifest
from trailforge.retrieval.kg.names import save_names
from trailforge.retrieval.kg.rows import CODE, INSTANCE_OF, Gathered, NamedThings, codes_of, shapes_of
from trailforge.retrieval.kg.sources import KgSource
from trailforge.schemas import InvalidInput, KgStats, RejectedRow, write_parquet

pc: Any = pyarrow.compute  # its stubs lack the functions
REJECTED = "rejected.parquet"
_CHUNK = 200_000


def build_kg(source: KgSource, out: Path) -> KgStats:
    """Build a store in a folder, whole or not at all; the same source gives the same bytes. Returns the store's
    figures.

    Triples are merged and each kept once. Needs about 350 bytes of memory a triple at Wikidata5M's proportions. Raises
    `InvalidInput` for a source that cannot be read, has no triples or more than 5 % invalid rows, and `OutputError` for
    a folder that exists or cannot be written.
    """
    inputs = source.files()
    with building(out) as folder:
        gathered = Gathered()
        source.read(gathered)
        gathered.check()
        stats = _write(gathered, folder, inputs)
        write_manifest(folder, source.name, inputs, stats)
    return stats


def _write(gathered: Gathered, folder: Path, inputs: list[Path]) -> KgStats:
    write_parquet(folder / REJECTED, RejectedRow, gathered.rejected)
    heads, relations, tails = gathered.triples()
    rows = len(heads)
    if not rows:
        raise InvalidInput("the source has no triples; give files that hold some", file=", ".join(map(str, inputs[:3])))
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
    names, labels, unnamed = _save_names(folder, "names", gathered.entities, named_rows, entity_ids)
    words = _index_names(folder, names)
    return KgStats(
        entities=len(entity_ids),
        relations=len(relation_ids),
        triples=triples.shape[1],
        duplicate_triples=rows - triples.shape[1],
        names=len(names),
        words=words,
        unnamed_entities=unnamed,
        entities_by_name=_count_by_name(entity_ids, labels, pc.equal(relation_ids, INSTANCE_OF), triples),
        isolated_entities=int(np.count_nonzero(degrees == 0)),
        rows=gathered.rows,
        invalid_rows=len(gathered.rejected),
        mean_degree=round(float(degrees.mean()), 4),
        max_degree=int(degrees.max()),
        bytes=sum(path.stat().st_size for path in folder.iterdir()),
    )


def _count_by_name(
    ids: pa.LargeStringArray, labels: pa.LargeStringArray, is_a: pa.BooleanArray, triples: np.ndarray
) -> int:
    """How many entities have nothing but their name for an id; values and classes aside."""
    shapes = shapes_of(ids)
    of_codes = pc.unique(shapes.filter(pc.not_equal(ids, labels)))
    codes = pc.or_(pc.is_in(shapes, of_codes), pc.match_substring_regex(ids, f'^(?:{CODE}|".*)$'))
    named = pc.and_not(pc.equal(ids, labels), codes).to_numpy(zero_copy_only=False).copy()
    is_class = is_a.to_numpy(zero_copy_only=False)[triples[1]]
    named[np.setdiff1d(triples[2][is_class], np.concatenate([triples[0], triples[2][~is_class]]))] = False
    return int(np.count_nonzero(named))


def _save_ids(folder: Path, ids: pa.LargeStringArray) -> None:
    save_texts(folder, "ids", ids)
    hashes = np.fromiter((id_hash(key) for key in ids.to_pylist()), np.int64, len(ids))
    starts, rows = grouped(hashes >> (32 - bucket_bits(len(ids), 2)), 1 << bucket_bits(len(ids), 2))
    save(folder, "ids.buckets", starts)
    save(folder, "ids.rows", rows.astype(np.int32))


def id_hash(key: str) -> int:
    """Return the 32-bit hash of an id."""
    return zlib.crc32(key.encode())


def _save_names(
    folder: Path, name: str, things: NamedThings, rows: np.ndarray, ids: pa.LargeStringArray
) -> tuple[pa.LargeStringArray, pa.LargeStringArray, int]:
    """Write the names of things by row, each thing's in order, the label first. All names, the labels, and how many
    got their id for a name.

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
    save(folder, f"{name}.of", starts := offsets(np.bincount(owners, minlength=len(ids))))
    return names, names.take(pa.array(starts[:-1])), len(unnamed)


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
