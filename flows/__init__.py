"""Runs, and the flows that a schedule starts. Prefect's telemetry to outside is off unless switched on."""

import logging
import os
import sys
import tomllib
from pathlib import Path

for _name, _value in {
    "DO_NOT_TRACK": "1",
    # Prefect's server and Beam's workers are started as modules, and must not import a user's of the same name.
    "PYTHONSAFEPATH": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
}.items():
    os.environ.setdefault(_name, _value)


def names_prefect_server() -> bool:
    """Whether PREFECT_API_URL or Prefect's active profile names a server. Does not load Prefect."""
    if "PREFECT_API_URL" in os.environ:
        return bool(os.environ["PREFECT_API_URL"])
    home = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    try:
        path = Path(os.environ.get("PREFECT_PROFILES_PATH", home / "profiles.toml"))
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        active = os.environ.get("PREFECT_PROFILE") or content.get("active", "")
        return bool(content.get("profiles", {}).get(active, {}).get("PREFECT_API_URL"))
    except (OSError, ValueError, AttributeError):
        return False  # Prefect itself says what is wrong with it, where it is asked for


def stop_server() -> None:
    """Stop the temporary Prefect server that this process may have started: for a process that skips `atexit`."""
    module = sys.modules.get("prefect.server.api.server")
    if module is not None:
        module.SubprocessASGIServer().stop()


# Beam says at import, by the root logger, that it was installed without its Google parts.
logging.getLogger().addFilter(lambda record: "apitools not found" not in record.getMessage())

# bm25s tells of every index at the level DEBUG, which Prefect's workers show: a line per question.
logging.getLogger("bm25s").addFilter(lambda record: record.levelno >= logging.WARNING)
