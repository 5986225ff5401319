"""Prefect flows: what a schedule or a person starts. Prefect's telemetry to outside is off unless switched on."""

import logging
import os
import sys

for _name, _value in {
    "DO_NOT_TRACK": "1",
    # Prefect's server and Beam's workers are started as modules, and must not import a user's of the same name.
    "PYTHONSAFEPATH": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
}.items():
    os.environ.setdefault(_name, _value)


def stop_server() -> None:
    """Stop the temporary Prefect server that this process may have started: for a process that skips `atexit`."""
    module = sys.modules.get("prefect.server.api.server")
    if module is not None:
        module.SubprocessASGIServer().stop()


# Beam says at import, by the root logger, that it was installed without its Google parts.
logging.getLogger().addFilter(lambda record: "apitools not found" not in record.getMessage())

# bm25s tells of every index at the level DEBUG, which Prefect's workers show: a line per question.
logging.getLogger("bm25s").addFilter(lambda record: record.levelno >= logging.WARNING)
