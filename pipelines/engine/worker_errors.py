"""Bring errors of workers to the driver by notes in the run's folder, since runners pass on text at best."""

from __future__ import annotations

import contextlib
import json
import re
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from trailforge import schemas
from trailforge.pipelines.engine.files import plain_files, write_text
from trailforge.schemas import TrailforgeError, parse_json

ERRORS = "errors"
NAMES = r"[0-9a-f]{8}\.json"
"""Pattern of the names of the notes."""
T = TypeVar("T")


def noting(folder: Path, function: Callable[..., T], *, several: bool = False) -> Callable[..., T]:
    """Wrap a function for a worker so that an error of ours is noted in the run's folder before it is raised. `several`
    says that the function returns an iterable, which may also raise while it is read.
    """

    def noted(element: Any, *more: Any) -> Any:
        try:
            made: Any = function(element, *more)
            return list(made) if several else made
        except TrailforgeError as error:
            note_error(folder, error)
            raise

    return noted


_errors_here: dict[Path, TrailforgeError] = {}
"""First error of workers in this process, by run folder: known even when the disk is too full to note it."""


def note_error(folder: Path, error: TrailforgeError) -> None:
    """Write a note of an error into the run's folder."""
    _errors_here.setdefault(folder, error)
    text = json.dumps({"class": type(error).__name__, "message": str(error), "at": time.time_ns()})
    with contextlib.suppress(TrailforgeError):
        write_text(folder / ERRORS / f"{uuid.uuid4().hex[:8]}.json", text)


def noted_error(folder: Path) -> TrailforgeError | None:
    """Return the first noted error, by the clocks of the machines that noted it; None when there is none."""
    if folder in _errors_here:
        return _errors_here.pop(folder)
    return next(iter(read_notes(folder)), None)


def read_notes(folder: Path) -> list[TrailforgeError]:
    """Read the errors that were noted, the first one first. A note that is half written, or not ours, is left out."""
    found: list[tuple[int, str, TrailforgeError]] = []
    for path in _notes(folder):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            note = parse_json(path.read_bytes())
            kind = getattr(schemas, str(note["class"]), None)
            if not (isinstance(kind, type) and issubclass(kind, TrailforgeError)):
                kind = TrailforgeError
            found.append((int(note.get("at", 0)), path.name, kind(str(note["message"]))))
    return [error for *_, error in sorted(found, key=lambda each: each[:2])]


def clear_errors(folder: Path) -> None:
    """Remove the error notes of an earlier attempt."""
    _errors_here.pop(folder, None)
    for path in _notes(folder):
        path.unlink(missing_ok=True)


def _notes(folder: Path) -> list[Path]:
    return [path for path in plain_files(folder / ERRORS) if re.fullmatch(NAMES, path.name)]
