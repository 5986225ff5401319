"""How the processor's time grows with the input: a ratio of one process, which no machine and no load decide."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
FACTOR = 8
"""Between the small input and the large one. A linear function takes about 8 times as long, a quadratic one 64."""
MOST = 24.0
_TRIES = 5
_LEAST_S = 0.01
"""That is measured: shorter calls are repeated for so long."""


def growth(make: Callable[[int], T], run: Callable[[T], object], size: int, most: float = MOST) -> float:
    """How many times as long as an input of an eighth of the size the processor takes for one of that size.

    The first of five measurements that is below `most`, for other programs disturb each now and then; else the last.
    """
    small, large = make(size // FACTOR), make(size)
    run(small)  # what is imported or compiled at the first call is no input's cost
    ratio = 0.0
    for _ in range(_TRIES):
        ratio = _seconds(run, large) / _seconds(run, small)
        if ratio < most:
            break
    return ratio


def is_linear(make: Callable[[int], T], run: Callable[[T], object], size: int) -> bool:
    """Whether what takes an input of that size took about eight times as long as one of an eighth of it, or less."""
    return growth(make, run, size) < MOST


def _seconds(run: Callable[[T], object], given: T) -> float:
    """Of one call."""
    calls, began = 0, time.process_time()
    while (passed := time.process_time() - began) < _LEAST_S:
        run(given)
        calls += 1
    return passed / max(calls, 1)
