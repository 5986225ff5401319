"""A model server as a child process: started, waited for, watched and ended. It ends when its standard input does."""

from __future__ import annotations

import http.client
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from typing import IO

from trailforge.schemas import ServerUnavailable

_POLL_S = 0.1
_TAIL_BYTES = 16_384


class ServerProcess:
    """One start of one server. Its log is a file of whoever starts it."""

    def __init__(self, *, what: str, url: str, log: IO[bytes], tail_lines: int = 3, stop_within_s: float = 5.0) -> None:
        """`what`: how messages call it. `url`: where it answers, without a path. `tail_lines`: of its log in errors."""
        self._what, self._url, self._log, self._tail_lines = what, url, log, tail_lines
        self._stop_within_s = stop_within_s
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Of the process; None when it is not running."""
        return self._process.pid if self._process else None

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it, in a session of its own: Ctrl-C at our terminal is ours to pass on.

        It imports nothing from the folder that it is started in, where a module of a user's may have any name.
        """
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**environment, "PYTHONSAFEPATH": "1"},
            start_new_session=True,
        )

    def wait_until_healthy(self, within_s: float) -> None:
        """Return once it answers. Otherwise end it and raise `ServerUnavailable` with the end of its log."""
        assert self._process is not None
        deadline = time.monotonic() + within_s
        while not self._answers():
            ended = self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                tail = self.log_tail()
                self.stop()
                late = "" if ended else f" within {within_s:g} s"
                raise ServerUnavailable(f"{self._what} did not come up{late}: {tail}")
            time.sleep(_POLL_S)

    def raise_if_ended(self) -> None:
        """Raises `ServerUnavailable` with the end of the log when it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise ServerUnavailable(f"{self._what} ended: {self.log_tail()}")

    def stop(self) -> None:
        """End it, gently and then not."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(self._stop_within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def log_tail(self) -> str:
        """The last lines of the log, as one."""
        size = self._log.seek(0, 2)
        self._log.seek(max(0, size - _TAIL_BYTES))
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return " | ".join(lines[-self._tail_lines :]) or "it printed nothing"

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            return False
        try:
            fetch(f"{self._url}/health", timeout_s=2)
            return True
        except OSError:
            return False


def fetch(url: str, *, timeout_s: float) -> bytes:
    """What a server on this machine sends, past any proxy. Raises `OSError` when that is no success."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=timeout_s) as response:
            return response.read()
    except http.client.HTTPException as error:
        raise OSError(f"no HTTP reply ({error!r})") from error
