"""Embed the documents that are kept and bundle them: workers bundle the parts, and this process joins them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from functools import lru_cache
from itertools import combinations
from pathlib import Path

import numpy as np

from trailforge.generators.document_bundles import DATASET
from trailforge.generators.document_bundles.bundling.clustering import (
    ClusterPlan,
    PartBundles,
    bundle_part,
    join,
    plan,
)
from trailforge.generators.document_bundles.bundling.config import PACKAGES, WHY_LEFT, BundleConfig, Bundling
from trailforge.generators.document_bundles.bundling.copies import SKETCH, copied_share, sketch
from trailforge.generators.document_bundles.bundling.measures import (
    AllDocuments,
    DocumentFacts,
    PairFacts,
    PairWorth,
    cohesion,
    part_by_matter,
    theme_words,
    word_frequencies,
    worth_of_pair,
)
from trailforge.generators.document_bundles.bundling.names import few_names, joining_names, name_weights, shared_names
from trailforge.generators.document_bundles.bundling.singled import count_singled
from trailforge.generators.document_bundles.bundling.units import Documents, SharedNames
from trailforge.generators.document_bundles.config import BundleRunConfig, EncoderConfig, encoder_of
from trailforge.generators.document_bundles.drafts import index_things
from trailforge.generators.document_bundles.maps import draw_plots
from trailforge.pipelines import StageRun
from trailforge.pipelines.engine import (
    Shard,
    finish_shard,
    missing_shards,
    output_errors,
    plain_files,
    rejected_row,
    unfinished_name,
    write_table,
    write_text,
)
from trailforge.pipelines.runs import stage
from trailforge.retrieval import CaseCounts, names_of, words_of
from trailforge.retrieval.backends import embedded_text
from trailforge.retrieval.entities import merge_short_names
from trailforge.schemas import (
    Bundle,
    BundleInput,
    BundleLink,
    DocumentEmbedding,
    FileEntry,
    NothingLeft,
    OutputError,
    RejectedRow,
    SourceDocument,
    Verdict,
    check_packages,
    iter_parquet,
    parse_json,
    read_parquet,
    to_dict,
)

EMBED, EMBEDDINGS = "embed", "embeddings"
NAME = "bundle"
TABLE, INPUTS = "bundles", "bundle_inputs"
REJECTED = "part-bundles"
WORK, MADE_OF = "work/bundling", "made_of"
WORK_FILES = DATASET.beside[WORK]
"""A pattern that the names of the stage's working files match."""
_THEME_WORDS = 5
_MOST_LINK_NAMES = 8
_MOST_FILES = 64
"""Of documents, held at once."""


@dataclass(frozen=True, slots=True)
class AllMeta:
    """What is known of all documents at once: not their texts."""

    ids: list[str]
    sources: list[str]
    origins: list[str]
    published: list[str | None]
    papers: list[bool]
    """Which documents are scientific papers."""
    names: list[dict[str, float]]
    """The weight of each name that may connect a document; see `name_weights`."""
    counts: CaseCounts
    archive: AllDocuments
    sketches: np.ndarray
    """A sketch of each document's text; see `copies.sketch`."""
    files: list[tuple[str, int]]
    """The file of each document, and its row there."""


def embed(run: StageRun) -> None:
    """Write the table `embeddings` by shard. Raises `RetrievalError` without the encoder, and as `beam_pipeline`.

    A shard is embedded as one list, since a batch's make-up changes the last bits of a vector: the same shard has the
    same vectors on whatever worker.
    """
    missing = missing_shards(run.folder, run.shards)
    if not missing:
        return

    from trailforge.pipelines.engine import beam_pipeline

    with beam_pipeline(run.folder, run.arguments, run.config.schedule.patience) as begin:
        begin.spread("Shards", missing).map("Embed", _embed, str(run.folder), run.config.encoder)


def _embed(shard: Shard, folder: str, config: EncoderConfig) -> str:
    documents = read_parquet(Path(folder) / shard.input, SourceDocument)
    vectors = encoder_of(config).encode_documents([embedded_text(document.document) for document in documents])
    rows = [
        DocumentEmbedding(document_id=document.id, vector=tuple(vector.tolist()))
        for document, vector in zip(documents, vectors, strict=True)
    ]
    books = stage(EMBED, inputs=len(documents), accepted=len(documents))
    finish_shard(Path(folder), shard, {EMBEDDINGS: rows}, (books,))
    return shard.name


def only_shard(documents: Sequence[Shard], made_of: str = "") -> Shard:
    """Return the one shard of all documents; `made_of` is a digest of the files that its stage reads."""
    rows = sum(shard.rows for shard in documents)
    return Shard(name="bundles", input="documents", first=0, rows=rows, made_of=made_of)


def group(run: StageRun) -> None:
    """Write `bundles/`, `bundle_inputs/` and the documents left over, unless that is done. Raises what `beam_pipeline`
    raises.

    Memory on the driver: the vectors two or three times, the names of all documents, and the texts of a few shards at a
    time.
    """
    for shard in missing_shards(run.folder, run.shards):
        check_packages(PACKAGES, "bundling")
        folder, config, seed = run.folder, run.config.bundles, run.config.seed
        meta = read_meta(folder, run.before, config)
        vectors = _vectors(folder, run.before)
        planned = plan(
            *(vectors, meta.origins, config, seed),
            *(meta.published, meta.sources, meta.names, meta.sketches, meta.papers),
        )
        joined = join(planned, _bundle_parts(run, planned, shard.made_of), config)
        worths = dict(worths_of(folder, joined, meta, vectors, run.config))
        compared = np.empty_like(planned.documents.vectors)
        compared[planned.order] = planned.documents.vectors
        bundling = part_by_matter(joined, worths, meta.papers, meta.origins, compared, config)
        made = list(_records(folder, bundling, meta, planned, vectors, worths))
        files, shards = _write(folder, sorted(made, key=_rank), run.config.output.bundles_per_shard)
        plots = draw_plots(folder, bundling, meta.sources, compared, [item.bundle.theme for item in made], seed)
        left = _leftovers(folder, bundling, meta)
        rejected = write_table(folder, "rejected", REJECTED, RejectedRow, left)
        kept = len(meta.ids) - len(left)
        books = stage(NAME, inputs=len(meta.ids), accepted=kept, rejected=[row.reason for row in left])
        everything = [entry for entry in (*files, rejected, *plots) if entry is not None]
        _discard_work(folder / WORK)  # before the receipt: after it nobody comes back here
        finish_shard(folder, shard, {}, (books,), files=everything, shards=shards)


def _discard_work(work: Path) -> None:
    for path in plain_files(work):
        if re.fullmatch(WORK_FILES, unfinished_name(path.name) or path.name):
            path.unlink(missing_ok=True)
    for emptied in (work, work.parent):
        with contextlib.suppress(OSError):  # something of a stranger is in it
            emptied.rmdir()


def _vectors(folder: Path, shards: Sequence[Shard]) -> np.ndarray:
    rows = _embedding_rows(folder, shards)
    blocks = [np.array(row.vector, np.float32) for row in rows]
    if not blocks:
        raise NothingLeft("no document is left to bundle; `rejected/` says why", file=folder)
    return np.stack(blocks)


def _embedding_rows(folder: Path, shards: Sequence[Shard]) -> Iterator[DocumentEmbedding]:
    for shard in shards:
        for batch in iter_parquet(folder / EMBEDDINGS / f"{shard.name}.parquet", DocumentEmbedding):
            yield from batch


def read_meta(folder: Path, shards: Sequence[Shard], config: BundleConfig) -> AllMeta:
    """Read from a run's documents what bundling and ranking need of them beside their vectors, in their order."""

    def documents() -> Iterator[SourceDocument]:
        for shard in shards:
            yield from read_parquet(folder / shard.input, SourceDocument)

    counts = CaseCounts.of(document.text for document in documents())
    found = merge_short_names([names_of(document.title, document.text, counts) for document in documents()])
    names = joining_names(found)
    known = [(d.id, d.source, d.origin, d.published, d.kind == "academic") for d in documents()]
    return AllMeta(
        ids=[id for id, *_ in known],
        sources=[source for _, source, *_ in known],
        origins=[origin for _, _, origin, *_ in known],
        published=[published for _, _, _, published, _ in known],
        papers=[is_paper for *_, is_paper in known],
        names=name_weights(names, config, counts, [source for _, source, *_ in known]),
        counts=counts,
        archive=AllDocuments(
            name_words=frozenset(word for each in names for name in each for word in words_of(name.key)),
            few=few_names(names, config),
            documents=len(known),
            frequencies=word_frequencies(document.text for document in documents()),
        ),
        sketches=np.array([sketch(document.text) for document in documents()], np.uint32).reshape(-1, SKETCH),
        files=[(shard.input, row) for shard in shards for row in range(shard.rows)],
    )


def _bundle_parts(run: StageRun, planned: ClusterPlan, made_of: str) -> list[PartBundles]:
    """Each part on a worker, which finds the documents in the run's folder and leaves its bundles there.

    Parts that a killed process left count while they are of the same documents and vectors: `made_of` says of which.
    """
    work = run.folder / WORK
    if not _is_of(work, made_of):
        with output_errors(work):
            _discard_work(work)
        write_text(work / MADE_OF, made_of)
    with output_errors(work):
        work.mkdir(parents=True, exist_ok=True)
        for each in fields(Documents):
            np.save(work / f"{each.name}.npy", getattr(planned.documents, each.name))
    missing = [(number, rows) for number, rows in enumerate(planned.parts) if not _result(work, number).exists()]

    if missing:
        from trailforge.pipelines.engine import beam_pipeline

        with beam_pipeline(run.folder, run.arguments, run.config.schedule.patience) as begin:
            begin.spread("Parts", missing).map("Bundle", _bundle_part, str(work), run.config.bundles, run.config.seed)
    return [_read_result(work, number) for number in range(len(planned.parts))]


def _is_of(work: Path, made_of: str) -> bool:
    try:
        return (work / MADE_OF).read_text(encoding="utf-8") == made_of
    except (OSError, ValueError):
        return False


def _bundle_part(part: tuple[int, list[int]], work: str, config: BundleConfig, seed: int) -> int:
    number, rows = part
    arrays = {each.name: np.load(Path(work) / f"{each.name}.npy", mmap_mode="r")[rows] for each in fields(Documents)}
    made = bundle_part(Documents(**arrays), config, seed)
    content = {"bundles": made.bundles, "rest": made.rest}
    write_text(_result(Path(work), number), json.dumps(content, default=int))
    return number


def _result(work: Path, number: int) -> Path:
    return work / f"part-{number}.json"


def _read_result(work: Path, number: int) -> PartBundles:
    path = _result(work, number)
    try:
        content = parse_json(path.read_bytes())
        return PartBundles(bundles=tuple(content["bundles"]), rest=content["rest"])
    except (ValueError, KeyError, TypeError) as error:
        raise OutputError(f"{path} is damaged; remove it and run the same command again") from error


def worths_of(
    folder: Path, bundling: Bundling, meta: AllMeta, vectors: np.ndarray, run: BundleRunConfig
) -> Iterator[tuple[tuple[int, int], PairWorth]]:
    """Yield how much can be asked about each pair of documents of each bundle, by row numbers; bundles are ranked by
    it.

    `vectors`: as embedded. A bundle's texts are read from the run's folder, and nothing is kept of them.
    """
    text_at, config = _open_texts(folder), run.bundles
    for rows in bundling.bundles:
        documents = [text_at(meta.files[row]) for row in rows]
        facts = {row: DocumentFacts.of(each.title, each.text) for row, each in zip(rows, documents, strict=True)}
        told = index_things(documents, run.writer.longest_document, meta.counts) if config.singled_weight else []
        things = dict(zip(rows, told, strict=False))
        for one, other in combinations(rows, 2):
            known = _known((one, other), meta, vectors, config.event_days)
            if things:
                known = known._replace(singled=count_singled(things[one], things[other], meta.archive))
            yield (one, other), worth_of_pair(facts[one], facts[other], known, meta.archive, config)


def _records(
    folder: Path,
    bundling: Bundling,
    meta: AllMeta,
    planned: ClusterPlan,
    vectors: np.ndarray,
    worths: Mapping[tuple[int, int], PairWorth],
) -> Iterator[BundleInput]:
    """Bundles with their documents. `vectors`: as embedded."""
    place = {int(given): row for row, given in enumerate(planned.order)}
    text_at, frequencies = _open_texts(folder), meta.archive.frequencies
    for rows in bundling.bundles:
        documents = tuple(text_at(meta.files[row]) for row in rows)
        best = max(worths[pair] for pair in combinations(rows, 2))
        bundle = Bundle(
            uid=hashlib.sha256("\n".join(sorted(d.id for d in documents)).encode()).hexdigest()[:16],
            document_ids=tuple(document.id for document in documents),
            sources=tuple(document.source for document in documents),
            cohesion=round(cohesion(vectors[list(rows)]), 6),
            theme=" ".join(theme_words([d.text for d in documents], frequencies, len(meta.ids), _THEME_WORDS)),
            links=tuple(_links(rows, documents, meta, planned.documents.take([place[row] for row in rows]))),
            askable=best.askable,
            retold=best.retold,
            worth=best.worth,
            origins=tuple(document.origin for document in documents),
        )
        yield BundleInput(id=bundle.uid, bundle=bundle, documents=documents)


def _known(pair: tuple[int, int], meta: AllMeta, vectors: np.ndarray, event_days: int) -> PairFacts:
    one, other = pair
    days = [date.fromisoformat(day) for row in pair if not meta.papers[row] and (day := meta.published[row])]
    return PairFacts(
        shared=[name for name, _ in shared_names(meta.names[one], meta.names[other])],
        cosine=float(vectors[one] @ vectors[other]),
        is_of_one_day=len(days) == 2 and abs((days[0] - days[1]).days) <= event_days,
    )


def _rank(item: BundleInput) -> tuple[float, float, str]:
    """What most can be asked about comes first; of equals what is less alike, and so has more that only one tells."""
    assert item.bundle.worth is not None
    return -item.bundle.worth, item.bundle.cohesion, item.id


def _links(
    rows: Sequence[int], documents: Sequence[SourceDocument], meta: AllMeta, compared: Documents
) -> Iterator[BundleLink]:
    """Why these documents are together, pair by pair. `compared`: they alone, as bundling compares them."""
    vectors, sums = compared.vectors, SharedNames(compared, 0.0).sums(range(len(rows)))
    for one, other in combinations(range(len(rows)), 2):
        days = [date.fromisoformat(day) for at in (one, other) if (day := documents[at].published)]
        shared = shared_names(meta.names[rows[one]], meta.names[rows[other]])
        yield BundleLink(
            first=documents[one].id,
            second=documents[other].id,
            cosine=round(float(vectors[one] @ vectors[other]), 6),
            names=tuple(name for name, _ in shared[:_MOST_LINK_NAMES]),
            days_apart=abs((days[0] - days[1]).days) if len(days) == 2 else None,
            shared=round(float(sums[one, other]), 6),
            copied=round(copied_share(compared.sketches[one], compared.sketches[other]), 6),
        )


def _open_texts(folder: Path) -> Callable[[tuple[str, int]], SourceDocument]:
    """Documents by file and row; a few files are held at a time."""
    held = lru_cache(_MOST_FILES)(lambda path: read_parquet(folder / path, SourceDocument))
    return lambda place: held(place[0])[place[1]]


def _write(
    folder: Path, bundles: Sequence[BundleInput], per_shard: int
) -> tuple[list[FileEntry | None], tuple[Shard, ...]]:
    """Both tables by shard, and the shards that questions are made of."""
    files: list[FileEntry | None] = []
    shards: list[Shard] = []
    for first in range(0, len(bundles), per_shard):
        batch = bundles[first : first + per_shard]
        digest = hashlib.sha256(",".join(item.id for item in batch).encode()).hexdigest()[:12]
        name = f"part-{len(shards):05d}-{digest}"
        files.append(write_table(folder, TABLE, name, Bundle, [item.bundle for item in batch]))
        entry = write_table(folder, INPUTS, name, BundleInput, batch)
        assert entry is not None
        files.append(entry)
        shards.append(Shard(name=name, input=entry.path, first=first, rows=len(batch), made_of=entry.sha256))
    return files, tuple(shards)


def _leftovers(folder: Path, bundling: Bundling, meta: AllMeta) -> list[RejectedRow]:
    text_at = _open_texts(folder)
    rows: list[RejectedRow] = []
    for left in bundling.leftovers:
        against = Verdict(keep=False, reason=left.reason, score=0.0, detail=WHY_LEFT[left.reason])
        rows.append(rejected_row(NAME, meta.ids[left.index], against, to_dict(text_at(meta.files[left.index]))))
    return rows
