"""Ways to find passages, one file each behind one declaration (`declaration.Backend`), loaded by name.

A method that a model builds, as it was published, has its paper's name. Built without a model it is called so with
`_plain` behind: another index, with figures of its own.
"""

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

WRITTEN = ("hippo_rag", "raptor", "hyper_graph_rag", "graph_rag")
"""Those that a model builds. Each has a second name, for what is built without one."""
_PLAIN = "_plain"
PLAIN = {name: f"{name}{_PLAIN}" for name in WRITTEN}
BACKENDS = ("dense", "bm25", "hybrid", "linear_rag", *PLAIN.values(), *WRITTEN)
"""Their names: each is a module of this package whose `BACKEND` declares it; a plain one is its `PLAIN`."""


def load_backend(name: str) -> Backend:
    """The declaration of a back end. Raises `InvalidInput` that lists those there are."""
    check_known(name, BACKENDS)
    module = import_module(f"{__name__}.{name.removesuffix(_PLAIN)}")
    return module.PLAIN if name.endswith(_PLAIN) else module.BACKEND


def backend_packages(name: str, config: Any) -> tuple[str, ...]:
    """Modules of extras that a back end imports to build an index and search it. Raises as `load_backend`."""
    declared = load_backend(name)
    return (*declared.packages, *declared.build_packages(config))


__all__ = [
    "BACKENDS",
    "PLAIN",
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
