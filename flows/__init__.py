"""Make runs from a command or a schedule: what it takes to execute a run, and the flows that Prefect starts.
Prefect's telemetry to outside is off unless switched on."""

import logging
import os
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from trailforge.doors import lazy_names
from trailforge.schemas import TrailforgeError

if TYPE_CHECKING:
    from trailforge.flows.backup import back_up as back_up
    from trailforge.flows.backup import restore as restore
    from trailforge.flows.configuration import configuration_of as configuration_of
    from trailforge.flows.configuration import datasets_for as datasets_for
    from trailforge.flows.doctor import examine as examine
    from trailforge.flows.doctor import prefect_server as prefect_server
    from trailforge.flows.given import check_given as check_given
    from trailforge.flows.given import check_named as check_named
    from trailforge.flows.given import check_out as check_out
    from trailforge.flows.prefect_driver import execute_as_flow as execute_as_flow
    from trailforge.flows.preview import show_build_estimate as show_build_estimate
    from trailforge.flows.preview import show_estimate as show_estimate
    from trailforge.flows.preview import show_evaluation as show_evaluation
    from trailforge.flows.preview import show_preview as show_preview
    from trailforge.flows.run_log import read_last_error as read_last_error
else:
    __getattr__, __dir__ = lazy_names(__name__)


for _name, _value in {
    "DO_NOT_TRACK": "1",
    # Prefect's server and Beam's workers are started as modules, and must not import a user's of the same name.
    "PYTHONSAFEPATH": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
}.items():
    os.environ.setdefault(_name, _value)


def names_prefect_server() -> bool:
    """Tell whether PREFECT_API_URL or Prefect's active profile names a server, without loading Prefect."""
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
    """Stop the temporary Prefect server that this process may have started, in a process that skips `atexit`."""
    module = sys.modules.get("prefect.server.api.server")
    if module is not None:
        module.SubprocessASGIServer().stop()


# Beam says at import, by the root logger, that it was installed without its Google parts.
logging.getLogger().addFilter(lambda record: "apitools not found" not in record.getMessage())


def _in_a_line(record: logging.LogRecord) -> bool:
    """An error of ours says in its line what is wrong, and what to do: no traceback in the log, nor on the page."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, TrailforgeError):
        said = record.getMessage()
        record.msg, record.args = said if str(error) in said else f"{said}: {error}", None
        record.exc_info = record.exc_text = None
    return True


for _name in ("prefect.flow_runs", "prefect.task_runs", "prefect.engine", "apache_beam.runners.common"):
    logging.getLogger(_name).addFilter(_in_a_line)

# bm25s tells of every index at the level DEBUG, which Prefect's workers show: a line per question.
logging.getLogger("bm25s").addFilter(lambda record: record.levelno >= logging.WARNING)
