"""What a server counts: requests and queries, how long they took, and what was refused."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_RECENT = 4096


class Times:
    """How long the last few thousand of something took."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_RECENT)

    @contextmanager
    def around(self) -> Iterator[None]:
        """One of them, whatever it waits for and however it ends."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._seconds.append(time.monotonic() - began)

    @property
    def usual_s(self) -> float:
        """The median; 0 before the first."""
        return self._at(0.5)

    def report(self) -> dict[str, float]:
        """Median and 99th percentile in milliseconds."""
        return {f"p{share}": round(1000 * self._at(share / 100), 3) for share in (50, 99)}

    def _at(self, share: float) -> float:
        ordered = sorted(self._seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


class ServerFigures:
    """Counts since the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._counts: Counter[str] = Counter()
        self._requests = Times()
        self.in_flight = 0
        """Requests that are being answered."""
        self.waiting = 0
        """Their queries that are not answered yet."""
        self.last_error = ""

    def count(self, what: str) -> None:
        """One more of what is counted under a name."""
        self._counts[what] += 1

    @contextmanager
    def request(self) -> Iterator[None]:
        """Around the answering of a request."""
        self.in_flight += 1
        try:
            with self._requests.around():
                yield
        finally:
            self.in_flight -= 1
            self.count("requests")

    def report(self) -> dict[str, Any]:
        """All figures, for JSON; times in milliseconds."""
        names = ("requests", "refused", "timed_out", "failed", "abandoned")
        return {
            "up_s": round(time.monotonic() - self._began, 1),
            **{name: self._counts[name] for name in names},
            "in_flight": self.in_flight,
            "waiting": self.waiting,
            "request_ms": self._requests.report(),
            "last_error": self.last_error,
        }
