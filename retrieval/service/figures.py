"""What a server counts: requests and queries, how long they took, and what was refused."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_RECENT = 4096


class ServerFigures:
    """Counts since the start, and times of the last few thousand requests."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._counts: Counter[str] = Counter()
        self._requests: deque[float] = deque(maxlen=_RECENT)
        self._searches: deque[float] = deque(maxlen=_RECENT)
        self.in_flight = 0
        """Requests that are being answered."""
        self.waiting = 0
        """Their queries that are not answered yet."""
        self.last_error = ""

    def count(self, what: str, number: int = 1) -> None:
        """Add to what is counted under a name."""
        self._counts[what] += number

    @contextmanager
    def request(self) -> Iterator[None]:
        """Around the answering of a request."""
        began = time.monotonic()
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self.count("requests")
            self._requests.append(time.monotonic() - began)

    @contextmanager
    def query(self) -> Iterator[None]:
        """Around one search, whatever it waits for included."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.count("queries")
            self._searches.append(time.monotonic() - began)

    def seconds_for(self, queries: int, at_once: int) -> float:
        """What so many queries may take, by the recent ones."""
        usual = _at(sorted(self._searches), 0.5) if self._searches else 0.0
        return queries * usual / max(1, at_once)

    def report(self) -> dict[str, Any]:
        """All figures, for JSON; times in milliseconds."""
        names = ("requests", "queries", "refused", "timed_out", "failed", "abandoned")
        return {
            "up_s": round(time.monotonic() - self._began, 1),
            **{name: self._counts[name] for name in names},
            "in_flight": self.in_flight,
            "waiting": self.waiting,
            "request_ms": _spread(self._requests),
            "query_ms": _spread(self._searches),
            "last_error": self.last_error,
        }


def _spread(seconds: deque[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {f"p{share}": round(1000 * _at(ordered, share / 100), 3) for share in (50, 99)} if ordered else {}


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
