"""Stop when told to: Beam, interrupted, would first wait for what its workers have under way."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from rich.console import Console

from trailforge.flows import stop_server

STOPPED = "stopped; the same command goes on from here"


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """In the block, Ctrl-C and SIGTERM end the process with exit code 130 or 143. Ledger and shards survive that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = {number: signal.signal(number, _leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _leave(number: int, _: FrameType | None) -> None:
    Console(stderr=True).show_cursor(True)  # which a progress bar had hidden
    print(STOPPED, file=sys.stderr, flush=True)
    stop_server()
    os._exit(128 + number)
