"""Find the complete windows of a root that are old enough to be removed, and remove them.

Kept are the newest ones, windows that are not complete or in use, and what people put work into: a window with
decisions of which a curated data set is still to be made, one with patterns, which later runs read where they are
(`--verdicts`), and one that has files in it, or right below its runs, that no window has.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from trailforge.curation import awaits_curation
from trailforge.flows.nights.windows import DOCUMENTS, DONE, PLAN, QUESTIONS, TAKEN, VERDICTS, folders, run_folders
from trailforge.pipelines import CURATED, all_tables
from trailforge.pipelines.engine import LOCK, RECEIPTS, exclusive, output_errors, sha256_of
from trailforge.pipelines.engine.files import is_held
from trailforge.pipelines.engine.progress import FOLDER as PROGRESS
from trailforge.pipelines.engine.worker_errors import ERRORS
from trailforge.pipelines.runs import MANIFEST, SETTINGS
from trailforge.pipelines.runs.finish import CARD
from trailforge.schemas import DECISIONS_LOG, PATTERNS_LOG, InvalidInput, OutputError, parse_json

_REMOVED = ".removed-"
_LEFTOVER = re.compile(r"\.removed-\d{4}-\d\d-\d\d-[0-9a-f]{8}")
_OF_A_WINDOW = frozenset({PLAN, TAKEN, DONE, DOCUMENTS, QUESTIONS, VERDICTS, LOCK})
_OF_A_RUN = {SETTINGS, MANIFEST, CARD, LOCK, RECEIPTS, PROGRESS, ERRORS, "ledger", "plots", "work", "curation"}
_OF_A_RUN |= all_tables() - {CURATED}
"""Not the table that a curated data set has more than its run: the run of a window is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionDecision:
    """The fate of a window that is not among the newest ones: it is kept for a reason, or removed."""

    folder: Path
    kept_for: str = ""
    """Why the window is kept; empty when it is removed."""


def decide_retention(
    root: Path, keep: int, *, curated: Sequence[Path] = (), spare: Sequence[str] = ()
) -> list[RetentionDecision]:
    """Decide for all complete windows but the newest `keep` whether they are removed, the earliest first; nothing is
    changed.

    `curated` are folders in or below which there are curated data sets, beside the root itself. `spare` are days to
    keep, however old. Raises `InvalidInput` for a root that does not exist, or fewer than one window to keep.
    """
    check_keep(keep)
    if not root.is_dir():
        raise InvalidInput("no such folder", file=root)
    complete = [folder for folder in folders(root) if (folder / DONE).is_file()]
    old = [folder for folder in complete[: max(0, len(complete) - keep)] if folder.name not in spare]
    applied = _applied((root, *curated), old)
    return [RetentionDecision(folder=folder, kept_for=_kept_for(folder, applied)) for folder in old]


def check_keep(keep: int) -> None:
    """Raise `InvalidInput` when fewer than one window would be kept."""
    if keep < 1:
        raise InvalidInput("has to be 1 or more", field="keep")


def retain(root: Path, decided: Sequence[RetentionDecision]) -> list[RetentionDecision]:
    """Remove the windows that `decide_retention` marked for removal, and return what became of each. A window is moved
    aside whole before it is deleted.
    """
    for leftover in root.iterdir():  # of a removal that was killed
        if _LEFTOVER.fullmatch(leftover.name) and not leftover.is_symlink():
            shutil.rmtree(leftover, ignore_errors=True)
    return [_settled(fate) for fate in decided]


def _settled(fate: RetentionDecision) -> RetentionDecision:
    if fate.kept_for:
        return fate
    aside = fate.folder.with_name(f"{_REMOVED}{fate.folder.name}-{uuid.uuid4().hex[:8]}")
    try:
        with contextlib.ExitStack() as stack:
            for held in (fate.folder, *run_folders(fate.folder)):
                stack.enter_context(exclusive(held))
            with output_errors(fate.folder):
                os.replace(fate.folder, aside)
    except OutputError as error:
        return RetentionDecision(folder=fate.folder, kept_for=str(error))
    with output_errors(aside):
        shutil.rmtree(aside)
    return fate


def _kept_for(folder: Path, applied: Set[str]) -> str:
    runs = run_folders(folder)
    if any(is_held(each) for each in (folder, *runs)):
        return "a process works in it"
    own = _OF_A_WINDOW.union(run.name for run in runs)
    strange = [*_beside(folder, own), *(path for run in runs for path in _beside(run, _OF_A_RUN))]
    if strange:
        return f"holds {strange[0].relative_to(folder)}, which is no part of a window"
    for run in runs:
        if (run / PATTERNS_LOG).is_file():
            return f"people's patterns are in {run.name} (--verdicts)"
    for run in runs:
        log = run / DECISIONS_LOG
        if log.is_file() and sha256_of(log) not in applied and awaits_curation(log):
            return f"people's decisions in {run.name} were not applied (trailforge curate apply)"
    return ""


def _applied(roots: Iterable[Path], old: Sequence[Path]) -> set[str]:
    """Hashes of the logs that curated data sets outside of the old windows were made of."""
    found: set[str] = set()
    for path in (p for root in roots for depth in ("", "*/", "*/*/") for p in root.glob(f"{depth}{MANIFEST}")):
        if any(folder in path.parents for folder in old):
            continue
        with contextlib.suppress(
            OSError, ValueError, KeyError, TypeError, AttributeError
        ):  # none of what is no manifest
            inputs = parse_json(path.read_bytes())["inputs"]
            found.update(entry["sha256"] for entry in inputs if entry["path"].endswith(DECISIONS_LOG))
    return found


def _beside(folder: Path, known: Set[str]) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name not in known)
