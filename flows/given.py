"""Check that the files and presets given to a run exist, without loading anything heavy, so that a command can check
first.
"""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trailforge.pipelines.engine import output_errors
from trailforge.presets import load_preset
from trailforge.schemas import InvalidInput


def check_given(dataset: str, preset: str, files: Iterable[Path], options: Mapping[str, Any]) -> None:
    """Check that the files, the paths among the options, and the preset exist. Raises `InvalidInput` for one that does
    not.
    """
    lists = [path for value in options.values() if isinstance(value, list) for path in value if isinstance(path, Path)]
    for path in (*files, *lists):
        if path.is_dir():
            hint = "; an empty name means the folder that you are in" if path == Path() else ""
            raise InvalidInput(f"a folder, and no file{hint}", file=path)
        if not path.is_file():
            raise InvalidInput("no such file", file=path)
    for name, value in options.items():
        if isinstance(value, Path) and not value.exists():
            raise InvalidInput("no such file or folder", file=value, field=f"--{name}")
    load_preset(preset, dataset)


def check_named(patterns: Iterable[str]) -> None:
    """Check that names are existing files; those with `*`, `?` or `[…]` may match files that come later. Raises
    `InvalidInput`.
    """
    for name in patterns:
        if not glob.has_magic(name) and not Path(name).is_file():
            raise InvalidInput("no such file", file=name, field="documents")


def check_out(out: Path) -> None:
    """Check that a folder can be created and written. Raises `OutputError`."""
    with output_errors(out):
        there = next(path for path in (out, *out.absolute().parents) if path.exists() or path.is_symlink())
        if not there.is_dir():
            raise OSError(errno.EEXIST if there == out else errno.ENOTDIR, "")
        if not os.access(there, os.W_OK | os.X_OK):
            is_read_only = os.statvfs(there).f_flag & os.ST_RDONLY
            raise OSError(errno.EROFS if is_read_only else errno.EACCES, "")
