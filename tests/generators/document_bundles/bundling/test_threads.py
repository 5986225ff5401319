"""One thread within, however many workers; as before when they have left."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tests.support import warm
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


def test_a_library_that_is_loaded_after_a_first_use_is_limited_too(tmp_path: Path) -> None:
    """What is loaded is not looked for each time, but after every import. In a process that it may stay in."""
    process = warm.processes.Process(target=load_after_use, args=(tmp_path,))
    process.start()
    process.join(120)
    assert process.exitcode == 0


def load_after_use(folder: Path) -> None:
    """A copy of a library of OpenMP, which a module brings."""
    with one_thread("sklearn.cluster"):
        openmp = Path(next(each["filepath"] for each in threadpool_info() if each["prefix"] == "libgomp"))
    copy = shutil.copy(openmp, folder / f"libgomp-copy-{openmp.name}")
    (folder / "brings_openmp.py").write_text(f"import ctypes\nopenmp = ctypes.CDLL({str(copy)!r})\n")
    sys.path.insert(0, str(folder))
    for threads in (1, 2):
        with one_thread("brings_openmp"):
            library = sys.modules["brings_openmp"].openmp
            assert library.omp_get_max_threads() == 1, threads
        library.omp_set_num_threads(2)
