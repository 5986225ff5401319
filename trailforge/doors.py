"""Load a package's public names lazily: its `__init__` lists them, and a file is imported when a name of it is first
used.

    if TYPE_CHECKING:
        from trailforge.rewards.matching import mentions as mentions
    else:
        __getattr__, __dir__ = lazy_names(__name__)

So each name stands once, where editors and type checkers look for it, and importing a door costs next to nothing.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

_GIVEN = re.compile(r"^    from ([\w.]+) import \(?\s*(\w+) as \2\b", re.MULTILINE)
"""Matches a name in the form in which ruff writes it. Python's own parser would take ten times as long at each
start."""


def lazy_names(door: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package whose public names are imported under `if TYPE_CHECKING:`. A
    name is looked up in its file each time, so that a test which replaces it there also replaces it in the package.
    """

    def load(name: str) -> Any:
        home = None if name.startswith("__") else names_given(door).get(name)
        if home is None:
            raise AttributeError(f"module {door!r} has no attribute {name!r}")
        return importlib.import_module(f"{door}.{name}") if home == door else getattr(importlib.import_module(home), name)

    return load, lambda: sorted({*vars(sys.modules[door]), *names_given(door)})


@cache
def names_given(door: str) -> dict[str, str]:
    """Return the public names of a package, each with the module that defines it; submodules belong to the package
    itself. Raises `ImportError` where the package is installed without its source.
    """
    read = getattr(sys.modules[door].__loader__, "get_source", None)
    source = read(door) if read is not None else None
    if source is None:
        raise ImportError(f"{door} is installed without its source, in which its names stand")
    return {name: home for home, name in _GIVEN.findall(source)}
