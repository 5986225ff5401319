"""Back up a run, or a root of nightly windows, even while it works, so that it can be resumed from the copy elsewhere.

What claims that files are there (receipts, manifests, `window.json`) is copied first, the files next and the ledger
last: so every file that a claim names was there, and every call behind a row is in the ledger. Files that were
half-written, or have changed meanwhile, are found by the run at its start, as after a kill, and made again from the
ledger.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path, PurePosixPath

from trailforge.flows.nights.windows import DONE, TAKEN
from trailforge.flows.run_log import LOG
from trailforge.pipelines import LEDGER
from trailforge.pipelines.engine import LOCK, RECEIPTS, new_folder, output_errors, sha256_of, unfinished_name
from trailforge.pipelines.engine.progress import FOLDER as PROGRESS
from trailforge.pipelines.runs import MANIFEST, SETTINGS
from trailforge.schemas import InvalidInput, from_dict, parse_json, to_dict

LIST, PREFECT = "backup.json", "prefect.db"
_CLAIMS = {MANIFEST, SETTINGS, TAKEN, DONE}
_OF_SQLITE = re.compile(r"-(wal|shm|journal)")
Shown = Callable[[Iterable[Path], str, int], Iterable[Path]]
"""A function that counts items on the terminal as they pass: `pipelines.engine.progress.count_shown`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUpFile:
    """A file of a backup, with its path and hash."""

    path: str
    """Path in the folder that was backed up, with `/`; `prefect.db` may be Prefect's database."""
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """What a backup holds: the content of its `backup.json`, which is written last."""

    of: str
    """Path of the folder that was backed up."""
    made_at: str
    """Time at which the backup was made, in UTC."""
    trailforge: str
    """Version of the package that made the backup."""
    files: tuple[BackedUpFile, ...]


def back_up(folder: Path, out: Path, *, prefect: Path | None = None, shown: Shown) -> Backup:
    """Copy a run's folder, or the root folder of nightly windows, into the new folder `out`, and with it Prefect's
    SQLite file `prefect`, if one is given. `shown` wraps the files as they are copied, to show progress.

    Raises `InvalidInput` for a folder without a run, and for a database that cannot be read; `OutputError` where `out`
    holds something or cannot be written.
    """
    if not folder.is_dir() or not any(folder.rglob(SETTINGS)):
        raise InvalidInput("holds no run; give a run's folder, or the root of nightly windows", file=folder)
    if out.resolve().is_relative_to(folder.resolve()):
        raise InvalidInput("the backup would lie in what it is of; give another --out", file=out)
    if (folder / PREFECT).exists() and prefect is not None:
        raise InvalidInput(
            f"holds a {PREFECT}, the name that Prefect's database has in a backup; rename the file", file=folder
        )
    found = sorted(_kept(folder), key=lambda path: (_turn(path), path))
    with new_folder(out) as new:
        for path in shown(found, "backing up", len(found)):
            _copy(path, new / path.relative_to(folder))
        if prefect is not None:
            _copy_database(prefect, new / PREFECT)
        backup = Backup(
            of=str(folder.absolute()),
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            trailforge=version("trailforge"),
            files=tuple(
                BackedUpFile(path=path.relative_to(new).as_posix(), sha256=sha256_of(path))
                for path in sorted(new.rglob("*"))
                if path.is_file()
            ),
        )
        (new / LIST).write_text(json.dumps(to_dict(backup), indent=1), encoding="utf-8")
    return backup


def restore(backup: Path, out: Path, *, prefect: Path | None = None, shown: Shown) -> Backup:
    """Copy what a backup holds into the new folder `out`, and Prefect's database to the new file `prefect`; None leaves
    the database out. `shown` wraps the files as they are copied, to show progress.

    Each file's hash is checked on the way. Raises `InvalidInput` for a folder that holds no backup or a damaged one,
    and `OutputError` where something is in the way.
    """
    listed = read_backup(backup)
    has_prefect = any(entry.path == PREFECT for entry in listed.files)
    if prefect is not None and (not has_prefect or prefect.exists()):
        problem = "is there already; move it away" if has_prefect else f"{backup} holds no database of Prefect's"
        raise InvalidInput(problem, file=prefect)
    files = {backup / entry.path: entry.sha256 for entry in listed.files if entry.path != PREFECT or prefect is None}
    with new_folder(out) as new:
        for path in shown(files, "restoring", len(files)):
            _copy_checked(path, new / path.relative_to(backup), files[path])
        if prefect is not None:
            with output_errors(prefect):
                prefect.parent.mkdir(parents=True, exist_ok=True)
            hashes = {entry.path: entry.sha256 for entry in listed.files}
            _copy_checked(backup / PREFECT, prefect, hashes[PREFECT])
    return listed


def read_backup(folder: Path) -> Backup:
    """Read the list of files in a backup. Raises `InvalidInput` where there is none, or where it names a file outside
    of its folder.
    """
    try:
        backup = from_dict(Backup, parse_json((folder / LIST).read_bytes()))
    except (OSError, ValueError, TypeError, InvalidInput) as error:
        raise InvalidInput(
            f"no backup of ours ({error}); give a folder that `trailforge backup` wrote", file=folder / LIST
        ) from error
    for entry in backup.files:
        path = PurePosixPath(entry.path)
        if path.is_absolute() or ".." in path.parts:
            raise InvalidInput(
                f"names {entry.path!r}, which is not in the backup; make the backup again", file=folder / LIST
            )
    return backup


def _kept(folder: Path) -> Iterator[Path]:
    """All files but locks, what is half-written, and signs of life of workers."""
    for path in folder.rglob("*"):
        is_sign = path.parent.name == PROGRESS and path.name != Path(LOG).name
        is_part = path.name == LOCK or unfinished_name(path.name) is not None or is_sign or _is_of_sqlite(path)
        if path.is_file() and not path.is_symlink() and not is_part:
            yield path


def _is_of_sqlite(path: Path) -> bool:
    """Whether it is a file that SQLite keeps beside a database while it is open."""
    name = Path(LEDGER).name
    return path.name.startswith(name) and _OF_SQLITE.fullmatch(path.name.removeprefix(name)) is not None


def _is_ledger(path: Path) -> bool:
    return path.parts[-2:] == Path(LEDGER).parts


def _turn(path: Path) -> int:
    if _is_ledger(path):
        return 2
    return 0 if path.name in _CLAIMS or path.parent.name == RECEIPTS else 1


def _copy(path: Path, target: Path) -> None:
    """A file that went away meanwhile is none that a run needs."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if _is_ledger(path):
        _copy_database(path, target)
        return
    try:
        shutil.copy2(path, target)
    except FileNotFoundError:
        target.unlink(missing_ok=True)


def _copy_database(path: Path, target: Path) -> None:
    """By SQLite itself: whole at one moment, whoever writes."""
    try:
        source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        with closing(source), closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
    except sqlite3.Error as error:
        raise InvalidInput(
            f"no database of SQLite's that can be read ({error}); give Prefect's SQLite file", file=path
        ) from error


def _copy_checked(path: Path, target: Path, sha256: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copy2(path, target)
    except FileNotFoundError:
        raise InvalidInput("missing in the backup; restore another backup", file=path) from None
    if sha256_of(target) != sha256:
        target.unlink()
        raise InvalidInput("not as it was backed up (its sha256 differs); restore another backup", file=path)
