"""UMAP, with what numba compiles for it kept on disk."""

from __future__ import annotations

from typing import Any


def load_umap() -> Any:
    """Its class. Raises `ModuleNotFoundError` where it is not installed.

    Numba stores what it compiles for later processes where it is told to; UMAP tells it so of some functions, and of
    these not, which take twelve of the fifteen seconds that a process would wait for its first vector.
    """
    from umap import UMAP, umap_

    for name in ("fast_knn_indices", "smooth_knn_dist", "compute_membership_strengths"):
        function: Any = getattr(umap_, name, None)
        if hasattr(function, "enable_caching"):
            function.enable_caching()
    return UMAP
