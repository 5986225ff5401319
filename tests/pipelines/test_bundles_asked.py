"""Questions of bundles as other data sets take them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.bundles_support import FinishedBundles
from tests.support.bundle_rows import ISLAND, sample_documents
from trailforge.flows.nights.windows import write_lines
from trailforge.generators.document_bundles.asked import Neighbours, ask_elsewhere, question_of
from trailforge.pipelines.sources import read_questions
from trailforge.schemas import Bundle, BundleQuestion, DocumentEmbedding, Question, read_rows


def test_a_question_keeps_its_id_and_answer_and_has_its_documents_by_id() -> None:
    documents = sample_documents()[:3]
    asked = question_of(ISLAND, documents[::-1])
    assert (asked.id, asked.question, asked.answer) == (ISLAND.uid, ISLAND.question, ISLAND.answer)
    assert [p.id for p in asked.paragraphs] == sorted(d.id for d in documents)
    assert asked.paragraphs[0] in [d.document for d in documents]
    assert asked.decomposition == ()


def test_factual_questions_of_a_run_are_written_and_read_back(
    original_bundles: FinishedBundles, tmp_path: Path
) -> None:
    run = original_bundles.folder
    made, left_out = ask_elsewhere(run, distractors=5)
    write_lines(tmp_path / "q.jsonl.gz", made)
    rows = list(read_rows(sorted((run / "bundle_questions").glob("*.parquet")), BundleQuestion))
    factual = [row for row in rows if row.type == "factual"]
    assert 0 < len(factual) < len(rows)
    assert len(made) == len(factual) and len(made) + len(left_out) == len(rows)
    assert set(left_out) == {row.type for row in rows} - {"factual"}
    asked = [q for q in read_questions(tmp_path / "q.jsonl.gz", needs_paragraphs=True) if isinstance(q, Question)]
    assert [q.id for q in asked] == [row.uid for row in factual]
    bundles = {b.uid: set(b.document_ids) for b in read_rows(sorted((run / "bundles").glob("*.parquet")), Bundle)}
    for question, row in zip(asked, factual, strict=True):
        ids = [p.id for p in question.paragraphs]
        assert set(ids) > bundles[row.bundle_id] and len(ids) == len(set(ids)) == len(bundles[row.bundle_id]) + 5
        assert ids == sorted(ids)
    write_lines(tmp_path / "again.jsonl.gz", ask_elsewhere(run, distractors=5)[0])
    assert (tmp_path / "again.jsonl.gz").read_bytes() == (tmp_path / "q.jsonl.gz").read_bytes()


@pytest.mark.parametrize("seed", range(5))
def test_neighbours_are_the_nearest_others(seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(12, 4))
    vectors[3] = vectors[7]  # as near: the smaller id first
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = [DocumentEmbedding(document_id=f"d{n:02}", vector=tuple(map(float, v))) for n, v in enumerate(vectors)]
    near = Neighbours(rows).of(["d00", "d01"], 6)
    mean = vectors[:2].mean(axis=0)
    expected = sorted(range(2, 12), key=lambda n: (-round(float(np.float32(vectors[n] @ mean)), 6), n))[:6]
    assert near == [f"d{n:02}" for n in expected]
    assert (
        Neighbours(rows).of(["d00"], 99) == Neighbours(rows).of(["d00"], 11) and Neighbours(rows).of(["d00"], 0) == []
    )


VECTORS = st.lists(
    st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), st.sampled_from([0.0, 1.0])), min_size=1, max_size=30
)


@given(VECTORS, st.data())
def test_neighbours_are_those_of_a_sort_of_all_ties_too(
    vectors: list[tuple[float, float]], data: st.DataObject
) -> None:
    names = data.draw(st.permutations([f"d{n:02}" for n in range(len(vectors))]))
    own = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
    count = data.draw(st.integers(0, 40))
    rows = [DocumentEmbedding(document_id=name, vector=v) for name, v in zip(names, vectors, strict=True)]
    held = dict(zip(names, np.array(vectors, np.float32), strict=True))
    mean = np.array([held[name] for name in own]).mean(axis=0)
    others = sorted(
        (name for name in names if name not in own), key=lambda name: (-round(float(held[name] @ mean), 6), name)
    )
    assert Neighbours(rows).of(own, count) == others[:count]


def test_neighbours_of_many_documents_are_not_sorted_by_hand() -> None:
    """50,000 documents: a sort of all in Python takes some 50 ms a question; here it is a matrix and one partition."""
    vectors = np.random.default_rng(0).normal(size=(50_000, 4)).astype(np.float32)
    near = Neighbours(DocumentEmbedding(document_id=f"{n:05}", vector=tuple(v)) for n, v in enumerate(vectors.tolist()))
    compared = Counter[str]()

    class Noted(str):
        def __lt__(self, other: str) -> bool:
            compared["names"] += 1
            return str.__lt__(self, other)

    near._ids = [*map(Noted, near._ids)]  # type: ignore[assignment]
    assert len(near.of(["00000"], 17)) == 17
    assert compared["names"] < 1000
