"""Processes of `trailforge` that begin with the libraries loaded, which takes longer than most of what tests run.

Each is a fork of one server that has imported `tests.support.libraries`; the processes of pytest-xdist share it. What
a start costs a person, and what it imports, are held by tests that start the command cold:
`tests/commands/test_front_door.py`.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[2]
_LOADED = ["tests.support.libraries"]
_SHARED = "TRAILFORGE_TESTS_SERVER"
"""Address of the server that other processes share; they take it out of their environment."""
processes = multiprocessing.get_context("forkserver")
"""Begins processes of any function."""
processes.set_forkserver_preload(_LOADED)
# All forks share its tracker of semaphores, which else complains at the end of those of commands that were killed.
with mock.patch.dict(os.environ, {"PYTHONWARNINGS": "ignore::UserWarning"}):
    resource_tracker.ensure_running()
_known: Any = forkserver._forkserver  # pyright: ignore[reportAttributeAccessIssue]
if (_address := os.environ.pop(_SHARED, None)) is not None:
    _known._forkserver_address, _known._forkserver_alive_fd = _address, os.open(os.devnull, os.O_WRONLY)
if _known._forkserver_address is not None:  # shared, or this is a fork of it
    _known.ensure_running = lambda: None  # by who has begun it


def share(folder: Path, first: str = "") -> None:
    """One server for all processes that this one starts from now on: once one of them asks, and until this one ends.

    `folder`: of its socket. `first`: what it executes before it serves.
    """
    address = str(folder / "warm")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    os.environ[_SHARED] = address
    threading.Thread(target=_serve_when_asked, args=(listener, first), daemon=True).start()


def _serve_when_asked(listener: socket.socket, first: str) -> None:
    """Those who ask wait while it loads. It ends with the last writer to a pipe: with this process."""
    select.select([listener], [], [])
    ends_with, _alive = os.pipe()
    code = f"{first}\nimport {', '.join(_LOADED)}\n"
    code += f"from multiprocessing.forkserver import main; main({listener.fileno()}, {ends_with}, [])"
    subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, pass_fds=(listener.fileno(), ends_with))
    listener.close()  # should the server fail, nobody waits for it


class Running:
    """A command in a session of its own, with the part of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        out: Path,
        err: Path,
        module: str = "trailforge",
        folder: Path = ROOT,
    ) -> None:
        """Standard output and standard error are appended to `out` and `err`. `module`: what is run in its place, by
        its name or as a file. `folder`: in which it runs.
        """
        given = (module, list(arguments), dict(environment), str(out), str(err), str(folder))
        self._process = processes.Process(target=_run, args=given)
        # A page under test leaves its script as the main module, which the fork would run.
        with mock.patch.dict(sys.modules, {"__main__": ModuleType("__main__")}):
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid
        with suppress(ProcessLookupError):
            while os.getpgid(self.pid) != self.pid:
                time.sleep(0.002)

    @property
    def returncode(self) -> int | None:
        """Minus the signal, if one ended it; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """As `returncode`."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; `subprocess.TimeoutExpired` after so many seconds."""
        self._process.join(timeout)
        if (code := self._process.exitcode) is None:
            raise subprocess.TimeoutExpired("trailforge", timeout or 0.0)
        return code

    def end_group(self) -> None:
        """`kill -9` of it and of all that it has started. Where it ended long ago its number may be a stranger's."""
        if self.poll() is None or not Path(f"/proc/{self.pid}").exists():
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self.wait()

    def send_signal(self, sent: int) -> None:
        """To the process itself."""
        os.kill(self.pid, sent)


def _run(module: str, arguments: list[str], environment: dict[str, str], out: str, err: str, folder: str) -> None:
    """Be `python -m MODULE ARGUMENTS`, in the fork."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, path in ((0, os.devnull), (1, out), (2, err)):
        opened = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [module, *arguments]
    try:
        if module.endswith(".py"):
            sys.path.insert(0, str(Path(module).parent))
            runpy.run_path(module, run_name="__main__")
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:  # as at the end of any other process, which a fork leaves out
        threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]
        atexit._run_exitfuncs()
