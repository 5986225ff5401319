"""Starts the page's server: Streamlit, on this machine alone unless more is asked for."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from schemas import InvalidInput, OutputError

PASSWORD = "TRAILFORGE_INSPECT_PASSWORD"
"""Environment variable: who opens the page has to give this."""
_OPTIONS = {
    "browser_gatherUsageStats": False,
    "client_showErrorDetails": "none",
    "client_toolbarMode": "minimal",
    "runner_fastReruns": False,
    "runner_magicEnabled": False,
    "server_fileWatcherType": "none",
    "server_headless": True,
    "server_maxUploadSize": 1,
    "theme_primaryColor": "#2e9e5b",
}
"""Nothing reports home, no widget takes files, errors go to the terminal and not to the browser."""


_LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names of this machine for itself. On a page that asks for no password a browser must have asked for one of them: the
name of a page elsewhere can be made to lead here, too (DNS rebinding)."""


def is_shared(host: str, *, is_behind_proxy: bool) -> bool:
    """Whether others than this machine's user are meant to reach the page."""
    return is_behind_proxy or not _is_loopback(host)


def check_reach(host: str, *, is_behind_proxy: bool) -> None:
    """Raises `InvalidInput` when others could reach the page and nothing asks who they are."""
    if _is_loopback(host) or is_behind_proxy or os.environ.get(PASSWORD):
        return
    raise InvalidInput(
        f"{host} is reached from other machines; set {PASSWORD}, or give --behind-proxy where one asks who people are",
        field="host",
    )


def check_port(host: str, port: int) -> None:
    """Raises `OutputError` when nothing can listen there."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise OutputError(
            f"cannot listen on {host}, port {port} ({error.strerror or error}); give another --port"
        ) from error


def serve(script: Path, arguments: Sequence[str], *, host: str, port: int, is_behind_proxy: bool = False) -> None:
    """Serve a script of Streamlit until the process is stopped. Raises `InvalidInput` where Streamlit is missing."""
    try:
        from streamlit import net_util
        from streamlit.web import bootstrap
    except ModuleNotFoundError as error:
        raise InvalidInput("the page needs the extra: pip install 'trailforge[inspector]'") from error
    # Whether a page of another origin may connect, Streamlit decides by the address that this machine has outside,
    # too, and asks a host in the internet for it.
    net_util.get_external_ip = lambda: None
    flags = {**_OPTIONS, "server_address": host, "server_port": port, "browser_serverAddress": host}
    if not is_shared(host, is_behind_proxy=is_behind_proxy):
        flags["server_allowedHosts"] = [*_LOOPBACK, host]
    bootstrap.load_config_options(flags)
    bootstrap.run(str(script), False, list(arguments), flags)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
