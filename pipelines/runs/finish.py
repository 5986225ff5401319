"""End a run: add up and check the counts, write the card, and write the manifest last."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from trailforge.inference import Usage
from trailforge.pipelines.dataset import DataSet, resolve
from trailforge.pipelines.datasets import dataset_of
from trailforge.pipelines.engine.files import output_errors, plain_files, sha256_of, write_text
from trailforge.pipelines.engine.shards import file_entry
from trailforge.pipelines.runs.accounting import add_up, check_balance
from trailforge.pipelines.runs.finished import MANIFEST, read_manifest
from trailforge.pipelines.runs.intake import Settings, read_settings, run_configuration
from trailforge.pipelines.runs.stages import planned_stages, stage_receipts
from trailforge.schemas import (
    FileEntry,
    InvalidInput,
    Manifest,
    NothingKept,
    PromptRefused,
    SchemaVersion,
    stored_name,
    to_dict,
    version_of,
)

CARD = "README.md"
_MOST_REASONS = 3
"""Of what took the rows of a run that kept none."""
_HINTS = {
    PromptRefused.reason: "the server refuses these prompts: run the same command with --redo refused, or take another "
    "model",
    InvalidInput.reason: "rows of the input have another form: the details name row and field",
}
"""What to try against reasons that any data set has."""


def finish_run(
    folder: Path, settings: Settings, dataset: DataSet, *, seconds: float, has_card: bool = True
) -> Manifest:
    """Write card and manifest once all shards are done, and return the manifest. `seconds` is how long this process
    worked on the run, for the manifest. With `has_card` false no card is written and the manifest names none. Raises
    `CountMismatch` when the counts do not add up.
    """
    manifest = manifest_of(folder, settings, dataset, seconds=seconds)
    check_balance(manifest.stages)
    return write_end(folder, manifest, dataset, resolve(dataset.card)(folder, manifest, settings) if has_card else "")


def write_end(folder: Path, manifest: Manifest, dataset: DataSet, card: str) -> Manifest:
    """Write the card, where there is one, and then the manifest, which names the card and its plots; returns that
    manifest. `card` is the card's Markdown, empty for none.
    """
    if card:
        write_text(folder / CARD, card)
    known = {entry.path for entry in manifest.files}
    beside = ((path, names) for inner, names in dataset.beside.items() for path in plain_files(folder / inner))
    figures = [path for path, names in beside if re.fullmatch(names, path.name)]
    entries = (file_entry(folder, path, 0) for path in (*([folder / CARD] if card else ()), *figures))
    manifest = replace(manifest, card=tuple(entry for entry in entries if entry.path not in known))
    write_text(folder / MANIFEST, json.dumps(to_dict(manifest), indent=1))
    return manifest


def keep_changed(folder: Path, tell: Callable[[str], None]) -> None:
    """Rename a card and plots that differ from the manifest, since people may have edited them; they are then written
    anew. A card is also renamed when the manifest cannot be read or names none. `tell` receives a line for each.
    """
    if not (folder / MANIFEST).exists():
        return
    entries: tuple[FileEntry, ...] = ()
    with contextlib.suppress(InvalidInput):
        manifest = read_manifest(folder)
        entries = manifest.card if manifest else ()
    entries = entries or (FileEntry(path=CARD, rows=0, sha256=""),)
    for path, sha256 in ((folder / entry.path, entry.sha256) for entry in entries):
        with contextlib.suppress(OSError):  # what cannot be read is nobody's work any more
            found = sha256_of(path)
            if found != sha256:
                kept = path.with_name(f"{path.name}.yours-{found[:8]}")
                with output_errors(folder):
                    path.replace(kept)
                tell(f"{path}: not as it was written; it is kept as {kept.name}")


def manifest_of(folder: Path, settings: Settings, dataset: DataSet, *, seconds: float) -> Manifest:
    """Return the manifest of a run, added up from its receipts. `seconds` is how long this process worked on the run.
    Raises `CountMismatch` when a shard has no receipt.
    """
    receipts = stage_receipts(dataset, folder, settings)
    config = run_configuration(dataset, settings)
    stages = add_up([settings.books, *(receipt.stages for receipt in receipts)])
    usage = sum((receipt.usage for receipt in receipts), start=Usage())
    accepted = next((line.accepted for line in stages if line.name == dataset.counted), 0)
    return Manifest(
        run_id=settings.run_id,
        dataset=settings.dataset,
        schema_versions=tuple(
            SchemaVersion(
                table=name,
                record=stored_name(table.record),
                version=version_of(table.record),
                role=table.role,
                protocol=table.protocol,
            )
            for name, table in dataset.all_tables.items()
        ),
        config_hash=settings.config_hash,
        inputs=settings.sources,
        stages=stages,
        files=tuple(sorted((*settings.files, *(f for r in receipts for f in r.files)), key=lambda f: f.path)),
        model=config.model.name,
        calls=usage.calls,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cut_replies=usage.cut_replies,
        cost=usage.cost,
        seconds=round(seconds, 1),
        calls_per_accepted_row=round(usage.calls / accepted, 2) if accepted else None,
        cost_per_accepted_row=round(usage.cost / accepted, 6) if accepted else None,
        trailforge_version=_our_version(),
        calls_by_purpose=usage.by_purpose,
    )


def finished_run(folder: Path) -> tuple[Manifest, Settings]:
    """Read manifest and settings of a finished run. Raises `InvalidInput` when the folder holds none."""
    if not folder.is_dir():
        raise InvalidInput("no such folder", file=folder)
    manifest, settings = read_manifest(folder), read_settings(folder)
    if manifest is None or settings is None:
        raise InvalidInput("holds no finished run (no manifest.json); run the command that made it again", file=folder)
    return manifest, settings


@cache
def _our_version() -> str:
    try:
        return version("trailforge")
    except PackageNotFoundError:
        return "unknown"


def check_kept(manifest: Manifest, settings: Settings, folder: Path) -> None:
    """Raise `NothingKept` for a finished run without rows, saying what took most of them and what to try."""
    if nothing := explain_nothing(manifest, settings, folder):
        first = next(iter(_reasons(manifest).most_common(1)), ("", 0))[0]
        look = f"trailforge show {shlex.quote(str(folder))} --table rejected" + f" --kind {first}" * bool(first)
        raise NothingKept(f"{folder}: {nothing}; `{look}` shows them")


def explain_nothing(manifest: Manifest, settings: Settings, folder: Path) -> str:
    """Say what rejected most of a run that kept no row, and what to try; empty for a run that kept some. A run that was
    not asked for rows, such as one that ends after its bundles, kept what it was asked for.
    """
    dataset = dataset_of(settings)
    wanted = {planned.name for planned in planned_stages(dataset, folder, settings)}
    is_asked = dataset.counted in wanted or dataset.counted not in {stage.name for stage in dataset.stages}
    if not is_asked or any(entry.path.startswith(f"{dataset.rows}/") for entry in manifest.files):
        return ""
    most = _reasons(manifest).most_common(_MOST_REASONS)
    taken = ", ".join(f"{reason} {count:,}" for reason, count in most) or "none was rejected"
    hints = {**_HINTS, **dataset.hints}
    now = [dataset.earlier_reasons.get(reason, reason) for reason, _ in most]
    tries = dict.fromkeys(hints[reason] for reason in now if reason in hints)
    kept = f"nothing was kept of {settings.items:,} {dataset.stages[0].unit} ({taken})"
    return f"{kept}: {'; '.join(tries)}" if tries else kept


def _reasons(manifest: Manifest) -> Counter[str]:
    """How many rows each reason took."""
    reasons: Counter[str] = Counter()
    for line in manifest.stages:
        reasons.update({each.reason: each.count for each in (*line.rejected, *line.failed)})
    return reasons
