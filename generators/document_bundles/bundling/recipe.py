"""Group documents as the paper does: reduce their vectors, cluster them into themes, and split the themes by
k-means.
"""

from __future__ import annotations

import warnings

import numpy as np

from trailforge.generators.document_bundles.bundling.config import LARGEST, BundleConfig, Group
from trailforge.retrieval.threads import load_umap

_UMAP_NEIGHBOURS = 15
"""UMAP's own default; the paper names none."""


def recipe_groups(vectors: np.ndarray, config: BundleConfig, seed: int) -> list[Group]:
    """Group documents as R-Search does: vectors reduced to 50 dimensions, Ward's agglomerative clustering into themes,
    k-means within them.

    Groups of one to four rows. The paper gives neither linkage nor number of themes: Ward, and n / `theme_size`.
    """
    from sklearn.cluster import AgglomerativeClustering

    reduced = reduce(vectors, config, seed)
    themes = -(-len(vectors) // config.theme_size)
    labels = np.zeros(len(vectors), int)
    if themes > 1:
        labels = AgglomerativeClustering(n_clusters=themes, linkage="ward").fit_predict(reduced)
    return [group for theme in _rows_by_label(labels) for group in cut(reduced, theme, seed)]


def hdbscan_groups(vectors: np.ndarray, config: BundleConfig, seed: int) -> list[Group]:
    """Group documents as `recipe_groups` does, but with themes by HDBSCAN; each document that it calls noise is a
    group."""
    from sklearn.cluster import HDBSCAN

    if len(vectors) < LARGEST:
        return [[row] for row in range(len(vectors))]
    reduced = reduce(vectors, config, seed)
    labels = HDBSCAN(min_cluster_size=LARGEST, n_jobs=1, copy=True).fit_predict(reduced)  # pyright: ignore[reportArgumentType]
    noise = [[int(row)] for row in np.flatnonzero(labels < 0)]
    themes = _rows_by_label(np.where(labels < 0, labels.max() + 1, labels))[: labels.max() + 1]
    return noise + [group for theme in themes for group in cut(reduced, theme, seed)]


def reduce(vectors: np.ndarray, config: BundleConfig, seed: int) -> np.ndarray:
    """Reduce vectors to `config.dimensions` dimensions by `config.reduction`; return them as they are when there are
    too few of them, or when they have no more dimensions.
    """
    few = len(vectors) <= 2 * config.dimensions
    if config.reduction == "none" or few or config.dimensions >= vectors.shape[1]:
        return vectors
    if config.reduction == "pca":
        from sklearn.decomposition import PCA

        with np.errstate(invalid="ignore"):  # all the same vector: no share of a variance of 0
            return PCA(config.dimensions, svd_solver="randomized", random_state=seed).fit_transform(vectors)
    return umap(vectors, dimensions=config.dimensions, min_dist=0.0, seed=seed)  # for clustering, not for looking at


def umap(vectors: np.ndarray, *, dimensions: int, min_dist: float, seed: int) -> np.ndarray:
    """Reduce vectors to `dimensions` dimensions by UMAP with cosine, in one thread. `min_dist`: how near it may put two
    documents.
    """
    with warnings.catch_warnings():
        # That a seed means one thread, which is wanted; and of numba and the solver behind the initial layout.
        warnings.simplefilter("ignore")
        model = load_umap()(
            n_components=dimensions,
            n_neighbors=_UMAP_NEIGHBOURS,
            min_dist=min_dist,
            metric="cosine",
            random_state=seed,
            n_jobs=1,
        )
        return np.asarray(model.fit_transform(vectors), np.float32)


def cut(vectors: np.ndarray, rows: Group, seed: int) -> list[Group]:
    """Split the documents with these row numbers into groups of at most four by k-means with a fourth as many centres,
    and split again what is too large.
    """
    if len(rows) <= LARGEST:
        return [rows]
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different vectors than centres
        means = KMeans(-(-len(rows) // LARGEST), n_init=1, random_state=seed)  # pyright: ignore[reportArgumentType]
        labels = means.fit_predict(vectors[rows])
    parts = [[rows[place] for place in part] for part in _rows_by_label(labels)]
    if len(parts) == 1:  # all the same vector
        return [rows[start : start + LARGEST] for start in range(0, len(rows), LARGEST)]
    return [group for part in parts for group in cut(vectors, part, seed)]


def _rows_by_label(labels: np.ndarray) -> list[Group]:
    """For each label, in ascending order, the rows that have it; labels without rows are left out."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order])) + 1
    return [part.tolist() for part in np.split(order, starts)] if len(labels) else []
