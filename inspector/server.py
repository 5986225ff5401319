"""Starts the page's server: Streamlit, on this machine alone unless more is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

OPTIONS = {
    "browser_gatherUsageStats": False,
    "client_showErrorDetails": "none",
    "client_toolbarMode": "minimal",
    "runner_magicEnabled": False,
    "server_fileWatcherType": "none",
    "server_headless": True,
    "server_maxUploadSize": 1,
    "theme_primaryColor": "#2e9e5b",
}
"""Nothing reports home, no widget takes files, errors go to the terminal and not to the browser."""


def serve(script: Path, arguments: Sequence[str], *, host: str, port: int) -> None:
    """Serve a script of Streamlit until the process is stopped."""
    from streamlit.web import bootstrap

    flags = {**OPTIONS, "server_address": host, "server_port": port, "browser_serverAddress": host}
    bootstrap.load_config_options(flags)
    bootstrap.run(str(script), False, list(arguments), flags)
