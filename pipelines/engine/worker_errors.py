"""Errors of workers on their way to the driver: notes in the run's folder, since runners pass on text at best."""

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
"""What the names of the notes match."""
T = TypeVar("T")


def noting(folder: Path, function: Callable[..., T], *, several: bool = False) -> Callable[..., T]:
    """The function, for a worker: a typed error is noted in the run's folder, since runners pass on text at best.

    `several`: it gives an iterable, in whose course an error may be raised, too.
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
    """Leave a note."""
    _errors_here.setdefault(folder, error)
    text = json.dumps({"class": type(error).__name__, "message": str(error), "at": time.time_ns()})
    with contextlib.suppress(TrailforgeError):
        write_text(folder / ERRORS / f"{uuid.uuid4().hex[:8]}.json", text)


def noted_error(folder: Path) -> TrailforgeError | None:
    """The first error that was noted; of other processes by the clocks of their machines."""
    if folder in _errors_here:
        return _errors_here.pop(folder)
    return next(iter(read_notes(folder)), None)


def read_notes(folder: Path) -> list[TrailforgeError]:
    """The errors that were noted, the first one first. A note that is half there, or none of ours, says nothing."""
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
    """Forget the notes of an earlier try."""
    _errors_here.pop(folder, None)
    for path in _notes(folder):
        path.unlink(missing_ok=True)


def _notes(folder: Path) -> list[Path]:
    return [path for path in plain_files(folder / ERRORS) if re.fullmatch(NAMES, path.name)]
