"""The retrieval methods (back ends), one file each behind one declaration (`declaration.Backend`), loaded by name.

A method that a model builds, as it was published, has its paper's name. Built without a model it has the same name with
`_plain` behind: it is another index, with figures of its own.
"""

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from trailforge.doors import lazy_names
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
from trailforge.schemas import from_dict

if TYPE_CHECKING:
    from trailforge.retrieval.backends.bm25 import Bm25Retriever as Bm25Retriever
    from trailforge.retrieval.backends.declaration import MadePassage as MadePassage
    from trailforge.retrieval.backends.dense import DenseRetriever as DenseRetriever
    from trailforge.retrieval.backends.graph import neighbourhood as neighbourhood
    from trailforge.retrieval.backends.vectors import embedded_text as embedded_text
else:
    __getattr__, __dir__ = lazy_names(__name__)


WRITTEN = ("hippo_rag", "raptor", "hyper_graph_rag", "graph_rag")
"""Back ends that a model builds. Each has a second name, for the one that is built without a model."""
_PLAIN = "_plain"
PLAIN = {name: f"{name}{_PLAIN}" for name in WRITTEN}
BACKENDS = ("dense", "bm25", "hybrid", "linear_rag", *PLAIN.values(), *WRITTEN)
"""Names of the back ends: each is a module of this package whose `BACKEND` declares it; a plain one is its `PLAIN`."""


def load_backend(name: str) -> Backend:
    """Return the declaration of a back end. Raises `InvalidInput` that lists the known ones."""
    check_known(name, BACKENDS)
    module = import_module(f"{__name__}.{name.removesuffix(_PLAIN)}")
    return module.PLAIN if name.endswith(_PLAIN) else module.BACKEND


def name_of_earlier(name: str, numbers: Mapping[str, Any]) -> str:
    """Return the present name of the back end of an index that an earlier version built, when a paper's name did not
    say whether a model built it: the `_plain` name where the settings `numbers` call no model, neither to build nor to
    search. Raises `InvalidInput` for settings that no longer exist.
    """
    if name not in PLAIN:
        return name
    declared = load_backend(name)
    known = {each.name for each in fields(declared.config)}
    config = from_dict(declared.config, {key: value for key, value in numbers.items() if key in known})
    return name if declared.asks_model(config) else PLAIN[name]


def backend_packages(name: str, config: Any) -> tuple[str, ...]:
    """Return the optional modules that a back end imports to build an index and search it. Raises what `load_backend`
    raises.
    """
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
    "name_of_earlier",
]
