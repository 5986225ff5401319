"""Ways to find passages, one file each behind one declaration (`declaration.Backend`), loaded by name."""

from importlib import import_module
from typing import Any

from trailforge.retrieval.backends.declaration import (
    Backend,
    BackendRetriever,
    FoundPassage,
    Index,
    PlannedCalls,
    ShardMap,
    Workbench,
    check_known,
    map_here,
)

BACKENDS = ("dense", "bm25", "hybrid", "linear_rag", "hippo_rag", "raptor", "hyper_graph_rag", "graph_rag")
"""Their names: each is a module of this package whose `BACKEND` declares it."""


def load_backend(name: str) -> Backend:
    """The declaration of a back end. Raises `InvalidInput` that lists those there are."""
    check_known(name, BACKENDS)
    return import_module(f"{__name__}.{name}").BACKEND


def backend_packages(name: str, config: Any) -> tuple[str, ...]:
    """Modules of extras that a back end imports to build an index and search it. Raises as `load_backend`."""
    declared = load_backend(name)
    return (*declared.packages, *declared.build_packages(config))


__all__ = [
    "BACKENDS",
    "Backend",
    "BackendRetriever",
    "FoundPassage",
    "Index",
    "PlannedCalls",
    "ShardMap",
    "Workbench",
    "backend_packages",
    "load_backend",
    "map_here",
]
