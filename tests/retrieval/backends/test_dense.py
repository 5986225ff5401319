"""Dense retrieval: ranking, ties, what is kept."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from tests.retrieval.backends.words import bench
from tests.retrieval.support import DOCUMENTS, ids, run
from trailforge.retrieval.backends import Workbench, load_backend, map_here
from trailforge.retrieval.backends.dense import DenseIndex, DenseRetriever
from trailforge.retrieval.backends.vectors import embedded_text
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.schemas import Document, RetrievalError

pytestmark = pytest.mark.real_model

BACKEND = load_backend("dense")
VERBS = ("built", "sold", "lost", "found")


@pytest.fixture(scope="module")
def index(encoder: Encoder) -> DenseIndex:
    """Over DOCUMENTS."""
    return DenseIndex.build(DOCUMENTS, encoder.encode_documents([embedded_text(d) for d in DOCUMENTS]))


def test_the_nearest_comes_first_with_its_cosine(index: DenseIndex, encoder: Encoder) -> None:
    passages = run(DenseRetriever(index, encoder).retrieve("Who directed Metropolis?", 2))
    assert ids(passages) == ["0", "1"]
    assert passages[0].text == DOCUMENTS[0].text
    cosine = encoder.encode_documents([embedded_text(d) for d in DOCUMENTS])[0] @ encoder.encode_query(
        "Who directed Metropolis?"
    )
    assert passages[0].score == pytest.approx(float(cosine), abs=1e-5)
    assert all(passage.score == round(passage.score, 6) for passage in passages)


def test_several_queries_take_one_pass_of_the_encoder(
    index: DenseIndex, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They find what each finds by itself; scores agree but for their last decimal."""
    retriever, passes = DenseRetriever(index, encoder), []
    queries = ["Who directed Metropolis?", "the capital of a country in the Alps, of which there are two", "?"]
    alone = [run(retriever.find(query, 3)) for query in queries]
    encode = encoder._model.encode
    monkeypatch.setattr(encoder._model, "encode", lambda texts: passes.append(len(texts)) or encode(texts))
    together = run(retriever.find_many(queries, 3))
    assert passes == [3]
    for one, other in zip(alone, together, strict=True):
        assert [(each.passage.id, each.why, each.sources) for each in one] == [
            (each.passage.id, each.why, each.sources) for each in other
        ]
        assert [each.passage.score for each in one] == pytest.approx([each.passage.score for each in other], abs=5e-6)


@pytest.mark.parametrize(("k", "found"), [(1, 1), (5, 5), (99, 5), (0, 0), (-1, 0)])
def test_k_may_be_anything(index: DenseIndex, encoder: Encoder, k: int, found: int) -> None:
    assert len(run(DenseRetriever(index, encoder).retrieve("capital", k))) == found


def test_ties_keep_the_order_of_the_documents_also_at_the_cut() -> None:
    """40 equal documents and 2 better ones: more ties than the search looks at in one go."""
    documents = [Document(id=str(n), title="", text="") for n in range(42)]
    vectors = np.tile(np.array([[0.6, 0.8]], dtype=np.float32), (42, 1))
    vectors[[30, 41]] = [1.0, 0.0]
    index = DenseIndex.build(documents, vectors)
    query = np.array([1.0, 0.0], dtype=np.float32)
    for k in (1, 2, 3, 12, 42):
        expected = ["30", "41", *(str(n) for n in range(41) if n != 30)][:k]
        assert ids(index.search(query, k)) == expected


def test_scores_that_differ_after_the_sixth_decimal_are_ties() -> None:
    documents = [Document(id=str(n), title="", text="") for n in range(2)]
    index = DenseIndex.build(documents, np.array([[0.5, 0.0], [0.5000001, 0.0]], dtype=np.float32))
    assert ids(index.search(np.array([1.0, 0.0], dtype=np.float32), 2)) == ["0", "1"]


def test_a_search_gives_the_scores_that_faiss_flat_index_gives() -> None:
    """To the bit: rows made before stay what they are."""
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(3000, 48)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    flat = faiss.IndexFlatIP(48)
    flat.add(vectors)
    index = DenseIndex.build([Document(id=str(n), title="", text="") for n in range(3000)], vectors)
    for row in range(20):
        scores, rows = flat.search(vectors[row : row + 1], 50)
        expected = sorted((-round(float(score), 6), int(row)) for score, row in zip(scores[0], rows[0], strict=True))
        found = [(-passage.score, int(passage.id)) for passage in index.search(vectors[row], 40)]
        assert found == expected[:40]


def test_what_is_kept_answers_alike_and_is_mapped(encoder: Encoder, tmp_path: Path) -> None:
    tools = Workbench(encoder=encoder)
    built = run(BACKEND.build(DOCUMENTS, BACKEND.config(), tools))
    built.save(tmp_path)
    opened = BACKEND.open(tmp_path, DOCUMENTS, BACKEND.config(), tools)
    for query in ("Who directed Metropolis?", "capital of Austria", "???"):
        found = run(opened.find(query, 3))
        assert found == run(built.find(query, 3)) and len(found) == 3
        assert [each.sources for each in found] == [(each.passage.id,) for each in found]
    assert run(opened.find("capital of Austria", 1))[0].why.startswith("cosine 0.")
    maps = Path("/proc/self/maps")
    assert not maps.exists() or str(tmp_path) in maps.read_text()


def test_vectors_of_other_documents_are_refused(encoder: Encoder, tmp_path: Path) -> None:
    tools = Workbench(encoder=encoder)
    run(BACKEND.build(DOCUMENTS, BACKEND.config(), tools)).save(tmp_path)
    with pytest.raises(RetrievalError, match="holds 5 vectors of 4 passages: build it again"):
        BACKEND.open(tmp_path, DOCUMENTS[:4], BACKEND.config(), tools)
    (tmp_path / "vectors.npy").write_bytes(b"nothing")
    with pytest.raises(RetrievalError, match=r"vectors\.npy is missing or damaged"):
        BACKEND.open(tmp_path, DOCUMENTS, BACKEND.config(), tools)


def test_a_missing_package_comes_with_its_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(RetrievalError, match=r"needs faiss: pip install 'trailforge\[dense\]'"):
        DenseIndex.build(DOCUMENTS, np.ones((5, 2), np.float32)).search(np.ones(2, np.float32), 1)


def test_an_approximate_index_is_kept_with_the_recall_it_has(tmp_path: Path) -> None:
    """And grows: no passage that was there is embedded again."""
    texts = [f"{name} number {n} was {verb} in {n + 1000}" for n in range(50) for name in "ABCDEF" for verb in VERBS]
    documents = [Document(id=str(n), title="", text=text) for n, text in enumerate(texts)]
    config = BACKEND.config(kind="hnsw")
    embedded: list[int] = []

    async def counting(name: str, work: Any, items: Sequence[Any], per_shard: int, into: Any = None) -> list[Any]:
        embedded.append(len(items))
        return await map_here(name, work, items, per_shard, into)

    tools = replace(bench(), map=counting)
    built = run(BACKEND.build(documents[:1100], config, tools))
    built.save(tmp_path)
    assert BACKEND.add is not None
    opened = BACKEND.open(tmp_path, documents[:1100], config, tools)
    assert isinstance(opened, DenseRetriever)
    grown = run(BACKEND.add(opened, documents, config, tools))
    assert isinstance(grown, DenseRetriever)
    assert embedded == [1100, 100]
    for index, vectors in ((opened, 1100), (grown, 1200)):
        assert index.stats["kind"] == "hnsw" and index.stats["vectors"] == vectors
        assert index.stats["recall_at_10"] > 0.9
    assert run(grown.find(texts[-1], 1))[0].passage.id == "1199"
    assert run(opened.find(texts[5], 3)) == run(built.find(texts[5], 3))


@pytest.mark.parametrize(("count", "is_elsewhere"), [(5, False), (2_001, True)])
def test_a_search_of_many_vectors_leaves_the_event_loop_alone(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch, count: int, is_elsewhere: bool
) -> None:
    documents = [Document(id=str(n), title="", text="") for n in range(count)]
    retriever = DenseRetriever(DenseIndex.build(documents, np.eye(count, 384, dtype=np.float32)), encoder)
    search, threads = DenseIndex.search, []
    monkeypatch.setattr(DenseIndex, "search", lambda *of: threads.append(threading.get_ident()) or search(*of))
    assert len(run(retriever.find("Oslo", 2))) == 2
    assert [thread != threading.get_ident() for thread in threads] == [is_elsewhere]
