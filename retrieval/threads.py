"""Numeric libraries on one thread: sums of several threads differ in their last bits from run to run."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_turn = threading.Lock()


@contextmanager
def one_thread(*modules: str) -> Iterator[None]:
    """Within, BLAS and OpenMP use one thread. Workers that are threads of one process take turns.

    BLAS has one setting for the whole process: the first worker to leave would lift the limit for all others.
    `modules`: those with libraries of their own. They are imported first: what is loaded later goes without a limit.
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
