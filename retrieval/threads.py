"""Run numeric libraries on a single thread, since sums over several threads differ in their last bits from run to run;
and import UMAP without waiting for what numba compiles.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_turn = threading.Lock()


@contextmanager
def one_thread(*modules: str) -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread within a `with` block.

    Workers that are threads of one process take turns: BLAS has one setting for the whole process, and the first worker
    to leave would lift the limit for all others. `modules` are those with libraries of their own; they are imported
    first, since what is loaded later has no limit.
    """
    for module in modules:
        importlib.import_module(module)
    with _turn, _libraries(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(1)
def _libraries(modules: int) -> ThreadpoolController:
    """Those that are loaded: looked for again, in some ten milliseconds, where more `modules` have been imported."""
    del modules
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def load_umap() -> Any:
    """Import and return UMAP's class. Raises `ModuleNotFoundError` where it is not installed.

    It lets numba store for later processes also those compiled functions that UMAP does not store itself, which take
    twelve of the fifteen seconds that a process would wait for its first vector.
    """
    from umap import UMAP, umap_

    for name in ("fast_knn_indices", "smooth_knn_dist", "compute_membership_strengths"):
        function: Any = getattr(umap_, name, None)
        if hasattr(function, "enable_caching"):
            function.enable_caching()
    return UMAP
