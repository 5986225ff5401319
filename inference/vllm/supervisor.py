"""Run a server's command for as long as standard input is open: `python supervisor.py COMMAND …`.

The pipe closes when the process that holds its other end stops or dies, however it died, so the command never outlives
it. What the command starts itself ends with it: all of it is one process group. Imports nothing of ours: it is run by
its path, in whatever environment.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

_POLL_S = 0.1
_GENTLY_S = 15.0
"""For a server that frees its accelerators; after that it is killed."""


def main(command: list[str]) -> int:
    """Run the command. Returns its exit status, or 127 when it cannot be started."""
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: _end(process))
    while process.poll() is None and not _input_ended():
        pass
    _end(process)
    return process.returncode & 0xFF


def _input_ended() -> bool:
    """Looks for up to `_POLL_S`. What is written to it is read and dropped."""
    readable, _, _ = select.select([sys.stdin.fileno()], [], [], _POLL_S)
    return bool(readable) and not os.read(sys.stdin.fileno(), 4096)


def _end(process: subprocess.Popen[bytes]) -> None:
    """The whole group, gently and then not; also what the command left behind when it ended by itself."""
    _signal(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + _GENTLY_S
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(_POLL_S / 2)
    _signal(process.pid, signal.SIGKILL)
    process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
