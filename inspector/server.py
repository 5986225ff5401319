"""Serve the page with Streamlit, on this machine alone unless asked otherwise, and with a password where one is set."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import hmac
import ipaddress
import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from trailforge.schemas import InvalidInput, OutputError, install_hint

PASSWORD = "TRAILFORGE_INSPECT_PASSWORD"
"""Environment variable that holds the password of the page; people have to enter it."""
_REMEMBERED_S = 600.0
"""How long a wrong password slows down the next ones."""
_LONGEST_WAIT_S = 60.0
_OPTIONS = {
    "browser.gatherUsageStats": False,
    "client.showErrorDetails": "none",
    "client.toolbarMode": "minimal",
    "runner.fastReruns": False,
    "runner.magicEnabled": False,
    "server.fileWatcherType": "none",
    "server.headless": True,
    "server.maxUploadSize": 1,
    "theme.light.primaryColor": "#2e9e5b",
    "theme.dark.primaryColor": "#2e9e5b",
}
"""Nothing reports home, no widget takes files, errors go to the terminal and not to the browser. With fast reruns a
press would be lost where another one follows before it is heard. Light or dark is as the browser prefers: a colour of
both themes at once would make all pages light."""
_UNFRAMED = ((b"x-frame-options", b"DENY"), (b"content-security-policy", b"frame-ancestors 'none'"))
"""On every reply: a page elsewhere that shows this one under its own could have people press what they do not see."""

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names of this machine for itself. On a page that asks for no password a browser must have asked for one of them: the
name of a page elsewhere can be made to lead here, too (DNS rebinding)."""


def is_shared(host: str, *, is_behind_proxy: bool) -> bool:
    """Tell whether people other than this machine's user are meant to reach the page."""
    return is_behind_proxy or not _is_loopback(host)


def check_reach(host: str, *, is_behind_proxy: bool) -> None:
    """Raise `InvalidInput` when others can reach the page and it would ask for no password."""
    if _is_loopback(host) or is_behind_proxy or os.environ.get(PASSWORD):
        return
    raise InvalidInput(
        f"{host} is reached from other machines; set {PASSWORD}, or give --behind-proxy where one asks who people are",
        field="host",
    )


def check_port(host: str, port: int) -> None:
    """Check that the server can listen on a port. Raises `OutputError` when it cannot."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise OutputError(
            f"cannot listen on {host}, port {port} ({error.strerror or error}); give another --port"
        ) from error


def serve(
    script: Path,
    arguments: Sequence[str],
    *,
    host: str,
    port: int,
    is_behind_proxy: bool = False,
    modules: Sequence[str] = (),
    then: Callable[[], object] | None = None,
) -> None:
    """Serve a script of Streamlit until the process is stopped. Raises `InvalidInput` where Streamlit is missing.

    `modules` are the names of those that the script's views need. They are imported while the server starts and the
    browser loads Streamlit's own files, so that the first view comes sooner; `then` is called after that, to read what
    it shows.
    """
    try:
        from streamlit import App, env_util, net_util
    except ModuleNotFoundError as error:
        raise InvalidInput(f"the page needs the package streamlit: {install_hint('page')}") from error
    # Whether a page of another origin may connect, Streamlit decides by the address that this machine has outside,
    # too, and asks a host in the internet for it.
    net_util.get_external_ip = lambda: None
    # It also searches, slowly, for what is not there: a shell that runs this process, and components in all packages.
    env_util.is_repl = lambda: False
    with contextlib.suppress(ImportError):  # of a later version that has it elsewhere
        from streamlit.components.v2 import manifest_scanner

        manifest_scanner.scan_component_manifests = list
    config = {**_OPTIONS, "server.address": host, "server.port": port, "browser.serverAddress": host}
    if not is_shared(host, is_behind_proxy=is_behind_proxy):
        config["server.allowedHosts"] = [*_LOOPBACK, host]
    sys.argv = [str(script), *arguments]  # what the script finds there
    threading.Thread(target=_prepare, args=(modules, then), daemon=True).start()

    class Unframed(App):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await super().__call__(scope, receive, partial(_send_unframed, send))

    Unframed(script).run(config=config)


def _prepare(modules: Sequence[str], then: Callable[[], object] | None) -> None:
    for name in modules:
        import_module(name)
    # Streamlit collects garbage after each run of the script; what was imported need not be looked through each time.
    gc.freeze()
    if then is not None:
        then()


async def _send_unframed(send: Callable[[Any], Awaitable[None]], message: MutableMapping[str, Any]) -> None:
    if message["type"] == "http.response.start":
        message["headers"] = [*message["headers"], *_UNFRAMED]
    await send(message)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(slots=True)
class Guesses:
    """Counts wrong passwords over the whole process, so that opening ten pages does not speed up guessing.

    Each wrong password doubles the time, from a second to a minute, in which every password is refused, even the right
    one.
    """

    clock: Callable[[], float] = time.monotonic
    wrong: deque[float] = field(default_factory=deque)
    """Times of the wrong guesses within the last ten minutes."""
    closed_until: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def problem_of(self, given: str, password: str) -> str | None:
        """Return why this password is refused; None when it is right."""
        with self.lock:
            now = self.clock()
            if now < self.closed_until:
                return f"Too many wrong passwords. Try again in {self.closed_until - now:.0f} s."
            # Of equal length, so that the time that this takes tells nothing.
            if hmac.compare_digest(*(hashlib.sha256(each.encode()).digest() for each in (given, password))):
                return None
            while self.wrong and self.wrong[0] < now - _REMEMBERED_S:
                self.wrong.popleft()
            self.wrong.append(now)
            self.closed_until = now + min(_LONGEST_WAIT_S, 2.0 ** (len(self.wrong) - 1))
            line = f"wrong password for the page: number {len(self.wrong)} in ten minutes"
            print(line, file=sys.stderr, flush=True)
            return "That is not the password."


GUESSES = Guesses()


def is_open() -> bool:
    """Tell whether this person may see the page, asking for the password where one is needed."""
    import streamlit as st

    password = os.environ.get(PASSWORD)
    if not password or st.session_state.get("door.open"):
        return True
    with st.form("door"):
        given = st.text_input("Password", type="password")
        if not st.form_submit_button("Open"):
            return False
    problem = GUESSES.problem_of(given, password)
    if problem:
        st.error(problem)
        return False
    st.session_state["door.open"] = True
    st.rerun()
