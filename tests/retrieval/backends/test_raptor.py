"""RAPTOR: clusters by the paper's formulas, the tree over them, and the search over all of its nodes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from tests.retrieval.backends.words import WordEncoder, bench
from tests.retrieval.support import run
from tests.support.cut_replies import CutModel
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.inference import Request
from trailforge.retrieval.backends import load_backend
from trailforge.retrieval.backends.raptor import RaptorConfig, RaptorIndex, find_clusters, fit_mixture, members
from trailforge.retrieval.backends.writing import lead_sentences, within
from trailforge.retrieval.indexes.shards import KeptShards
from trailforge.schemas import Document, RetrievalError

RAPTOR = load_backend("raptor")
TOPICS = ("river bridge water boat", "film actor scene director", "song album singer tour", "war treaty army siege")
DOCUMENTS = [
    Document(id=f"d{n}", title=f"Title {n}", text=f"{topic} {topic} {n}. Second sentence {n}.")
    for n, topic in enumerate(topic for topic in TOPICS for _ in range(8))
]
PLAIN = RaptorConfig(summaries="extractive", reduction="pca")
"""As the plain build."""
SMALL = replace(PLAIN, dimensions=2)


def blobs(count: int, centres: list[list[float]]) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(centre, 0.2, (count, len(centre))) for centre in centres])


# Clusters


def test_a_node_is_in_every_cluster_above_the_threshold_and_in_its_most_probable_one() -> None:
    """The third is in two, .1 is not above .1, and the last is in one though it is above it nowhere."""
    probabilities = np.array(
        [[0.95, 0.05] + [0] * 10, [0.1, 0.9] + [0] * 10, [0.6, 0.4] + [0] * 10, [0.08] * 11 + [0.12]]
    )
    probabilities[3] = [0.083] * 11 + [0.087]
    assert members(probabilities, 0.1) == [[0, 2], [1, 2], [3]]  # nine components have none


def test_the_number_of_clusters_has_the_lowest_bic() -> None:
    """BIC = p ln n - 2 ln L with p = (k - 1) + k d + k d (d + 1) / 2, of all numbers below that of the points."""
    points = blobs(7, [[0, 0], [4, 0], [0, 4]])
    config = replace(PLAIN, most_clusters=6)

    def bic(clusters: int) -> float:
        mixture: Any = GaussianMixture(clusters, random_state=config.seed).fit(points)
        parts = zip(mixture.weights_, mixture.means_, mixture.covariances_, strict=True)
        density = sum(weight * multivariate_normal(mean, covariance).pdf(points) for weight, mean, covariance in parts)
        parameters = (clusters - 1) + clusters * 2 + clusters * 3
        return parameters * np.log(len(points)) - 2 * float(np.log(density).sum())

    bics = {clusters: bic(clusters) for clusters in range(1, 6)}
    assert fit_mixture(points, config).n_components == min(bics, key=bics.__getitem__) == 3


def test_one_cluster_by_hand() -> None:
    """Four points at (±1, 0), (0, ±1): mean 0, covariance I/2, density e^-1 / π each, five parameters."""
    points = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    mixture = fit_mixture(points, replace(PLAIN, most_clusters=2))
    assert mixture.n_components == 1
    assert mixture.bic(points) == pytest.approx(5 * np.log(4) + 8 * (1 + np.log(np.pi)), abs=1e-3)


def test_clusters_are_the_groups_that_are_there() -> None:
    vectors = blobs(10, [[0, 0, 9], [9, 0, 0], [0, 9, 0]])
    clusters = find_clusters(vectors, [1] * 30, replace(PLAIN, dimensions=10, most_clusters=5))
    assert sorted(set(itertools.chain(*clusters))) == list(range(30))
    assert all(len({row // 10 for row in cluster}) == 1 for cluster in clusters)


def test_a_cluster_that_is_too_long_is_clustered_again() -> None:
    vectors = blobs(10, [[0, 0, 9], [9, 0, 0], [0, 9, 0]])
    config = replace(PLAIN, dimensions=2, most_clusters=4)
    short = find_clusters(vectors, [1] * 30, config)
    assert max(map(len, short)) > 3
    clusters = find_clusters(vectors, [10] * 30, replace(config, longest_cluster=30))
    assert max(map(len, clusters)) <= 3
    assert sorted(set(itertools.chain(*clusters))) == list(range(30))


def test_what_cannot_be_told_apart_is_one_cluster_or_cut_in_runs() -> None:
    same = np.ones((5, 4))
    assert find_clusters(same, [10] * 5, SMALL) == [[0, 1, 2, 3, 4]]
    assert find_clusters(same, [10] * 5, replace(SMALL, longest_cluster=25)) == [[0, 1], [2, 3], [4]]
    assert find_clusters(same, [10] * 5, replace(SMALL, longest_cluster=5)) == [[0], [1], [2], [3], [4]]


@pytest.mark.parametrize("nodes", [1, 2, 3, 4])
def test_few_nodes_are_clustered_too(nodes: int) -> None:
    clusters = find_clusters(blobs(nodes, [[0, 0, 0]]), [1] * nodes, PLAIN)
    assert sorted(set(itertools.chain(*clusters))) == list(range(nodes))


@pytest.mark.slow
def test_umap_finds_the_groups_too() -> None:
    pytest.importorskip("umap")
    vectors = blobs(15, [[0, 0, 9], [9, 0, 0]])
    config = RaptorConfig(reduction="umap", dimensions=2, most_clusters=4)
    clusters = find_clusters(vectors, [1] * 30, config)
    assert clusters == find_clusters(vectors, [1] * 30, config)
    assert all(len({row // 15 for row in cluster}) == 1 for cluster in clusters)


# Summaries


def test_first_sentences_of_all_come_before_second_ones() -> None:
    texts = ["One here. Two here.", "One there. Two there.", "One here. Three on."]
    assert lead_sentences(texts, 100) == "One here. One there. Two here. Two there. Three on."
    assert lead_sentences(texts, 7) == "One here. One there."
    assert lead_sentences(texts, 1) == "One here."
    assert lead_sentences([], 9) == lead_sentences([""], 9) == ""


def test_as_many_texts_as_fit_and_one_at_least() -> None:
    assert [within(["a b", "c d", "e"], tokens) for tokens in (0, 3, 4, 5)] == [1, 1, 2, 3]
    assert within([], 5) == 0


# The tree


async def build(
    documents: list[Document] = DOCUMENTS, config: RaptorConfig = SMALL, model: ScriptedModel | None = None
) -> RaptorIndex:
    index = await RAPTOR.build(documents, config, bench(model))
    assert isinstance(index, RaptorIndex)
    return index


@pytest.fixture(scope="module")
def index() -> RaptorIndex:
    """Over DOCUMENTS, without a model."""
    return run(build())


async def test_summaries_stand_over_passages_layer_by_layer(index: RaptorIndex) -> None:
    """A node's leaves are those of its children, which are of lower layers, and more than one."""
    rows = index.tree.summaries.to_pylist()
    leaves = [{n} for n in range(len(DOCUMENTS))]
    layers = [0] * len(DOCUMENTS)
    for row in rows:
        assert max(layers[child] for child in row["children"]) < row["layer"] <= max(layers) + 1
        assert len(row["children"]) > 1
        assert set(row["leaves"]) == set().union(*(leaves[child] for child in row["children"]))
        leaves.append(set(row["leaves"]))
        layers.append(row["layer"])
    assert max(layers) > 1


async def test_a_summary_is_the_first_sentences_nearest_the_middle_first(index: RaptorIndex) -> None:
    row = index.tree.summaries.to_pylist()[0]
    vectors = index.tree.vectors.matrix
    middle = vectors[row["children"]].mean(0)
    nearest = max(row["children"], key=lambda child: float(vectors[child] @ middle))
    assert row["text"].startswith(DOCUMENTS[nearest].text.split(". ")[0])
    assert row["title"].startswith(DOCUMENTS[nearest].title)


@pytest.mark.parametrize(("count", "summaries"), [(0, False), (1, False), (3, False), (12, True)])
async def test_a_layer_of_few_nodes_is_the_last(count: int, summaries: bool) -> None:
    index = await build(DOCUMENTS[:count], replace(SMALL, query_tokens=10_000))
    assert (len(index.tree.summaries) > 0) == summaries
    found = await index.find("river bridge", 50)
    assert {f.passage.id for f in found} >= {d.id for d in DOCUMENTS[:count]}


async def test_layers_are_no_more_than_are_wanted() -> None:
    index = await build(config=replace(SMALL, layers=1))
    assert set(index.tree.summaries["layer"].to_pylist()) == {1}
    assert not len((await build(config=replace(SMALL, layers=0))).tree.summaries)


async def test_all_nodes_are_searched_by_cosine_and_a_summary_names_its_passages(index: RaptorIndex) -> None:
    query = "song album singer"
    found = await index.find(query, 12)
    cosines = index.tree.vectors.matrix @ await WordEncoder().query(query)
    best = sorted(range(len(cosines)), key=lambda row: (-round(float(cosines[row]), 6), row))[:12]
    names = [DOCUMENTS[row].id if row < 32 else f"raptor-{row - 32}" for row in best]
    assert [f.passage.id for f in found] == names
    assert [f.passage.score for f in found] == [round(float(cosines[row]), 6) for row in best]
    [summary] = [f for f in found if f.passage.id.startswith("raptor-")][:1]
    row = index.tree.summaries.to_pylist()[int(summary.passage.id.removeprefix("raptor-"))]
    assert summary.sources == tuple(DOCUMENTS[leaf].id for leaf in row["leaves"])
    assert summary.why.endswith(f"of a summary, layer {row['layer']}, of {len(row['leaves'])} passages")


async def test_a_search_ends_where_its_budget_does() -> None:
    index = await build(DOCUMENTS[:4], replace(SMALL, query_tokens=40))
    found = await index.find("song album singer", 10)
    assert 1 <= len(found) < 4
    assert len(await (await build(DOCUMENTS[:4], replace(SMALL, query_tokens=1))).find("song", 10)) == 1
    assert await index.find("song", 0) == await index.find("song", -1) == []


async def test_duplicates_are_found_in_the_order_of_the_documents() -> None:
    twins = [Document(id=str(n), title="T", text="river bridge") for n in range(14)]
    found = await (await build(twins)).find("T river bridge", 20)
    ids = [f.passage.id for f in found if not f.passage.id.startswith("raptor-")]
    assert ids == [document.id for document in twins]


async def test_the_same_documents_give_the_same_bytes_and_what_is_opened_finds_the_same(
    index: RaptorIndex, tmp_path: Path
) -> None:
    for name, each in (("a", index), ("b", await build())):
        (tmp_path / name).mkdir()
        each.save(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == ["summaries.arrow", "vectors.npy"]
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files)
    opened = RAPTOR.open(tmp_path / "a", DOCUMENTS, SMALL, bench())
    assert isinstance(opened, RaptorIndex)
    assert isinstance(opened.tree.vectors.matrix, np.memmap)
    assert await opened.find("siege of a river", 9) == await index.find("siege of a river", 9)
    with pytest.raises(RetrievalError, match="not of these documents"):
        RAPTOR.open(tmp_path / "a", DOCUMENTS[1:], SMALL, bench())
    (tmp_path / "a" / "summaries.arrow").write_bytes(b"damaged")
    with pytest.raises(RetrievalError, match="holds no tree"):
        RAPTOR.open(tmp_path / "a", DOCUMENTS, SMALL, bench())


# With a model


def summarise(request: Request) -> str:
    return f"  Summary of {prompt_text(request).count('[')} passages. "


async def test_a_model_writes_one_summary_for_each_cluster() -> None:
    model = ScriptedModel(summarise)
    config = replace(SMALL, summaries="model")
    index = await build(config=config, model=model)
    rows = index.tree.summaries.to_pylist()
    assert [row["text"] for row in rows] == [f"Summary of {len(row['children'])} passages." for row in rows]
    assert {request.purpose for request in model.requests} == {"summary"}
    assert (RAPTOR.asks_model(config), RAPTOR.asks_model(SMALL)) == (("build",), ())
    assert all("at most 75 words" in prompt_text(request) for request in model.requests)


@pytest.mark.parametrize("model", [CutModel(summarise), ScriptedModel(lambda request: " ")])
async def test_a_summary_that_cannot_be_used_is_made_of_first_sentences_and_counted(
    index: RaptorIndex, model: ScriptedModel
) -> None:
    asked = await build(config=replace(SMALL, summaries="model"), model=model)
    assert asked.tree.lost_summaries == len(asked.tree.summaries) > 0
    assert asked.tree.summaries == index.tree.summaries


async def test_a_build_that_broke_off_pays_no_summary_twice(tmp_path: Path) -> None:
    config = replace(SMALL, summaries="model")
    first, second = ScriptedModel(summarise), ScriptedModel(summarise)

    class Broken(WordEncoder):
        async def documents(self, texts: Sequence[str]) -> np.ndarray:
            if texts[0].startswith("Summary"):
                raise RetrievalError("broken off")
            return await super().documents(texts)

    with pytest.raises(RetrievalError, match="broken off"):
        await RAPTOR.build(DOCUMENTS, config, replace(bench(first, Broken()), map=KeptShards(tmp_path)))
    built = await RAPTOR.build(DOCUMENTS, config, replace(bench(second), map=KeptShards(tmp_path)))
    whole = await build(config=config, model=ScriptedModel(summarise))
    assert isinstance(built, RaptorIndex) and built.tree.summaries == whole.tree.summaries
    assert first.requests and not {r.key for r in first.requests} & {r.key for r in second.requests}
