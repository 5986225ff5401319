"""One thread within, however many workers; as before when they have left."""

from __future__ import annotations

import threading
import time

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from trailforge.retrieval.threads import one_thread


def counts() -> set[int]:
    """Threads of the libraries that are loaded, as this thread sees them."""
    return {library["num_threads"] for library in threadpool_info()}


def test_one_thread_and_then_as_before() -> None:
    """Also of libraries that are loaded only now, and after an error."""
    with one_thread("faiss", "sklearn.cluster"):
        assert counts() == {1}
    with threadpool_limits(2):
        with pytest.raises(KeyError), one_thread():
            raise KeyError
        assert counts() == {2}


def test_workers_that_overlap() -> None:
    """One that leaves does not lift the limit for another."""
    seen: list[set[int]] = []

    def work() -> None:
        for _ in range(5):
            with one_thread("faiss", "sklearn.cluster"):
                time.sleep(0.002)
                seen.append(counts())

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert seen == [{1}] * 15
