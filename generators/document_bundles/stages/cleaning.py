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
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

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
    verify_pairs,
)
from trailforge.generators.document_bundles.bundling.normalise import line_keys, normalise_document, repeated_lines
from trailforge.inference import Usage
from trailforge.pipelines.engine.shards import Receipt, Shard, missing_shards, write_receipt, write_table
from trailforge.pipelines.runs.accounting import stage
from trailforge.schemas import RejectedRow, SourceDocument, StageCount, Verdict, read_parquet, to_dict

if TYPE_CHECKING:
    from trailforge.pipelines.engine.beam_work import Begin, Collection

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


Repeated: TypeAlias = Mapping[str, frozenset[str]]
"""By source the keys of lines that are the site's."""


def clean(
    folder: Path,
    shards: Sequence[Shard],
    content: ContentConfig,
    duplicates: DuplicateConfig,
    beam_options: Sequence[str],
) -> None:
    """Write `documents/` and `rejected/` by shard, unless all are there. Raises as `beam_pipeline`."""
    missing = missing_shards(folder, shards)
    if not missing:
        return
    from trailforge.pipelines.engine.beam_work import beam_pipeline

    names = frozenset(shard.name for shard in missing)
    with beam_pipeline(folder, beam_options) as begin:
        read = begin.spread("Shards", shards).flat_map("Read", _read, str(folder))
        outcomes = _outcomes(begin, read, content, duplicates)
        by_shard = outcomes.map("By shard", lambda outcome: (outcome.placed.shard, outcome)).group("Of a shard")
        by_shard.filter("Missing", lambda group: group[0] in names).map("Write", _write, str(folder))


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


def _outcomes(begin: Begin, read: Collection, content: ContentConfig, duplicates: DuplicateConfig) -> Collection:
    judged = read.map("Normalise and judge", _judge, _repeated(begin, read), content)
    rejected = judged.filter("Unfit", lambda outcome: outcome.rejection is not None)
    fit = judged.filter("Fit", lambda outcome: outcome.rejection is None)
    once = _without(begin, fit, _exact_twins(fit), EXACT)
    twice = once.filter("Exact copies", lambda outcome: outcome.rejection is not None)
    single = once.filter("No exact copies", lambda outcome: outcome.rejection is None)
    rest = _without(begin, single, _near_twins(begin, single, duplicates), NEAR)
    return begin.merge("All", rejected, twice, rest)


def _read(shard: Shard, folder: str) -> Iterator[Placed]:
    for index, document in enumerate(read_parquet(Path(folder) / shard.input, SourceDocument)):
        yield Placed(shard.name, index, document)


def _repeated(begin: Begin, read: Collection) -> Collection:
    """One mapping, of `Repeated`."""
    lines = (
        read.flat_map("Lines", lambda p: [((p.document.source, key), 1) for key in line_keys(p.document.text)])
        .add_up("Line counts")
        .filter("Frequent", lambda item: item[1] >= _FEWEST_REPEATS)
    )
    totals = read.map("Sources", lambda p: (p.document.source, 1)).add_up("Documents of a source")
    return begin.gather("Repeated", _repeated_by_source, lines, totals)


def _repeated_by_source(lines: Iterable[tuple[tuple[str, str], int]], documents: Iterable[tuple[str, int]]) -> Repeated:
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (source, key), count in lines:
        counts[source][key] = count
    totals = dict(documents)
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
    keyed = fit.map(
        "Exact keys", lambda o: (exact_key(o.placed.document.title, o.placed.document.text), o.placed.order)
    )
    return keyed.group("Same text").flat_map("Exact twins", lambda group: _stars(sorted(group[1])))


def _stars(orders: Sequence[Order]) -> Iterator[tuple[str, str]]:
    return ((other[1], orders[0][1]) for other in orders[1:])


def _near_twins(begin: Begin, single: Collection, config: DuplicateConfig) -> Collection:
    """(id of a near copy, id of the document that stays). Signatures travel once per pair, not once per band."""
    signatures = single.map("Signatures", lambda o: (o.placed.order, signature(o.placed.document.text)))
    pairs = (
        signatures.flat_map("Bands", lambda signed: [(key, signed[0]) for key in band_keys(signed[1], config)])
        .group("Same band")
        .flat_map("Pairs", lambda group: candidate_pairs(group[1]))
        .distinct("Each once")
    )
    halves = begin.join("Of the first", values=signatures, others=pairs).flat_map("Halves", _halves)
    edges = begin.join("Of the second", values=signatures, halves=halves).flat_map("Edges", _edges, config)
    return begin.gather("Stars", _stars_of, edges).flat_map("Near twins", dict.items)


def _stars_of(edges: Iterable[tuple[Order, Order]]) -> dict[str, str]:
    return keep_one(sorted(edges))


def _halves(group: tuple[Order, Mapping[str, Sequence]]) -> Iterator[tuple[Order, tuple[Order, np.ndarray]]]:
    first, found = group
    for second in found["others"]:
        yield second, (first, found["values"][0])


def _edges(group: tuple[Order, Mapping[str, Sequence]], config: DuplicateConfig) -> Iterator[tuple[Order, Order]]:
    second, found = group
    for first, values in found["halves"]:
        yield from verify_pairs([(first, second)], {first: values, second: found["values"][0]}, config)


def _without(begin: Begin, outcomes: Collection, twins: Collection, reason: str) -> Collection:
    """The outcomes, those of copies rejected with the id of the kept twin."""
    by_id = outcomes.map(f"Ids, {reason}", lambda o: (o.placed.document.id, o))
    found = begin.join(f"Twins, {reason}", outcome=by_id, twin=twins)
    return found.map(f"Rejected, {reason}", _with_twin, reason)


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
