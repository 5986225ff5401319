"""Numeric libraries on one thread: sums of several threads differ in their last bits from run to run."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_turn = threading.Lock()


@contextmanager
def one_thread(*modules: str) -> Iterator[None]:
    """Within, BLAS and OpenMP use one thread. Workers that are threads of one process take turns.

    BLAS has one setting for the whole process: the first worker to leave would lift the limit for all others.
    `modules`: those with libraries of their own. They are imported first: what is loaded later goes without a limit.
    """
    from threadpoolctl import threadpool_limits

    for module in modules:
        importlib.import_module(module)
    with _turn, threadpool_limits(1):
        yield
