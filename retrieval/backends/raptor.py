"""RAPTOR (Sarthi et al., 2024): a tree of summaries over the passages, all of whose nodes are searched at once.

Nodes of a layer are clustered by mixtures of Gaussians on their vectors, reduced to ten dimensions: all of them first,
then each cluster by itself. How many there are, BIC decides; a node is in every cluster that has it with a probability
above .1. Each cluster becomes a summary, a node of the next layer. A search takes the nodes nearest to the query.

`raptor` is built by a model, one call per cluster, and reduces by UMAP. Its leaves are passages of 100 tokens where the
corpus is cut into such (`--chunk-tokens 100`, as the index preset says). `raptor_plain` asks none: a summary is the
first sentences of the passages nearest to the middle of the cluster, and vectors are reduced by PCA.

What differs from the authors' code: prompts are ours; a node that no cluster has above .1 stays in its most probable
one; the mixture is the one whose BIC was lowest, not fitted again by another seed; clusters of the same nodes are one;
a cluster that is too long and cannot be split is cut in runs; a node that is a cluster by itself is not summarised but
goes into the next layer as it is; leaves are of one document each and keep their marks; tokens are estimated.
"""

from __future__ import annotations

import asyncio
import functools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from trailforge.inference import Sampling, fill
from trailforge.retrieval.backends.declaration import (
    Backend,
    FoundPassage,
    PlannedCalls,
    Workbench,
    passage_tokens,
    plan_calls,
)
from trailforge.retrieval.backends.graph import Link, Place
from trailforge.retrieval.backends.vectors import Vectors, embed, embedded_text, index_above
from trailforge.retrieval.backends.writing import (
    PROMPTS,
    ask_in_shards,
    in_runs,
    lead_sentences,
    within,
    write_summary,
)
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.retrieval.threads import load_umap, one_thread
from trailforge.schemas import Document, Passage, RetrievalError, estimate_tokens

_VECTORS, _SUMMARIES = "vectors.npy", "summaries.arrow"
_TEXT, _NODES = pa.string(), pa.list_(pa.int32())
_COLUMNS = pa.schema({"title": _TEXT, "text": _TEXT, "layer": pa.int32(), "children": _NODES, "leaves": _NODES})
_TITLES_SHOWN = 3
_SUMMARIES_PER_PASSAGE, _READ_PER_TOKEN = 0.23, 1.14
"""Summaries, and tokens that they are written from per token of passage: of extractive trees over 100 and 200 passages
of MuSiQue, with the packaged encoder. Over 20 and 50 there were fewer, 0.16 to 0.2."""
_REPLY_PER_TOKEN = 1.5
"""Tokens of a summary per token asked for: a strong model's four, over 20 passages of MuSiQue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaptorConfig:
    """Settings of RAPTOR: the numbers of the authors' code, except for sampling, which suits models that reason.

    Lengths are in tokens as `estimate_tokens` counts them.
    """

    summaries: Literal["extractive", "model"] = "model"
    """How summaries are written; `extractive` asks no model."""
    summary_tokens: int = 100
    """Length of a summary. A model is asked for at most three quarters as many words."""
    reduction: Literal["pca", "umap"] = "umap"
    """Method that reduces vectors. `umap`: as published; slower than `pca`, and it needs the package umap-learn."""
    dimensions: int = 10
    """Dimensions of the vectors that are clustered. A layer of at most one node more than that is the last."""
    neighbours: int = 10
    """Number of a node's neighbours in UMAP within a cluster; over all nodes it is the square root of their number."""
    most_clusters: int = 50
    """Exclusive upper limit on the number of clusters that are tried."""
    membership: float = 0.1
    """Probability above which a node belongs to a cluster."""
    longest_cluster: int = 3500
    """Length above which a cluster is clustered again."""
    layers: int = 5
    """Largest number of layers above the passages."""
    query_tokens: int = 3500
    """Largest length of what a search returns, apart from its first node."""
    compared_up_to: int = 50_000
    """Number of nodes up to which a query is compared with all; among more an approximate index finds the nearest,
    as in `dense`."""
    seed: int = 224
    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 8192
    """Largest number of tokens of a reply, thoughts included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaptorPlainConfig(RaptorConfig):
    """Settings of RAPTOR without a model, and without UMAP unless it is asked for."""

    summaries: Literal["extractive"] = "extractive"
    reduction: Literal["pca", "umap"] = "pca"


@dataclass(frozen=True, slots=True)
class SummaryTree:
    """Nodes of a tree: the passages by row, then the summaries, layer after layer."""

    vectors: Vectors
    summaries: pa.Table
    """Table of the summaries: title, text, layer (1: over passages), children (nodes) and leaves (rows of passages)."""
    lost_summaries: int = 0
    """Number of summaries made of first sentences because a model's reply could not be used."""


def find_clusters(vectors: np.ndarray, tokens: Sequence[int], config: RaptorConfig) -> list[list[int]]:
    """Return the clusters of nodes, as ascending rows; a node may be in several, and is in at least one.

    `vectors`: shape (nodes, dimension). `tokens`: the length of each node. The result is deterministic; it runs in one
    thread.
    """
    found: dict[tuple[int, ...], None] = {}

    def split(rows: list[int]) -> None:
        for part in _cluster_twice(vectors[rows], config):
            cluster = [rows[place] for place in part]
            if len(cluster) == 1 or sum(tokens[row] for row in cluster) <= config.longest_cluster:
                found[tuple(cluster)] = None
            elif len(cluster) < len(rows):
                split(cluster)
            else:
                runs = in_runs(cluster, [tokens[row] for row in cluster], config.longest_cluster)
                found.update(dict.fromkeys(map(tuple, runs)))

    with (
        one_thread("sklearn.mixture", "sklearn.decomposition"),
        warnings.catch_warnings(),
        np.errstate(invalid="ignore"),
    ):
        warnings.simplefilter("ignore")  # of nodes that are all the same, and of a mixture that did not settle
        split(list(range(len(vectors))))
    return [list(cluster) for cluster in found]


def fit_mixture(points: np.ndarray, config: RaptorConfig) -> Any:
    """Return the mixture of Gaussians with the lowest BIC, of one component or more, but fewer than points."""
    from sklearn.mixture import GaussianMixture

    best, lowest = None, np.inf
    for components in range(1, max(min(config.most_clusters, len(points)), 2)):
        mixture = GaussianMixture(components, random_state=config.seed)
        bic = mixture.fit(points).bic(points)
        if bic < lowest:
            best, lowest = mixture, bic
    return best


def members(probabilities: np.ndarray, threshold: float) -> list[list[int]]:
    """Return the rows of each component: those above the threshold, and those for which it is the most probable one.

    `probabilities`: shape (points, components). Components without rows are left out.
    """
    chosen = probabilities > threshold
    chosen[np.arange(len(chosen)), probabilities.argmax(1)] = True
    return [rows for column in chosen.T if (rows := np.flatnonzero(column).tolist())]


def _cluster_twice(vectors: np.ndarray, config: RaptorConfig) -> list[list[int]]:
    """Clusters of all vectors together, each clustered again by itself where it has enough for that."""
    if len(vectors) < 3:
        return [list(range(len(vectors)))]
    parts: list[list[int]] = []
    for rows in _cluster_once(vectors, int((len(vectors) - 1) ** 0.5), config):
        if len(rows) <= config.dimensions + 1:
            parts.append(rows)
        else:
            inner = _cluster_once(vectors[rows], config.neighbours, config)
            parts += [[rows[place] for place in part] for part in inner]
    return parts


def _cluster_once(vectors: np.ndarray, neighbours: int, config: RaptorConfig) -> list[list[int]]:
    points = _reduce(vectors, neighbours, config)
    return members(fit_mixture(points, config).predict_proba(points), config.membership)


def _reduce(vectors: np.ndarray, neighbours: int, config: RaptorConfig) -> np.ndarray:
    dimensions = max(min(config.dimensions, len(vectors) - 2, vectors.shape[1]), 1)
    if config.reduction == "pca":
        from sklearn.decomposition import PCA

        return PCA(dimensions, random_state=config.seed).fit_transform(vectors)
    model = load_umap()(
        n_components=dimensions,
        n_neighbors=max(min(neighbours, len(vectors) - 1), 2),
        metric="cosine",
        random_state=config.seed,
        n_jobs=1,
    )
    return np.asarray(model.fit_transform(vectors), np.float64)


@dataclass(slots=True)
class _TreeBuild:
    documents: Sequence[Document]
    config: RaptorConfig
    tools: Workbench
    texts: list[str]
    """Of all nodes, as a model reads them."""
    vectors: np.ndarray
    leaves: list[list[int]]
    rows: list[dict[str, Any]] = field(default_factory=list)
    lost: int = 0

    async def grow(self) -> SummaryTree:
        """Layer by layer, until one is small, or would be no smaller than that below."""
        layer, nodes = 1, list(range(len(self.texts)))
        while layer <= self.config.layers and len(nodes) > self.config.dimensions + 1:
            clusters = await self._clusters(layer, nodes)
            if len(clusters) >= len(nodes):
                break
            alone = {cluster[0] for cluster in clusters if len(cluster) == 1}
            nodes = sorted(alone) + await self._add(layer, [cluster for cluster in clusters if len(cluster) > 1])
            layer += 1
        return SummaryTree(Vectors(self.vectors), pa.Table.from_pylist(self.rows, _COLUMNS), self.lost)

    async def _clusters(self, layer: int, nodes: list[int]) -> list[list[int]]:
        async def work(part: Sequence[list[int]]) -> list[list[int]]:
            lengths = [estimate_tokens(self.texts[node]) for node in part[0]]
            return await asyncio.to_thread(find_clusters, self.vectors[part[0]], lengths, self.config)

        [clusters] = await self.tools.map(f"clusters-{layer}", work, [nodes], 1)
        return [[nodes[place] for place in cluster] for cluster in clusters]

    async def _add(self, layer: int, clusters: list[list[int]]) -> list[int]:
        middles = [self.vectors[cluster].mean(0) for cluster in clusters]
        ordered = [self._nearest(cluster, middle) for cluster, middle in zip(clusters, middles, strict=True)]
        texts = await self._summaries(layer, [[self.texts[node] for node in nodes] for nodes in ordered])
        first = len(self.texts)
        for cluster, middle, text in zip(clusters, middles, texts, strict=True):
            leaves = sorted({leaf for node in cluster for leaf in self.leaves[node]})
            title = self._title(self._nearest(leaves, middle))
            self.rows.append({"title": title, "text": text, "layer": layer, "children": cluster, "leaves": leaves})
            self.leaves.append(leaves)
        self.texts += texts
        self.vectors = np.concatenate([self.vectors, (await embed(f"vectors-{layer}", texts, self.tools)).matrix])
        return list(range(first, len(self.texts)))

    async def _summaries(self, layer: int, groups: list[list[str]]) -> list[str]:
        config = self.config
        written: list[str | None] = [None] * len(groups)
        if config.summaries == "model":
            sampling = Sampling(temperature=config.temperature, top_p=config.top_p, max_tokens=config.max_tokens)
            words = 3 * config.summary_tokens // 4
            written = await ask_in_shards(
                f"summaries-{layer}",
                lambda texts: write_summary(self.tools.model, texts, words, sampling),
                groups,
                self.tools,
            )
            self.lost += written.count(None)
        return [
            lead_sentences([text.partition("\n")[2] or text for text in group], config.summary_tokens)
            if text is None
            else text
            for group, text in zip(groups, written, strict=True)
        ]

    def _nearest(self, nodes: Sequence[int], middle: np.ndarray) -> list[int]:
        scores = dict(zip(nodes, np.round(self.vectors[nodes] @ middle, 6).tolist(), strict=True))
        return sorted(nodes, key=lambda node: (-scores[node], node))

    def _title(self, leaves: Sequence[int]) -> str:
        titles = list(dict.fromkeys(self.documents[leaf].title for leaf in leaves if self.documents[leaf].title))
        return "; ".join(titles[:_TITLES_SHOWN]) + (" …" if len(titles) > _TITLES_SHOWN else "")


async def _build(documents: Sequence[Document], config: RaptorConfig, tools: Workbench) -> RaptorIndex:
    texts = [embedded_text(document) for document in documents]
    vectors = await embed("passages", texts, tools)
    build = _TreeBuild(documents, config, tools, texts, vectors.matrix, [[row] for row in range(len(documents))])
    tree = await build.grow()
    nodes = await index_above(config.compared_up_to, tree.vectors, documents, tools)
    return RaptorIndex(documents, replace(tree, vectors=nodes), config, tools.vectors)


class RaptorIndex:
    """An `Index` of the collapsed tree: passages and summaries side by side."""

    def __init__(
        self, documents: Sequence[Document], tree: SummaryTree, config: RaptorConfig, encoder: Encoder
    ) -> None:
        self.tree = tree
        self._documents, self._config, self._encoder = documents, config, encoder

    @property
    def stats(self) -> dict[str, Any]:
        """Return how many summaries there are, how many are first sentences because a model's reply could not be used,
        and how nodes are searched unless all are compared."""
        tree = self.tree
        sizes = {"summaries": tree.summaries.num_rows, "lost_summaries": tree.lost_summaries}
        return sizes | tree.vectors.stats("node")

    @classmethod
    def open(cls, folder: Path, documents: Sequence[Document], config: RaptorConfig, tools: Workbench) -> RaptorIndex:
        """Open the files that `save` wrote, memory-mapped. Raises `RetrievalError` for other files."""
        vectors = Vectors.open(folder / _VECTORS)
        try:
            summaries = pa.ipc.open_file(pa.memory_map(str(folder / _SUMMARIES))).read_all()
        except (OSError, pa.ArrowInvalid) as error:
            raise RetrievalError(f"{folder} holds no tree ({error}): build the index again") from error
        if len(vectors) != len(documents) + len(summaries) or summaries.schema != _COLUMNS:
            raise RetrievalError(f"the tree in {folder} is not of these documents: build the index again")
        return cls(documents, SummaryTree(vectors, summaries), config, tools.vectors)

    def save(self, folder: Path) -> None:
        """Write the index into a folder; see `Index.save`."""
        self.tree.vectors.save(folder / _VECTORS)
        with pa.ipc.new_file(str(folder / _SUMMARIES), _COLUMNS) as writer:
            writer.write_table(self.tree.summaries)

    @property
    def documents(self) -> Sequence[Document]:
        """Return the passages of the index; see `LinkedIndex.documents`."""
        return self._documents

    def places_of(self, name: str) -> list[Place]:
        """Return the summaries that a name stands for, by their ids; see `LinkedIndex.places_of`."""
        number = name.removeprefix("raptor-")
        is_one = name.startswith("raptor-") and number.isdecimal() and int(number) < len(self.tree.summaries)
        return [("summary", int(number))] if is_one else []

    def text_of(self, place: Place) -> str:
        """Return the text of a summary node; see `LinkedIndex.text_of`."""
        return self.tree.summaries["text"][place[1]].as_py()

    def links_of(self, place: Place) -> Iterator[Link]:
        """Return the neighbours of a node: summaries and the nodes that they were made of."""
        passages = len(self._documents)
        node = place[1] + passages * (place[0] == "summary")
        yield from ((("summary", row), {}) for row, children in enumerate(self._children) if node in children)
        for child in self._children[node - passages] if node >= passages else ():
            yield ("passage", child) if child < passages else ("summary", child - passages), {}

    @functools.cached_property
    def _children(self) -> list[list[int]]:
        return self.tree.summaries["children"].to_pylist()

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """Return the nearest nodes, as many as fit into the token budget; see `Index.find`."""
        vector = await self._encoder.query(query)
        return await asyncio.to_thread(self._nearest, vector, k)

    def _nearest(self, vector: np.ndarray, k: int) -> list[FoundPassage]:
        found = [self._found(node, score) for score, node in self.tree.vectors.search(vector, k)]
        return found[: within([each.passage.text for each in found], self._config.query_tokens)]

    def _found(self, node: int, score: float) -> FoundPassage:
        if node < len(self._documents):
            return FoundPassage.of(self._documents[node], score, f"cosine {score:.3f}")
        number = node - len(self._documents)
        row = {name: self.tree.summaries[name][number].as_py() for name in _COLUMNS.names}
        passage = Passage(id=f"raptor-{number}", title=row["title"], text=row["text"], score=score)
        why = f"cosine {score:.3f} of a summary, layer {row['layer']}, of {len(row['leaves'])} passages"
        return FoundPassage(passage=passage, why=why, sources=tuple(self._documents[leaf].id for leaf in row["leaves"]))


def _estimate(documents: Sequence[Document], config: RaptorConfig) -> Sequence[PlannedCalls]:
    """See `Backend.estimate`. Clusters depend on vectors, which are not there: as many per passage as were measured,
    and at least so many that none is too long."""
    if config.summaries != "model":
        return ()
    if len(documents) <= config.dimensions + 1:
        return (plan_calls("summary", ()),)
    read = _READ_PER_TOKEN * passage_tokens(documents)
    calls = max(_SUMMARIES_PER_PASSAGE * len(documents), read / config.longest_cluster)
    prompt = fill(PROMPTS.text("raptor_summary"), words=str(3 * config.summary_tokens // 4), texts="")
    replies = _REPLY_PER_TOKEN * config.summary_tokens
    return (plan_calls("summary", [prompt], filled=read / calls, replies=replies, times=calls),)


BACKEND = Backend(
    name="raptor",
    plain="raptor_plain",
    build_packages=lambda config: ("sklearn", "threadpoolctl", *(() if config.reduction == "pca" else ("umap",))),
    config=RaptorConfig,
    build=_build,
    open=RaptorIndex.open,
    keeps_words=False,
    asks_model=lambda config: ("build",) if config.summaries == "model" else (),
    estimate=_estimate,
)
PLAIN = replace(BACKEND, name=BACKEND.plain, plain="", config=RaptorPlainConfig)
