"""Read a root, which is a folder with several runs: what each made and cost, and how two of them differ."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trailforge.flows import read_last_error
from trailforge.inspector.showing import product_of
from trailforge.pipelines import load_dataset
from trailforge.pipelines.runs import MANIFEST, RUN, OpenRun, read_manifest, read_status
from trailforge.schemas import InvalidInput, Manifest, TrailforgeError

_DEEPEST = 3
"""Levels of folders below a root in which runs are looked for: a night's are two levels down."""
_MOST_RUNS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """One run's line in the list of a root."""

    name: str
    """Path of its folder within the root."""
    dataset: str
    state: str
    """`finished`, or what `trailforge status` says of it; `unreadable` where it says nothing."""
    when: str
    """Time (UTC) of its last step that is known, as `2026-05-01 03:12`."""
    inputs: int | None
    """Number of items that came in; None where that is not known."""
    rows: int
    """Number of rows in its main table."""
    calls: int
    tokens: int
    cost: float
    last_error: str = ""
    """Time and message of the last failure, or why it cannot be read; empty for a run that finished."""

    @property
    def rows_per_input(self) -> float | None:
        """Return the yield of a run: rows of the main table for each input; None without inputs."""
        return self.rows / self.inputs if self.inputs else None

    @property
    def cost_per_row(self) -> float | None:
        """Return the cost of a row of the main table; None without rows."""
        return self.cost / self.rows if self.rows else None


def is_root(folder: Path) -> bool:
    """Tell whether a folder contains runs and is no run itself."""
    return not (folder / RUN).is_file() and next(_folders(folder), None) is not None


def list_runs(root: Path) -> list[RunLine]:
    """Return the runs below a root, the latest first; if there are over 2,000, the first ones by name."""
    found = (_line(root, folder) for _, folder in zip(range(_MOST_RUNS), _folders(root), strict=False))
    return sorted(found, key=lambda line: (line.when, line.name), reverse=True)


def _folders(root: Path) -> Iterator[Path]:
    """The folders of runs, by name; nothing within a run is looked at."""
    for place, names, files in os.walk(root):
        path = Path(place)
        if RUN in files and path != root:
            names.clear()
            yield path
        elif len(path.relative_to(root).parts) >= _DEEPEST:
            names.clear()
        names[:] = sorted(name for name in names if not name.startswith("."))


def _line(root: Path, folder: Path) -> RunLine:
    name, when = folder.relative_to(root).as_posix(), _when(folder)
    try:
        manifest = read_manifest(folder)
        if manifest is not None:
            return _finished(name, when, manifest)
        status = read_status(folder)
    except TrailforgeError as error:
        return RunLine(
            name=name, dataset="", state="unreadable", when=when, inputs=None, rows=0, calls=0, tokens=0, cost=0.0,
            last_error=f"{when}  {error}",
        )  # fmt: skip
    return RunLine(
        name=name, dataset=status.dataset or "", state=status.state, when=when, inputs=None,
        rows=sum(status.rows.values()), calls=status.calls, tokens=status.prompt_tokens + status.completion_tokens,
        cost=status.cost, last_error="  ".join(read_last_error(folder) or ()),
    )  # fmt: skip


def _finished(name: str, when: str, manifest: Manifest) -> RunLine:
    return RunLine(
        name=name, dataset=manifest.dataset, state="finished", when=when,
        inputs=manifest.stages[0].inputs if manifest.stages else None, rows=rows_of(manifest), calls=manifest.calls,
        tokens=manifest.prompt_tokens + manifest.completion_tokens, cost=manifest.cost,
    )  # fmt: skip


def rows_of(manifest: Manifest) -> int:
    """Return the number of rows in a run's main table; 0 for a data set that is not installed."""
    try:
        table = product_of(manifest.dataset)
    except InvalidInput:
        return 0
    return sum(entry.rows for entry in manifest.files if entry.path.startswith(f"{table}/"))


def _when(folder: Path) -> str:
    path = next(path for path in (folder / MANIFEST, folder / RUN, folder) if path.exists())
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPair:
    """Two runs to be compared."""

    figures: Mapping[str, tuple[float | None, float | None]]
    """Figures of both by name; None where a run does not have it."""
    table: str
    """Name of the main table that both have; empty: they make different things, and their rows do not compare."""
    same: int
    """Number of rows that stand in both."""
    differing: tuple[RowDifference, ...]
    """What differs, by source, in the order of the first run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """A difference between the rows that two runs made from one source."""

    source: str
    """Id of the question, document or path; the row's own where a table names no source."""
    first: tuple[int, ...]
    """Numbers of rows that the first run alone has."""
    second: tuple[int, ...]
    """Numbers of rows that the second run alone has."""

    @property
    def what(self) -> str:
        """Return which of the two has rows of the source that the other lacks."""
        return "other rows" if self.first and self.second else "only in A" if self.first else "only in B"


def compare_runs(first: OpenRun, second: OpenRun) -> RunPair:
    """Compare two runs: their figures, and the rows of their main table. Rows are the same when their uids are, which
    are hashes of their content.
    """
    tables = [product_of(run.dataset) for run in (first, second)]
    figures = [_figures(run) for run in (first, second)]
    names = dict.fromkeys((*figures[0], *figures[1]))
    both = {name: (figures[0].get(name), figures[1].get(name)) for name in names}
    if tables[0] != tables[1]:
        return RunPair(figures=both, table="", same=0, differing=())
    sides = [_rows(run, tables[0]) for run in (first, second)]
    known = sides[0].keys() & sides[1].keys()
    of_source: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate(sides):
        for uid, (number, source) in rows.items():
            if uid not in known:
                of_source[source][side].append(number)
    differing = tuple(
        RowDifference(source=source, first=tuple(ones), second=tuple(others))
        for source, (ones, others) in of_source.items()
    )
    return RunPair(figures=both, table=tables[0], same=len(known), differing=differing)


def _rows(run: OpenRun, table: str) -> dict[str, tuple[int, str]]:
    """By uid the number and the source of each row; a run that kept nothing has no such table."""
    if table not in run.tables:
        return {}
    key, source = run.key_of(table), load_dataset(run.dataset).tables[table].source
    source = source if source in run.table(table).schema.names else key
    found = run.table(table).select(list(dict.fromkeys((key, source))))
    pairs = zip(found[key].to_pylist(), found[source].to_pylist(), strict=True)
    return {uid: (number, str(each)) for number, (uid, each) in enumerate(pairs)}


def _figures(run: OpenRun) -> dict[str, float | None]:
    table = product_of(run.dataset)
    figures: dict[str, float | None] = {table.replace("_", " "): run.size(table)}
    if manifest := run.manifest:
        figures |= {
            "inputs": manifest.stages[0].inputs if manifest.stages else None,
            "calls": manifest.calls,
            "calls per row": manifest.calls_per_accepted_row,
            "tokens": manifest.prompt_tokens + manifest.completion_tokens,
            "cost": manifest.cost,
            "cost per row": manifest.cost_per_accepted_row,
            "cut replies": manifest.cut_replies,
        }
    reasons = Counter[str]()
    for (_, reason), count in run.rejections.items():
        reasons[reason] += count
    return figures | {f"rejected: {reason}": count for reason, count in reasons.most_common()}
