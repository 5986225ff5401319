"""Grouping on Beam: each document in one place, bundles of several sources, and the same bytes a second time."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipelines.support import stage_run
from tests.support.bundling import bundle_documents
from tests.support.files import contents
from trailforge.generators.document_bundles.bundling.config import BundleConfig
from trailforge.generators.document_bundles.config import BundleOutputConfig, BundleRunConfig
from trailforge.generators.document_bundles.stages import grouping
from trailforge.generators.document_bundles.stages.grouping import group, only_shard
from trailforge.pipelines.engine.shards import Receipt, Shard, finish_shard, read_receipt
from trailforge.pipelines.runs.accounting import check_balance
from trailforge.schemas import (
    Bundle,
    BundleInput,
    DocumentEmbedding,
    InvalidInput,
    RejectedRow,
    SourceDocument,
    from_dict,
    read_parquet,
    read_rows,
    write_parquet,
)

CONFIG = BundleConfig(method="greedy", min_cosine=0.5)
SOURCES = ("post", "journal", "wire")
TOPICS = ("bridge", "glacier", "opera", "violin", "orchard", "quarry")
FEW = 9
"""So many that no map is drawn by UMAP, which takes seconds to be compiled."""


def documents_near(topics: Sequence[int], seed: int = 0) -> tuple[list[SourceDocument], np.ndarray]:
    """Documents of these topics, of one source after the other; those of a topic lie near each other."""
    rng = np.random.default_rng(seed)
    centres = np.eye(16, dtype=np.float32)
    vectors = centres[list(topics)] + rng.normal(scale=0.05, size=(len(topics), 16)).astype(np.float32)
    documents = [
        SourceDocument(
            id=f"{SOURCES[n % 3]}:{n:02d}", source=SOURCES[n % 3], kind="news", title=f"Title {n}",
            text=f"{TOPICS[topic]} and {TOPICS[topic]} again, {' '.join(f'word{n}of{k}' for k in range(9))}",
            published="2025-04-01",
        )
        for n, topic in enumerate(topics)
    ]  # fmt: skip
    return documents, (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def embedded(folder: Path, documents: Sequence[SourceDocument], vectors: np.ndarray, size: int = 4) -> list[Shard]:
    """A folder as the stages before leave it."""
    shards: list[Shard] = []
    for table in ("documents", "embeddings"):
        (folder / table).mkdir(parents=True)
    for first in range(0, len(documents), size):
        name = f"part-{first:05d}"
        batch = documents[first : first + size]
        rows = [
            DocumentEmbedding(document_id=d.id, vector=tuple(v.tolist()))
            for d, v in zip(batch, vectors[first : first + size], strict=True)
        ]
        write_parquet(folder / "documents" / f"{name}.parquet", SourceDocument, batch)
        write_parquet(folder / "embeddings" / f"{name}-embed.parquet", DocumentEmbedding, rows)
        shards.append(Shard(name=f"{name}-embed", input=f"documents/{name}.parquet", first=first, rows=len(batch)))
    return shards


def group_in(folder: Path, shards: Sequence[Shard], config: BundleConfig = CONFIG, made_of: str = "") -> None:
    run = BundleRunConfig(bundles=config, output=BundleOutputConfig(bundles_per_shard=2))
    group(stage_run(folder, run, [only_shard(shards, made_of)], shards))


def grouped(folder: Path, topics: Sequence[int], config: BundleConfig = CONFIG, *, size: int = 4) -> Receipt:
    shards = embedded(folder, *documents_near(topics), size=size)
    group_in(folder, shards, config)
    return read_receipt(folder, only_shard(shards))


def rows(folder: Path, table: str, record: type) -> list:
    return list(read_rows(sorted((folder / table).glob("*.parquet")), record))


def test_near_documents_of_several_sources_are_bundled_and_the_others_are_left_over_with_a_reason(
    tmp_path: Path,
) -> None:
    receipt = grouped(tmp_path, [0, 0, 0, 1, 1, 2, 3, 3, 2])  # 2 is of the sources wire and wire
    bundles = rows(tmp_path, "bundles", Bundle)
    assert {frozenset(b.document_ids) for b in bundles} == {
        frozenset({"post:00", "journal:01", "wire:02"}),
        frozenset({"post:03", "journal:04"}),
        frozenset({"post:06", "journal:07"}),
    }
    left = rows(tmp_path, "rejected", RejectedRow)
    assert {(row.uid, row.stage, row.reason) for row in left} == {
        ("wire:05", "bundle", "same_source"),
        ("wire:08", "bundle", "same_source"),
    }
    assert from_dict(SourceDocument, json.loads(left[0].payload)).id == left[0].uid
    check_balance(receipt.stages)
    assert [(line.inputs, line.accepted) for line in receipt.stages] == [(9, 7)]


def test_a_bundle_knows_its_documents_their_cohesion_and_their_words(tmp_path: Path) -> None:
    grouped(tmp_path, [0, 0, 0, 1, 1])
    _, vectors = documents_near([0, 0, 0, 1, 1])
    items = rows(tmp_path, "bundle_inputs", BundleInput)
    assert [item.bundle for item in items] == rows(tmp_path, "bundles", Bundle)
    for item in items:
        places = [int(name[-2:]) for name in item.bundle.document_ids]
        pairs = [float(vectors[a] @ vectors[b]) for a in places for b in places if a < b]
        assert item.bundle.cohesion == pytest.approx(sum(pairs) / len(pairs), abs=1e-5)
        assert tuple(d.id for d in item.documents) == item.bundle.document_ids
        assert tuple(d.source for d in item.documents) == item.bundle.sources
        assert item.bundle.theme.split()[0] == TOPICS[0 if places[0] == 0 else 1]
    assert len({item.id for item in items}) == len(items)


@settings(max_examples=5)
@given(st.lists(st.integers(0, 5), min_size=2, max_size=FEW), st.integers(1, FEW))
def test_every_document_is_in_exactly_one_place(
    tmp_path_factory: pytest.TempPathFactory, topics: list[int], size: int
) -> None:
    folder = tmp_path_factory.mktemp("grouped")
    documents, vectors = documents_near(topics)
    receipt = grouped(folder, topics, size=size)
    bundles = rows(folder, "bundles", Bundle)
    left = rows(folder, "rejected", RejectedRow)
    places = Counter([name for bundle in bundles for name in bundle.document_ids] + [row.uid for row in left])
    assert places == Counter(document.id for document in documents)
    assert all(2 <= len(bundle.document_ids) <= 4 and len(set(bundle.sources)) >= 2 for bundle in bundles)
    wanted = bundle_documents(vectors, [d.source for d in documents], CONFIG, 0, [d.published for d in documents])
    assert {tuple(int(name[-2:]) for name in bundle.document_ids) for bundle in bundles} == set(wanted.bundles)
    assert all(bundle.worth is not None and bundle.retold is not None for bundle in bundles)
    ranks = [(-(bundle.worth or 0), bundle.cohesion, bundle.uid) for bundle in bundles]
    assert ranks == sorted(ranks)
    assert sum(shard.rows for shard in receipt.shards) == len(bundles)


def test_what_can_be_asked_about_comes_first(tmp_path: Path) -> None:
    """Two documents that each tell something of Ada Quill before two that name nothing, which are given first."""
    documents, vectors = documents_near([0, 0, 1, 1])
    told = (
        "Ada Quill built 700 mills. The mills of Ada Quill stand.",
        "Nobody met Ada Quill. Ada Quill had 40 pupils.",
    )
    documents = [*documents[:2], *(replace(d, text=text) for d, text in zip(documents[2:], told, strict=True))]
    group_in(tmp_path, embedded(tmp_path, documents, vectors), replace(CONFIG, max_name_share=1.0))
    bundles = rows(tmp_path, "bundles", Bundle)
    assert [(bundle.document_ids, bundle.askable) for bundle in bundles] == [
        (("wire:02", "post:03"), 1),
        (("post:00", "journal:01"), 0),
    ]


def test_the_shards_of_questions_hold_the_bundles_in_order(tmp_path: Path) -> None:
    receipt = grouped(tmp_path, [0, 0, 1, 1, 2, 2, 3, 3])
    assert [(shard.first, shard.rows) for shard in receipt.shards] == [(0, 2), (2, 2)]
    read = [item for shard in receipt.shards for item in read_parquet(tmp_path / shard.input, BundleInput)]
    assert [item.bundle for item in read] == rows(tmp_path, "bundles", Bundle)


def test_done_again_after_a_kill_it_has_the_same_bytes_and_leaves_no_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In parts, so that some of them are done when it is killed."""
    config = BundleConfig(method="partitioned", part_size=4, within="greedy", min_cosine=0.5)
    topics = [0, 0, 0, 1, 1, 1, 2, 2, 2]
    grouped(tmp_path / "whole", topics, config)
    shards = embedded(tmp_path / "killed", *documents_near(topics))
    with monkeypatch.context() as killed:
        killed.setattr(grouping, "join", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            group_in(tmp_path / "killed", shards, config)
    parts = sorted((tmp_path / "killed").rglob("bundling/part-*.json"))
    assert len(parts) > 1
    parts[0].unlink()
    group_in(tmp_path / "killed", shards, config)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert not (tmp_path / "killed" / "work").exists()
    group_in(tmp_path / "killed", shards, config)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_parts_that_were_left_of_other_documents_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = BundleConfig(method="partitioned", part_size=4, within="greedy", min_cosine=0.5)
    shards = embedded(tmp_path / "before", *documents_near([0, 1, 2, 0, 1, 2, 0, 1, 2]))
    with monkeypatch.context() as killed:
        killed.setattr(grouping, "join", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            group_in(tmp_path / "before", shards, config, "of before")
    (tmp_path / "killed").mkdir()
    (tmp_path / "before" / "work").rename(tmp_path / "killed" / "work")
    made = []
    for name in ("killed", "whole"):
        shards = embedded(tmp_path / name, *documents_near([0, 0, 0, 1, 1, 1, 2, 2, 2]))
        group_in(tmp_path / name, shards, config, "of now")
        made.append(sorted(b.document_ids for b in rows(tmp_path / name, "bundles", Bundle)))
    assert made[0] == made[1] and not (tmp_path / "killed" / "work").exists()


def test_killed_after_its_receipt_it_leaves_no_work_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def finish_and_kill(*shard: Any, **more: Any) -> None:
        finish_shard(*shard, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(grouping, "finish_shard", finish_and_kill)
    with pytest.raises(KeyboardInterrupt):
        grouped(tmp_path, [0, 0, 1, 1])
    assert list(tmp_path.glob("shards/*.json")) and not (tmp_path / "work").exists()


def test_another_seed_or_order_of_documents_gives_bundles_of_the_same_documents(tmp_path: Path) -> None:
    documents, vectors = documents_near([0, 0, 0, 1, 1, 2, 2, 3, 3])
    made = []
    for number, order in enumerate(([*range(9)], [8, 3, 1, 0, 5, 2, 7, 4, 6])):
        shards = embedded(tmp_path / str(number), [documents[n] for n in order], vectors[order])
        group_in(tmp_path / str(number), shards)
        made.append({b.uid: frozenset(b.document_ids) for b in rows(tmp_path / str(number), "bundles", Bundle)})
    assert made[0] == made[1] and len(made[0]) == 4


def test_without_any_document_the_run_ends_with_a_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no document is left to bundle; `rejected/` says why"):
        group_in(tmp_path, [])


def test_documents_of_one_source_give_no_bundle_and_no_shard(tmp_path: Path) -> None:
    documents, vectors = documents_near([0, 0, 0, 0])
    same = [replace(document, source="post") for document in documents]
    shards = embedded(tmp_path, same, vectors)
    group_in(tmp_path, shards)
    receipt = read_receipt(tmp_path, only_shard(shards))
    assert receipt.shards == () and [line.accepted for line in receipt.stages] == [0]
    assert not (tmp_path / "bundles").exists()
    assert len(rows(tmp_path, "rejected", RejectedRow)) == 4
    each = [replace(document, is_own_source=True) for document in same]
    group_in(tmp_path / "each", embedded(tmp_path / "each", each, vectors))
    (bundle,) = rows(tmp_path / "each", "bundles", Bundle)
    assert set(bundle.document_ids) == {document.id for document in each} and set(bundle.sources) == {"post"}


def test_a_bundle_says_pair_by_pair_why_its_documents_are_together(tmp_path: Path) -> None:
    documents, vectors = documents_near([0, 0, 1, 1])
    told = (
        ("The trial of Ada Quill goes on. They say that Ada Quill was there.", "2025-04-01"),
        ("Nobody has seen Ada Quill since noon, and the court waits for Ada Quill.", "2025-04-05"),
    )
    documents = [
        *(replace(d, text=text, published=day) for d, (text, day) in zip(documents[:2], told, strict=True)),
        *documents[2:],
    ]
    shards = embedded(tmp_path, documents, vectors)
    group_in(tmp_path, shards, replace(CONFIG, min_shared=0.5, max_name_share=1.0))
    (bundle,) = rows(tmp_path, "bundles", Bundle)
    (link,) = bundle.links
    assert (link.first, link.second, link.names, link.days_apart) == ("post:00", "journal:01", ("ada quill",), 4)
    assert link.cosine == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-5)
    assert link.shared == pytest.approx(math.log(4 / 2), abs=1e-5), "two of four documents name her, both twice"
    assert link.copied == 0.0
    left = rows(tmp_path, "rejected", RejectedRow)
    assert {(row.uid, row.reason) for row in left} == {("wire:02", "no_shared_name"), ("post:03", "no_shared_name")}
    assert all("names" in row.detail for row in left)


def test_a_bundle_says_how_much_of_a_text_another_document_holds(tmp_path: Path) -> None:
    """Of the shorter text's 28 runs of three words the longer one has eight: in their own words both go on."""
    documents, vectors = documents_near([0, 0])
    joint = "the offices asked the department for the records of nineteen"
    own = [" ".join(f"word{n}of{k}" for k in range(count)) for n, count in enumerate((20, 60))]
    documents = [replace(d, text=f"{joint} {text}") for d, text in zip(documents, own, strict=True)]
    group_in(tmp_path, embedded(tmp_path, documents, vectors))
    (bundle,) = rows(tmp_path, "bundles", Bundle)
    assert [link.copied for link in bundle.links] == [pytest.approx(8 / 28, abs=1e-6)]
    assert [link.shared for link in bundle.links] == [0.0]
