"""Errors of workers on their way to the driver: notes in the run's folder, since runners pass on text at best."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pipelines.files import write_text
from schemas import TrailforgeError, errors

ERRORS = "errors"
NAMES = r"[0-9a-f]{8}\.json"
"""What the names of the notes match."""
T = TypeVar("T")


def noting(folder: Path, function: Callable[..., T]) -> Callable[..., T]:
    """The function, for a worker: a typed error is noted in the run's folder, since runners pass on text at best."""

    def noted(element: Any, *more: Any) -> Any:
        try:
            return function(element, *more)
        except TrailforgeError as error:
            note_error(folder, error)
            raise

    return noted


_errors_here: dict[Path, TrailforgeError] = {}
"""Errors of workers in this process, by run folder: they are known even when the disk is too full to note them."""


def note_error(folder: Path, error: TrailforgeError) -> None:
    """Leave a note."""
    _errors_here[folder] = error
    text = json.dumps({"class": type(error).__name__, "message": str(error)})
    with contextlib.suppress(TrailforgeError):
        write_text(folder / ERRORS / f"{uuid.uuid4().hex[:8]}.json", text)


def noted_error(folder: Path) -> TrailforgeError | None:
    """The first error that was noted."""
    if folder in _errors_here:
        return _errors_here.pop(folder)
    for path in sorted((folder / ERRORS).glob("*.json")):
        noted = json.loads(path.read_text(encoding="utf-8"))
        return getattr(errors, noted["class"], TrailforgeError)(noted["message"])
    return None


def clear_errors(folder: Path) -> None:
    """Forget the notes of an earlier try."""
    _errors_here.pop(folder, None)
    for path in (folder / ERRORS).glob("*.json"):
        path.unlink(missing_ok=True)
