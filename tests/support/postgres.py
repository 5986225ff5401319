"""A PostgreSQL server on loopback for tests: a data folder of its own, a password, an end.

PostgreSQL refuses to run as root; root starts it as `nobody`.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

USER = "forger"
_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
_READY_WITHIN_S = 300.0


class Server:
    """A server that can be stopped, killed and started again on the same data and port."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.folder, self.password = folder, secrets.token_urlsafe(12)
        self._programs, self._process = programs, None
        self.port = _free_port()
        secret = folder / "password"
        secret.write_text(self.password)
        for path in (folder, secret):
            _give_away(path)
        self._run("initdb", "-D", folder / "data", "-U", USER, "-A", "scram-sha-256", "--pwfile", secret, "-E", "UTF8")
        secret.unlink()

    @property
    def url(self) -> str:
        """Without the password."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start, and wait until it answers."""
        command = [self._programs / "postgres", "-D", self.folder / "data", "-h", "127.0.0.1", "-p", str(self.port)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "-k", ""], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.folder, start_new_session=True, **_as_nobody(),
            )  # fmt: skip
        deadline = time.monotonic() + _READY_WITHIN_S
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        """End it in order, if it runs."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """`kill -9` of the whole server."""
        self._end(signal.SIGKILL)

    def ask(self, query: str, *arguments: object) -> Any:
        """The one value of a query."""
        return asyncio.run(self.asked(query, *arguments))

    async def asked(self, query: str, *arguments: object) -> Any:
        """`ask`, on an event loop."""
        import asyncpg

        connection = await asyncpg.connect(self.url, password=self.password)
        try:
            return await connection.fetchval(query, *arguments)
        finally:
            await connection.close()

    def _answers(self) -> bool:
        import asyncpg

        try:
            return self.ask("SELECT 1") == 1
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False

    def _end(self, how: int) -> None:
        if self._process is None:
            return
        if how == signal.SIGKILL:
            os.killpg(self._process.pid, how)
        else:
            self._process.send_signal(how)
        self._process.wait(60)
        self._process = None

    def _run(self, program: str, *arguments: object) -> None:
        done = subprocess.run(
            [self._programs / program, *map(str, arguments)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=self.folder, **_as_nobody(),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@contextmanager
def running() -> Iterator[Server]:
    """A server that runs; skips the test where PostgreSQL is not installed."""
    programs = programs_folder()
    if programs is None:
        pytest.skip("PostgreSQL is not installed here (no initdb)")
    folder = Path(tempfile.mkdtemp(prefix="trailforge-postgres-"))  # not in pytest's folder, which is root's alone
    server = None
    try:
        server = Server(programs, folder)
        server.start()
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def programs_folder() -> Path | None:
    """The folder of `initdb` and `postgres`; Debian does not put it on the path."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    folders = [folder for place in _PLACES for folder in sorted(Path("/").glob(place[1:]))]
    return next((folder for folder in reversed(folders) if (folder / "initdb").exists()), None)


def _as_nobody() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _give_away(path: Path) -> None:
    if owner := _as_nobody():
        os.chown(path, owner["user"], owner["group"])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
