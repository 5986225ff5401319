"""Write lines about events on stderr: as text for people, or as JSON where programs read them."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Any

from trailforge.schemas import NOTICE

VARIABLE = "TRAILFORGE_LOG_FORMAT"
TEXT, JSON = "text", "json"


def is_json() -> bool:
    """Tell whether log lines are JSON, for programs."""
    return os.environ.get(VARIABLE) == JSON


def shows_bars() -> bool:
    """Tell whether stderr is a terminal, so that progress bars are drawn."""
    return sys.stderr.isatty() and not is_json()


def json_line(event: str, said: str, level: int = logging.INFO, **fields: Any) -> str:
    """Return an event as a line of JSON, with the time in UTC."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = {"time": now, "level": logging.getLevelName(level).lower(), "event": event, **fields, "message": said}
    return json.dumps(line, ensure_ascii=False)


def print_line(event: str, said: str, level: int = logging.INFO, **fields: Any) -> None:
    """Print an event on stderr: for people as a sentence, in a file with this machine's local time."""
    if is_json():
        text = json_line(event, said, level, **fields)
    else:
        text = said if sys.stderr.isatty() else f"{datetime.now():%Y-%m-%d %H:%M:%S}  {said}"
    print(text, file=sys.stderr, flush=True)


def choose_format(name: str) -> None:
    """Choose the format of log lines for this process and those that it starts."""
    os.environ[VARIABLE] = name
    if is_json():
        logging.getLogger().addHandler(_AsJson(level=NOTICE))


class _AsJson(logging.Handler):
    """Prints what users should hear, whoever logs it."""

    def emit(self, record: logging.LogRecord) -> None:
        """A line."""
        print(json_line("log", record.getMessage(), record.levelno, logger=record.name), file=sys.stderr, flush=True)
