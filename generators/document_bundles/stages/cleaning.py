"""Documents as they were read to documents worth bundling: cleaned, judged, each text once.

    read -> normalise -> content -> exact duplicates -> near duplicates -> write by shard

Every comparison of documents is a GroupByKey, so no worker holds all of them; only the twins that were found are in one
place. What becomes of a document depends on no order in which a runner brings them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import AsList, AsSingleton

from trailforge.generators.document_bundles.bundling.content import ContentConfig, judge_content
from trailforge.generators.document_bundles.bundling.duplicates import (
    DuplicateConfig,
    Order,
    band_keys,
    candidate_pairs,
    exact_key,
    keep_one,
    order_of,
    signature,
    verified,
)
from trailforge.generators.document_bundles.bundling.normalise import line_keys, normalise_document, repeated_lines
from trailforge.inference import Usage
from trailforge.pipelines.engine.beam_work import run_beam
from trailforge.pipelines.engine.shards import Receipt, Shard, missing_shards, write_receipt, write_table
from trailforge.pipelines.engine.worker_errors import noting
from trailforge.pipelines.runs.accounting import stage
from trailforge.schemas import RejectedRow, SourceDocument, StageCount, Verdict, read_parquet, to_dict

NAME = "clean"
TABLE = "documents"
EXACT, NEAR = "exact_duplicate", "near_duplicate"
_STAGES = (("content", None), ("exact_duplicates", EXACT), ("near_duplicates", NEAR))
"""Of the books, in order, and the reason for which each rejects; the first has reasons of its own."""
_FEWEST_REPEATS = 5
"""Documents that a line has to stand in to be the site's: see `repeated_lines`."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A document, the shard it was read from, and its place there."""

    shard: str
    index: int
    document: SourceDocument

    @property
    def order(self) -> Order:
        """See `order_of`."""
        return order_of(self.document.published, self.document.id)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a document; without a rejection it stays."""

    placed: Placed
    rejection: Verdict | None = None


Collection: TypeAlias = Any
"""A PCollection; Beam's own types do not say of what."""

Repeated: TypeAlias = Mapping[str, frozenset[str]]
"""By source the keys of lines that are the site's."""


def clean(
    folder: Path,
    shards: Sequence[Shard],
    content: ContentConfig,
    duplicates: DuplicateConfig,
    beam_options: Sequence[str],
) -> None:
    """Write `documents/` and `rejected/` by shard, unless all are there. Raises what `run_beam` raises."""
    missing = missing_shards(folder, shards)
    if not missing:
        return
    names = frozenset(shard.name for shard in missing)

    def build(pipeline: beam.Pipeline) -> None:
        read = (
            pipeline
            | "Shards" >> beam.Create(list(shards))
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.FlatMap(noting(folder, _read), str(folder))
        )
        outcomes = _outcomes(read, content, duplicates)
        _ = (
            outcomes
            | "By shard" >> beam.Map(lambda outcome: (outcome.placed.shard, outcome))
            | "Of a shard" >> beam.GroupByKey()
            | "Missing" >> beam.Filter(lambda group: group[0] in names)
            | "Write" >> beam.Map(noting(folder, _write), str(folder))
        )

    run_beam(folder, beam_options, build)


def next_shards(receipts: Sequence[Receipt], suffix: str) -> tuple[Shard, ...]:
    """Shards of the documents that stay. `suffix`: of what is to be made of them, a part of their names."""
    shards: list[Shard] = []
    first = 0
    for receipt in receipts:
        for entry in receipt.files:
            if entry.path.startswith(f"{TABLE}/"):
                name, of = f"{receipt.shard}-{suffix}", entry.sha256
                shards.append(Shard(name=name, input=entry.path, first=first, rows=entry.rows, made_of=of))
                first += entry.rows
    return tuple(shards)


def _outcomes(read: Collection, content: ContentConfig, duplicates: DuplicateConfig) -> Collection:
    repeated = AsSingleton(_repeated(read))
    judged = read | "Normalise and judge" >> beam.Map(_judge, repeated, content)
    rejected = judged | "Unfit" >> beam.Filter(lambda outcome: outcome.rejection is not None)
    fit = judged | "Fit" >> beam.Filter(lambda outcome: outcome.rejection is None)
    once = _without(fit, _exact_twins(fit), EXACT)
    twice = once | "Exact copies" >> beam.Filter(lambda outcome: outcome.rejection is not None)
    single = once | "No exact copies" >> beam.Filter(lambda outcome: outcome.rejection is None)
    rest = _without(single, _near_twins(single, duplicates), NEAR)
    return (rejected, twice, rest) | "All" >> beam.Flatten()


def _read(shard: Shard, folder: str) -> Iterator[Placed]:
    for index, document in enumerate(read_parquet(Path(folder) / shard.input, SourceDocument)):
        yield Placed(shard.name, index, document)


def _repeated(read: Collection) -> Collection:
    """One mapping, of `Repeated`."""
    lines = (
        read
        | "Lines" >> beam.FlatMap(lambda p: [((p.document.source, key), 1) for key in line_keys(p.document.text)])
        | "Line counts" >> beam.CombinePerKey(sum)
        | "Frequent" >> beam.Filter(lambda item: item[1] >= _FEWEST_REPEATS)
    )
    totals = (
        read
        | "Sources" >> beam.Map(lambda p: (p.document.source, 1))
        | "Documents of a source" >> beam.CombinePerKey(sum)
    )
    return (
        read.pipeline
        | "Once" >> beam.Create([None])
        | "Repeated"
        >> beam.Map(
            lambda _, found, of: _repeated_by_source(found, dict(of)),
            AsList(lines),
            AsList(totals),
        )
    )


def _repeated_by_source(lines: Iterable[tuple[tuple[str, str], int]], totals: Mapping[str, int]) -> Repeated:
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (source, key), count in lines:
        counts[source][key] = count
    return {
        source: repeated_lines(of_source, totals[source], min_documents=_FEWEST_REPEATS)
        for source, of_source in counts.items()
    }


def _judge(placed: Placed, repeated: Repeated, config: ContentConfig) -> Outcome:
    document = normalise_document(placed.document, repeated.get(placed.document.source, frozenset()))
    rejection = next((verdict for verdict in judge_content(document, config) if not verdict.keep), None)
    return Outcome(Placed(placed.shard, placed.index, document), rejection)


def _exact_twins(fit: Collection) -> Collection:
    """(id of a copy, id of the document that stays)."""
    return (
        fit
        | "Exact keys"
        >> beam.Map(lambda o: (exact_key(o.placed.document.title, o.placed.document.text), o.placed.order))
        | "Same text" >> beam.GroupByKey()
        | "Exact twins" >> beam.FlatMapTuple(lambda _, orders: _stars(sorted(orders)))
    )


def _stars(orders: Sequence[Order]) -> Iterator[tuple[str, str]]:
    return ((other[1], orders[0][1]) for other in orders[1:])


def _near_twins(single: Collection, config: DuplicateConfig) -> Collection:
    """(id of a near copy, id of the document that stays). Signatures travel once per pair, not once per band."""
    signatures = single | "Signatures" >> beam.Map(lambda o: (o.placed.order, signature(o.placed.document.text)))
    pairs = (
        signatures
        | "Bands" >> beam.FlatMapTuple(lambda order, values: [(key, order) for key in band_keys(values, config)])
        | "Same band" >> beam.GroupByKey()
        | "Pairs" >> beam.FlatMapTuple(lambda _, orders: candidate_pairs(orders))
        | "Each once" >> beam.Distinct()
    )
    halves = (
        {"values": signatures, "others": pairs}
        | "Of the first" >> beam.CoGroupByKey()
        | "Halves" >> beam.FlatMapTuple(_halves)
    )
    edges = (
        {"values": signatures, "halves": halves}
        | "Of the second" >> beam.CoGroupByKey()
        | "Edges" >> beam.FlatMap(_edges, config)
    )
    return (
        single.pipeline
        | "Once more" >> beam.Create([None])
        | "Near twins" >> beam.FlatMap(lambda _, found: keep_one(sorted(found)).items(), AsList(edges))
    )


def _halves(first: Order, found: Mapping[str, Sequence]) -> Iterator[tuple[Order, tuple[Order, np.ndarray]]]:
    for second in found["others"]:
        yield second, (first, found["values"][0])


def _edges(group: tuple[Order, Mapping[str, Sequence]], config: DuplicateConfig) -> Iterator[tuple[Order, Order]]:
    second, found = group
    for first, values in found["halves"]:
        yield from verified([(first, second)], {first: values, second: found["values"][0]}, config)


def _without(outcomes: Collection, twins: Collection, reason: str) -> Collection:
    """The outcomes, those of copies rejected with the id of the kept twin."""
    by_id = outcomes | f"Ids, {reason}" >> beam.Map(lambda o: (o.placed.document.id, o))
    return (
        {"outcome": by_id, "twin": twins}
        | f"Twins, {reason}" >> beam.CoGroupByKey()
        | f"Rejected, {reason}" >> beam.Map(_with_twin, reason)
    )


def _with_twin(group: tuple[str, Mapping[str, Sequence]], reason: str) -> Outcome:
    _, found = group
    (outcome,) = found["outcome"]
    for twin in found["twin"]:
        return Outcome(outcome.placed, Verdict(keep=False, reason=reason, score=1.0, detail=f"copy of {twin}"))
    return outcome


def _write(group: tuple[str, Iterable[Outcome]], folder: str) -> str:
    shard, outcomes = group
    ordered = sorted(outcomes, key=lambda outcome: outcome.placed.index)
    kept = [outcome.placed.document for outcome in ordered if outcome.rejection is None]
    rejected = [_rejected(o.placed.document, o.rejection) for o in ordered if o.rejection is not None]
    root = Path(folder)
    files = (
        write_table(root, TABLE, shard, SourceDocument, kept),
        write_table(root, "rejected", shard, RejectedRow, rejected),
    )
    write_receipt(
        root,
        Receipt(
            shard=shard,
            files=tuple(entry for entry in files if entry is not None),
            stages=tuple(_books(len(ordered), Counter((row.stage, row.reason) for row in rejected))),
            usage=Usage(),
        ),
    )
    return shard


def _rejected(document: SourceDocument, verdict: Verdict) -> RejectedRow:
    at = next((name for name, reason in _STAGES if reason == verdict.reason), _STAGES[0][0])
    return RejectedRow(
        uid=document.id,
        stage=at,
        reason=verdict.reason,
        score=verdict.score,
        detail=verdict.detail,
        payload=json.dumps(to_dict(document), ensure_ascii=False),
    )


def _books(documents: int, rejected: Counter[tuple[str, str]]) -> Iterator[StageCount]:
    left = documents
    for name, _ in _STAGES:
        reasons = [reason for (at, reason), count in sorted(rejected.items()) if at == name for _ in range(count)]
        yield stage(name, inputs=left, accepted=left - len(reasons), rejected=reasons)
        left -= len(reasons)
