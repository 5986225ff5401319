"""Vectors: exact search, and approximate indexes beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tests.retrieval.backends.words import WordEncoder, bench
from tests.retrieval.support import run
from trailforge.retrieval.backends import load_backend
from trailforge.retrieval.backends.facts import NearRows
from trailforge.retrieval.backends.vectors import Ann, AnnConfig, EmbeddedTexts, Vectors, embed, embed_passages
from trailforge.schemas import Document, RetrievalError

ROWS, DIMENSION = 6_000, 64


def draw_units(count: int, seed: int) -> np.ndarray:
    """Unit vectors around a hundred centres, as texts lie around subjects."""
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(100, DIMENSION))
    vectors = centres[draw.integers(100, size=count)] + 1.0 * draw.normal(size=(count, DIMENSION))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


MATRIX, QUERIES = draw_units(ROWS, 1), draw_units(60, 2)
KINDS = ("hnsw", "ivf_pq")


@pytest.fixture(scope="module", params=KINDS)
def indexed(request: pytest.FixtureRequest) -> Vectors:
    """With an approximate index."""
    return Vectors(MATRIX).indexed(AnnConfig(kind=request.param), QUERIES)


def ann_of(vectors: Vectors) -> Ann:
    """Its index, which has to be there."""
    assert vectors.ann is not None
    return vectors.ann


def recall(vectors: Vectors, queries: np.ndarray) -> float:
    """At 10, against numpy."""
    wanted = np.argsort(-(queries @ vectors.matrix.T), axis=1)[:, :10]
    found = [[row for _, row in vectors.search(query, 10)] for query in queries]
    return float(np.mean([np.isin(*each).mean() for each in zip(wanted, found, strict=True)]))


def test_passages_are_embedded_title_and_text_shard_by_shard() -> None:
    documents = [Document(id=str(n), title=f"Lake {n}" if n % 3 else "", text=f"It is {n} deep.") for n in range(2_100)]
    texts = EmbeddedTexts(documents)
    assert len(texts) == 2_100 and texts[:2] == ["It is 0 deep.", "Lake 1\nIt is 1 deep."]
    assert list(EmbeddedTexts(documents, 2_098)) == texts[2_098:] == [texts[2_098], texts[-1]]
    tools = bench()
    known = run(embed_passages("some", documents[:5], tools))
    matrix = run(embed_passages("all", documents, tools, known)).matrix
    assert matrix.dtype == np.float32 and np.array_equal(matrix, run(tools.vectors.documents(list(texts))))


def test_how_long_vectors_are_is_asked_off_the_event_loop() -> None:
    """`Encoder.dimension` waits for a server where it stands, and everybody else with it."""

    class Served(WordEncoder):
        @property
        def dimension(self) -> int:
            """It runs in no thread of the encoder."""
            raise AssertionError

        async def query(self, text: str) -> np.ndarray:
            return await WordEncoder().query(text)

        async def documents(self, texts: Sequence[str]) -> np.ndarray:
            return await WordEncoder().documents(texts)

    found = run(embed("some", ["a lake"], bench(encoder=Served())))
    assert np.array_equal(found.matrix, run(WordEncoder().documents(["a lake"])))
    assert run(embed("none", [], bench(encoder=Served()))).matrix.shape == (0, WordEncoder.dimension)


def test_exact_search_agrees_with_numpy() -> None:
    for query in QUERIES[:10]:
        cosines = MATRIX.astype(np.float64) @ query.astype(np.float64)
        hits = Vectors(MATRIX).search(query, 7)
        assert [row for _, row in hits] == np.argsort(-cosines)[:7].tolist()
        assert [score for score, _ in hits] == pytest.approx(sorted(cosines, reverse=True)[:7], abs=2e-6)


def test_the_recall_that_is_said_is_the_recall_there_is(indexed: Vectors) -> None:
    stats = ann_of(indexed).stats
    assert stats.recall_at_10 == pytest.approx(recall(indexed, QUERIES), abs=1e-4)
    assert stats.recall_at_10 >= 0.97
    assert (stats.vectors, stats.queries) == (ROWS, 60)
    assert recall(indexed, draw_units(200, 3)) >= 0.94


def test_what_is_found_has_its_exact_cosine_and_an_order(indexed: Vectors) -> None:
    for query in QUERIES[:20]:
        hits = indexed.search(query, 5)
        assert [score for score, _ in hits] == sorted((score for score, _ in hits), reverse=True)
        for score, row in hits:
            assert score == round(float(MATRIX[row].astype(np.float64) @ query.astype(np.float64)), 6)


def test_effort_is_the_least_that_reaches_the_recall_wanted() -> None:
    """Over vectors that lie anywhere, where no list tells much."""
    everywhere = np.random.default_rng(5).normal(size=(ROWS, DIMENSION)).astype(np.float32)
    hard = Vectors(everywhere / np.linalg.norm(everywhere, axis=1, keepdims=True))
    little = ann_of(hard.indexed(AnnConfig(kind="ivf_pq", least_recall=0.1), QUERIES)).stats
    most = ann_of(hard.indexed(AnnConfig(kind="ivf_pq", least_recall=1.1), QUERIES)).stats
    assert (little.effort, most.effort) == (16, 256)
    assert 0.1 <= little.recall_at_10 < most.recall_at_10


def test_what_is_saved_answers_alike_and_is_mapped(indexed: Vectors, tmp_path: Path) -> None:
    indexed.save(tmp_path / "vectors.npy")
    opened = Vectors.open(tmp_path / "vectors.npy")
    assert ann_of(opened).stats == ann_of(indexed).stats
    for query in QUERIES:
        assert opened.search(query, 10) == indexed.search(query, 10)
    maps = Path("/proc/self/maps")
    if maps.exists():
        mapped = maps.read_text()
        assert all(str(tmp_path / name) in mapped for name in ("vectors.npy", "vectors.ann.faiss"))


def test_an_opened_index_grows(indexed: Vectors, tmp_path: Path) -> None:
    indexed.save(tmp_path / "vectors.npy")
    more = Vectors(draw_units(500, 4))
    kind = ann_of(indexed).stats.kind
    grown = Vectors.open(tmp_path / "vectors.npy").grown(more, AnnConfig(kind=kind), QUERIES)
    assert len(grown) == ann_of(grown).stats.vectors == ROWS + 500
    assert [grown.search(vector, 1)[0][1] for vector in more.matrix[:20]] == list(range(ROWS, ROWS + 20))
    assert ann_of(grown).stats.recall_at_10 == pytest.approx(recall(grown, QUERIES), abs=1e-4)
    assert ann_of(grown).stats.recall_at_10 >= 0.97
    assert len(indexed) == ROWS  # and the one before is as it was


def test_one_whose_recall_falls_when_it_grows_is_made_anew() -> None:
    """Trained on one subject, fed with others: its lists and codes say nothing of them."""
    few = Vectors(np.repeat(MATRIX[:20], 60, axis=0)).indexed(AnnConfig(kind="ivf_pq", least_recall=0.0), QUERIES)
    config = AnnConfig(kind="ivf_pq", least_recall=0.9)
    grown = few.grown(Vectors(MATRIX), config, QUERIES)
    stale = replace(config, least_recall=0.0)
    assert ann_of(few.grown(Vectors(MATRIX), stale, QUERIES)).index.nlist == ann_of(few).index.nlist
    assert ann_of(grown).index.nlist != ann_of(few).index.nlist


@pytest.mark.parametrize(
    ("vectors", "kind"), [(50_000, "flat"), (50_001, "hnsw"), (200_000, "hnsw"), (200_001, "ivf_pq")]
)
def test_the_kind_goes_by_the_number_of_vectors(vectors: int, kind: str) -> None:
    assert AnnConfig().choose(vectors) == kind


def test_too_few_vectors_to_train_on_are_all_compared() -> None:
    few = Vectors(MATRIX[:999]).indexed(AnnConfig(kind="ivf_pq"), QUERIES)
    assert few.ann is None
    assert (
        Vectors(MATRIX[:900]).indexed(AnnConfig(), QUERIES).grown(Vectors(MATRIX[900:]), AnnConfig(), QUERIES).ann
        is None
    )


def test_more_than_an_index_gives_are_found_exactly(indexed: Vectors) -> None:
    assert indexed.search(QUERIES[0], 1000) == Vectors(MATRIX).search(QUERIES[0], 1000)
    assert indexed.search(QUERIES[0], 0) == []


@pytest.mark.parametrize("name", ["vectors.npy", "vectors.ann.faiss", "vectors.ann.json"])
@pytest.mark.parametrize("content", [b"", b"nothing of the kind", b'{"kind": "hnsw"}'])
def test_a_damaged_file_is_named(indexed: Vectors, tmp_path: Path, name: str, content: bytes) -> None:
    indexed.save(tmp_path / "vectors.npy")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RetrievalError, match=r"is missing or damaged .*: build the index again"):
        Vectors.open(tmp_path / "vectors.npy")


def test_an_index_of_other_vectors_is_refused(indexed: Vectors, tmp_path: Path) -> None:
    indexed.save(tmp_path / "vectors.npy")
    np.save(tmp_path / "vectors.npy", MATRIX[:-1])
    with pytest.raises(RetrievalError, match=r"vectors\.ann\.faiss is missing or damaged \(of other vectors\)"):
        Vectors.open(tmp_path / "vectors.npy")


def numbers_of(near: NearRows) -> list[int]:
    """Of all its pieces."""
    return [number for number, _ in near.pieces([""] * len(near.matrix))]


def near_pairs(near: NearRows) -> set[tuple[int, int]]:
    """Of all rows."""
    return {(int(row), int(other)) for row, other, _ in near.find(numbers_of(near))}


def expected_pairs(least: float) -> set[tuple[int, int]]:
    """By numpy."""
    cosines = MATRIX @ MATRIX.T
    np.fill_diagonal(cosines, -1)
    return {(int(row), int(other)) for row, other in np.argwhere(cosines >= least)}


def test_near_rows_are_found_among_all_or_among_lists() -> None:
    wanted = expected_pairs(0.6)
    assert len(wanted) > 10_000
    exact = NearRows.of(Vectors(MATRIX), 0.6, ROWS, ROWS)
    assert (exact.lists, near_pairs(exact)) == (None, wanted)
    listed = NearRows.of(Vectors(MATRIX), 0.6, ROWS, ROWS - 1)
    found = near_pairs(listed)
    assert found <= wanted
    assert listed.lists is not None
    assert listed.lists.effort < len(listed.lists.members) / 2
    assert len(found) / len(wanted) == pytest.approx(listed.lists.recall, abs=0.01)
    assert len(found) / len(wanted) >= 0.98


def test_near_rows_come_nearest_first_and_no_more_than_wanted() -> None:
    twins = np.concatenate([MATRIX[:3], MATRIX, MATRIX[:3]])
    cosines = twins[[0, 5000]] @ twins.T
    cosines[[0, 1], [0, 5000]] = -1
    for near in (NearRows.of(Vectors(twins), 0.5, 4, compared) for compared in (ROWS * 2, 0)):
        halves = [near.find(numbers_of(near)[half::2]) for half in (0, 1)]
        found = near.best(np.concatenate(halves))
        found = found[np.isin(found[:, 0], [0, 5000])]
        assert found[:, 0].tolist() == [0.0] * 4 + [5000.0] * 4
        assert found[:2, 1].tolist() == [3.0, ROWS + 3.0]  # twins, in the order of their rows
        assert found[:, 2] == pytest.approx(np.sort(cosines, axis=1)[:, :-5:-1].ravel(), abs=1e-6)


def test_lists_are_the_same_for_any_number_of_threads() -> None:
    found: list[bytes] = []
    for threads in (1, 2, 1):
        with threadpool_limits(threads):
            near = NearRows.of(Vectors(MATRIX), 0.6, 20, 0)
            assert near.lists is not None
            found.append(near.find(numbers_of(near)).tobytes())
    assert found[0] == found[1] == found[2]


def test_where_lists_find_too_little_all_rows_are_compared() -> None:
    """Vectors that lie anywhere: no list tells what is near."""
    everywhere = np.random.default_rng(5).normal(size=(ROWS, DIMENSION)).astype(np.float32)
    hard = Vectors(everywhere / np.linalg.norm(everywhere, axis=1, keepdims=True))
    assert NearRows.of(hard, 0.3, 100, 0).lists is None


def test_few_or_lonely_rows_need_no_lists() -> None:
    assert NearRows.of(Vectors(MATRIX[:999]), 0.6, 5, 0).lists is None
    lonely = NearRows.of(Vectors(MATRIX), 0.999, 5, 0)
    assert lonely.lists is None
    assert lonely.find([0, 1]).shape == (0, 3)


TOWNS = ["".join(letters).title() for letters in islice(product("abcdefg", repeat=4), 1200)]
ABOUT_TOWNS = [Document(id=name, title=name, text=f"{name} is a town.") for name in TOWNS]


@pytest.mark.parametrize(
    ("name", "settings", "searched"),
    [
        ("raptor_plain", {"layers": 0}, ("node",)),
        ("graph_rag_plain", {}, ("entity",)),
        ("hyper_graph_rag_plain", {}, ("fact", "entity")),
    ],
)
def test_among_more_than_are_compared_graphs_begin_at_what_an_approximate_index_finds(
    name: str, settings: dict[str, Any], searched: tuple[str, ...], tmp_path: Path
) -> None:
    """It is kept with the index."""
    declared, tools = load_backend(name), bench()

    def build(compared: int) -> Any:
        config = declared.config(**settings, compared_up_to=compared)
        return cast(Any, run(cast(Any, declared.build(ABOUT_TOWNS, config, tools))))

    def finds(index: Any) -> set[tuple[str, str]]:
        return {(town, hit.passage.id) for town in TOWNS[::60] for hit in run(index.find(f"Where is {town}?", 5))}

    exact, near = build(1200), build(1199)
    assert not any("ann" in figure for figure in exact.stats)
    assert [near.stats[f"{of}_ann"] for of in searched] == ["hnsw"] * len(searched)
    assert all(near.stats[f"{of}_recall"] >= 0.99 for of in searched)
    wanted = finds(exact)
    assert len(wanted) == 5 * 20
    assert len(finds(near) & wanted) >= 0.98 * len(wanted)
    near.save(tmp_path)
    opened: Any = declared.open(tmp_path, ABOUT_TOWNS, declared.config(**settings), tools)
    assert finds(opened) == finds(near)
    assert [opened.stats[f"{of}_ann"] for of in searched] == ["hnsw"] * len(searched)
