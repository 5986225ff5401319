"""The sample documents through all of the bundling: planted copies are found, and their themes come back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.support.bundling import bundle_documents, exact_duplicates
from trailforge.filters import first_rejection
from trailforge.generators.document_bundles.bundling.config import BundleConfig
from trailforge.generators.document_bundles.bundling.content import ContentConfig, judge_content
from trailforge.generators.document_bundles.bundling.duplicates import (
    DuplicateConfig,
    exact_key,
    find_near_copies,
    order_of,
    signature,
)
from trailforge.generators.document_bundles.stages.cleaning import normalise_document
from trailforge.pipelines.sources.documents import read_documents
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.schemas import SourceDocument

SAMPLES = Path(__file__).parents[4] / "sample_data" / "documents.jsonl"
PER_THEME = 4


@pytest.fixture(scope="module")
def documents() -> list[SourceDocument]:
    rows = list(read_documents([SAMPLES]))
    assert all(isinstance(row, SourceDocument) for row in rows)
    return [normalise_document(row) for row in rows if isinstance(row, SourceDocument)]


def number(document_id: str) -> int:
    """Of the document, whose copies have a `b` behind it."""
    return int(document_id.rpartition(":")[2].rstrip("b"))


def copies(documents: list[SourceDocument]) -> tuple[dict[str, str], dict[str, str]]:
    """Exact ones, then near ones among the others: dropped id -> kept id."""
    orders = {document.id: order_of(document.published, document.id) for document in documents}
    exact = exact_duplicates({orders[d.id]: exact_key(d.title, d.text) for d in documents})
    rest = [document for document in documents if document.id not in exact]
    return exact, find_near_copies({orders[d.id]: signature(d.text) for d in rest}, DuplicateConfig())


def test_all_sample_documents_are_worth_keeping(documents: list[SourceDocument]) -> None:
    assert len(documents) == 70 and Counter(d.kind for d in documents).keys() == {"news", "academic", "general"}
    assert [first_rejection(judge_content(document, ContentConfig())) for document in documents] == [None] * 70


def test_planted_copies_are_found_and_nothing_else(documents: list[SourceDocument]) -> None:
    exact, near = copies(documents)
    assert sorted(number(dropped) for dropped in exact) == [1, 17, 45]
    assert sorted(number(dropped) for dropped in near) == [13, 53, 61]
    assert all(number(dropped) == number(kept) for dropped, kept in {**exact, **near}.items())


def test_the_themes_of_the_sample_documents_become_bundles(documents: list[SourceDocument]) -> None:
    exact, near = copies(documents)
    kept = [document for document in documents if document.id not in {**exact, **near}]
    vectors = Encoder().encode_documents([f"{document.title}. {document.text}" for document in kept])
    published = [d.published for d in kept]
    bundling = bundle_documents(vectors, [d.source for d in kept], BundleConfig(), 0, published)
    assert 18 <= len(bundling.bundles) <= 24 and len(bundling.leftovers) <= 10
    assert np.concatenate(bundling.bundles).size + len(bundling.leftovers) == len(kept) == 64
    for rows in bundling.bundles:
        assert 2 <= len(rows) <= 4 and len({kept[row].source for row in rows}) >= 2
    themes = [{(number(kept[row].id) - 1) // PER_THEME for row in rows} for rows in bundling.bundles]
    assert sum(len(each) == 1 for each in themes) >= len(themes) - 1, "bundles mix themes"
