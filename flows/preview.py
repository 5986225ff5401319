"""A few rows before a run: its first inputs through every stage, in a temporary folder; what is paid for is kept."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from trailforge.flows.execute import RunRequest, check_out
from trailforge.pipelines.dataset import LEDGER, DataSet
from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.engine.files import exclusive, output_errors
from trailforge.pipelines.runs.own_files import refuse_strangers
from trailforge.schemas import Manifest


def preview(
    request: RunRequest, execute: Callable[[RunRequest], Manifest], show: Callable[[Manifest, Path], None]
) -> None:
    """Make a few rows as the run would, and show them before they are removed.

    A folder that is named for the run gets the replies, so that the run does not pay for them again; one in which a run
    works already is refused. Without a folder they are lost, unless the configuration names a shared ledger.
    """
    dataset, keeps = load_dataset(request.dataset), request.out != Path()
    if keeps:
        check_out(request.out)
        refuse_strangers(request.out, dataset)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trailforge-preview-"))) / "run"
        if had_replies := keeps and (request.out / LEDGER).exists():
            stack.enter_context(exclusive(request.out))
            _copy_ledger(request.out, folder)
        manifest = execute(_first_of(request, dataset, folder))
        if keeps and (folder / LEDGER).exists():
            if not had_replies:
                stack.enter_context(exclusive(request.out))
            if had_replies or not (request.out / LEDGER).exists():  # a run may have come and gone
                _copy_ledger(folder, request.out)
        show(manifest, folder)


def _first_of(request: RunRequest, dataset: DataSet, folder: Path) -> RunRequest:
    """The run of a few inputs, as many as the data set asks for."""
    few = dict(dataset.preview)
    limits = [limit for limit in (few.pop("limit", None), request.limit) if limit is not None]
    options = {**request.options, **few}
    return replace(request, out=folder, limit=min(limits, default=None), options=options, replace_run=False)


def _copy_ledger(source: Path, target: Path) -> None:
    """Put the replies of a run's folder in the place of another's: in one transaction, or by one rename."""
    with output_errors(target):
        ledger, is_new = target / LEDGER, not (target / LEDGER).exists()
        ledger.parent.mkdir(parents=True, exist_ok=True)
        written = ledger.with_suffix(".preview") if is_new else ledger
        with (
            contextlib.closing(sqlite3.connect(source / LEDGER)) as replies,
            contextlib.closing(sqlite3.connect(written)) as copy,
        ):
            replies.backup(copy)
        if is_new:
            written.replace(ledger)
