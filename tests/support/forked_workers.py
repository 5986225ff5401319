"""Processes of pytest-xdist that begin with all test modules imported: forks of the server of `tests.support.warm`.

To import them takes most of what collecting does, and each process would do it for itself.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import cast
from unittest import mock

ROOT = Path(__file__).parents[2]


def spec() -> str:
    """Of such a process, for pytest-xdist."""
    return f"popen//python={shlex.join([sys.executable, __file__])}"


def load(arguments: Sequence[str]) -> None:
    """Import the test modules in this process, as pytest with these arguments does. What fails here, the forks tell.

    Prefect reads the environment when it is imported, and pytest's first `conftest` sets it: each fork has its own.
    """
    import pytest

    class Imports:
        @pytest.hookimpl(tryfirst=True)
        def pytest_collection(self, session: pytest.Session) -> bool:
            folders = [session.config.rootpath / name for name in session.config.args]
            for file in sorted(file for folder in folders for file in folder.rglob("test_*.py")):
                with suppress(Exception, pytest.skip.Exception):
                    import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
            return True  # nothing is left to collect

    with mock.patch.dict(os.environ), open(os.devnull, "w") as nothing, redirect_stdout(nothing):
        sys.modules["prefect"] = cast(ModuleType, None)
        pytest.main([*arguments, "-n0", "--collect-only"], plugins=[Imports()])
    for name in ("prefect", "tests.conftest"):
        sys.modules.pop(name, None)


def _work(environment: dict[str, str], streams: Sequence[Connection], code: str) -> None:
    """Be `python -c CODE`, in the fork."""
    os.environ.clear()
    os.environ.update(environment)
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.modules["__main__"] = main = ModuleType("__main__")
    if (page := sys.modules.get("streamlit.testing.v1.app_test")) is not None:
        vars(page)["TMP_DIR"] = TemporaryDirectory()  # else all forks have one, which goes when the first of them ends
    exec(code, vars(main))


def _launch(code: str) -> int:
    """Begin a process with the streams of this one, and wait for its end; its exit code."""
    from tests.support.forked_workers import _work
    from tests.support.warm import processes

    streams = [Connection(os.dup(number)) for number in range(3)]
    process = processes.Process(target=_work, args=(dict(os.environ), streams, code))
    with mock.patch.dict(sys.modules, {"__main__": ModuleType("__main__")}):  # the fork would run it
        process.start()
    for stream in streams:
        stream.close()
    process.join()
    return process.exitcode or 0


if __name__ == "__main__":  # pytest-xdist begins it like an interpreter: `-u -c CODE`
    sys.path[0] = str(ROOT)
    sys.exit(_launch(sys.argv[-1]))
