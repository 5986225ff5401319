"""A few rows before a run: its first inputs through every stage, in a temporary folder; what is paid for is kept."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from trailforge.flows.execute import RunRequest, check_out
from trailforge.pipelines.dataset import LEDGER, DataSet
from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.engine.files import output_errors
from trailforge.pipelines.runs.own_files import refuse_strangers
from trailforge.schemas import Manifest


def preview(
    request: RunRequest, execute: Callable[[RunRequest], Manifest], show: Callable[[Manifest, Path], None]
) -> None:
    """Make a few rows as the run would, and show them before they are removed.

    Replies go straight into the ledger of the folder that is named for the run, which does not pay for them again, also
    when the preview is killed. Without such a folder they are lost, unless the configuration names a shared ledger.
    """
    dataset = load_dataset(request.dataset)
    with tempfile.TemporaryDirectory(prefix="trailforge-preview-") as temporary:
        folder = Path(temporary) / "run"
        if request.out == Path():
            show(execute(_first_of(request, dataset, folder)), folder)
            return
        check_out(request.out)
        refuse_strangers(request.out, dataset)
        with _shared_ledger(request.out, folder):
            show(execute(_first_of(request, dataset, folder)), folder)


def _first_of(request: RunRequest, dataset: DataSet, folder: Path) -> RunRequest:
    """The run of a few inputs, as many as the data set asks for."""
    few = dict(dataset.preview)
    limits = [limit for limit in (few.pop("limit", None), request.limit) if limit is not None]
    options = {**request.options, **few}
    return replace(request, out=folder, limit=min(limits, default=None), options=options, replace_run=False)


@contextlib.contextmanager
def _shared_ledger(out: Path, folder: Path) -> Iterator[None]:
    """`folder` writes its replies where the run of `out` looks for them. Folders that stay empty go again."""
    ledger = (out / LEDGER).parent.absolute()
    made = [path for path in (ledger, *ledger.parents) if not path.exists()]
    with output_errors(out):
        ledger.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        (folder / LEDGER).parent.symlink_to(ledger)
    try:
        yield
    finally:
        for path in made:
            with contextlib.suppress(OSError):  # it is not empty
                path.rmdir()
