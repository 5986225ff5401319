"""Run a model server as a child process: start it, wait for it, watch it and end it."""

from __future__ import annotations

import http.client
import subprocess
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import IO, Self

from trailforge.schemas import ServerUnavailable

_POLL_S = 0.1
_TAIL_BYTES = 16_384


class LocalServer(ABC):
    """A model server on this machine, as a context manager that is ready when entered.

    The server ends when its standard input closes, so it never outlives the process that started it.
    """

    def __init__(self, what: str, *, tail_lines: int = 3, stop_within_s: float = 5.0) -> None:
        """`what`: how messages call it. `tail_lines`: of its log in errors."""
        self._what, self._tail_lines, self._stop_within_s = what, tail_lines, stop_within_s
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """Return the server's address on this machine, without a path."""

    @property
    def base_url(self) -> str:
        """Return the base URL for an OpenAI client."""
        return f"{self.url}/v1"

    @property
    def pid(self) -> int | None:
        """Return the id of the process; None when it is not running."""
        return self._process.pid if self._process else None

    @abstractmethod
    def start(self) -> None:
        """Start the server and wait until it answers. Raises `ServerUnavailable`, with the end of its log, when it does
        not.
        """

    def launch(
        self, command: Sequence[str], environment: Mapping[str, str], log: IO[bytes], ready_within_s: float
    ) -> None:
        """Run the command and wait until the server answers. Raises what `start` raises; `log` is closed with the
        server.

        The server gets its own session, so that Ctrl-C in the terminal does not reach it directly. It imports nothing
        from the current folder, where a user's module may have any name.
        """
        self._log = log
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**environment, "PYTHONSAFEPATH": "1"},
                start_new_session=True,
            )
            self._wait_until_healthy(ready_within_s)
        except BaseException:
            self.stop()
            raise

    def raise_if_ended(self) -> None:
        """Raise `ServerUnavailable` with the end of the log when the server has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise ServerUnavailable(f"{self._what} ended: {self._log_tail()}")

    def stop(self) -> None:
        """End the server and all that it started, first gently, then by force."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(self._stop_within_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait_until_healthy(self, within_s: float) -> None:
        assert self._process is not None
        deadline = time.monotonic() + within_s
        while not self.is_healthy():
            ended = self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                late = "" if ended else f" within {within_s:g} s"
                raise ServerUnavailable(f"{self._what} did not come up{late}: {self._log_tail()}")
            time.sleep(_POLL_S)

    def is_healthy(self, *, within_s: float = 2.0) -> bool:
        """Tell whether the server runs, and answers at /health within this time."""
        if self._process is None or self._process.poll() is not None:
            return False
        try:
            fetch(f"{self.url}/health", timeout_s=within_s)
            return True
        except OSError:
            return False

    def _log_tail(self) -> str:
        assert self._log is not None
        size = self._log.seek(0, 2)
        self._log.seek(max(0, size - _TAIL_BYTES))
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return " | ".join(lines[-self._tail_lines :]) or "it printed nothing"


def fetch(url: str, *, timeout_s: float) -> bytes:
    """Return the response of a server on this machine, without any proxy. Raises `OSError` for a status of failure."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=timeout_s) as response:
            return response.read()
    except http.client.HTTPException as error:
        raise OSError(f"no HTTP reply ({error!r})") from error
