"""`trailforge nightly`, `retain`, `check-bands`: what a schedule does every night, by hand."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

import typer

from trailforge.commands.options import Model, ModelName, RunFolder

NIGHTLY_EPILOG = """Examples:\n
    trailforge nightly --documents 'fetched/*.jsonl' --out datasets_out/nightly --kg kgs/wikidata5m --model http://127.0.0.1:8000/v1\n
    trailforge nightly … --day 2026-11-20       the window of that day, begun and killed, or missed\n
    trailforge nightly … --window-days 7 --bands nightly --keep-windows 30\n
    trailforge nightly … --verdicts 'datasets_out/nightly/*/*'   heeds what people decided on the windows before"""
RETAIN_EPILOG = """Examples:\n
    trailforge retain datasets_out/nightly --keep 30 --dry-run\n
    trailforge retain datasets_out/nightly --keep 30 --curated /data/curated"""
CHECK_EPILOG = """Examples:\n
    trailforge check-bands datasets_out/nightly/2026-11-20/mcts\n
    trailforge check-bands datasets_out/demo --bands my-bands.yaml"""
_CAPPED = "of each of the three data sets of each window"
Curated = Annotated[
    list[Path] | None,
    typer.Option(help="Folder of curated data sets beside the root's: decisions applied there count. Repeatable."),
]


def nightly_command(
    documents: Annotated[list[str], typer.Option(help="File of documents, or a pattern of files. Repeatable.")],
    out: Annotated[Path, typer.Option(help="Root of the windows; each has a folder DAY in it.")],
    day: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Day of the window. Default: today, in UTC.")
    ] = None,
    window_days: Annotated[int, typer.Option(min=1, help="Documents of so many days before it.")] = 1,
    bundles_preset: Annotated[str, typer.Option(help="Of bundles of documents.")] = "r-search",
    mcts_preset: Annotated[str, typer.Option(help="Of MCTS trajectories.")] = "msearcher",
    kg_preset: Annotated[str, typer.Option(help="Of KG trajectories.")] = "dynasearcher",
    kg: Annotated[Path | None, typer.Option(help="Folder of a graph. Without it no KG trajectories.")] = None,
    model: Model = None,
    model_name: ModelName = None,
    most_documents: Annotated[int | None, typer.Option(min=1, help="Only the first N documents.")] = None,
    most_questions: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.")] = None,
    distractors: Annotated[int, typer.Option(min=0, help="Paragraphs of a question beside its bundle's.")] = 16,
    benchmark: Annotated[list[Path] | None, typer.Option(help="Questions that must not come out. Repeatable.")] = None,
    verdicts: Annotated[
        list[str] | None,
        typer.Option(help="Folder of a curated run, its log, or a pattern of these: not made again. Repeatable."),
    ] = None,
    bands: Annotated[
        str | None, typer.Option(help="nightly, or a YAML file: figures outside end with code 12.")
    ] = None,
    max_cost: Annotated[float | None, typer.Option(min=0, help=f"Hard cap on the cost {_CAPPED}.")] = None,
    max_calls: Annotated[int | None, typer.Option(min=0, help=f"Hard cap on the model calls {_CAPPED}.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=0, help=f"Hard cap on the tokens {_CAPPED}.")] = None,
    keep_windows: Annotated[int | None, typer.Option(min=1, help="Then remove all but the newest N.")] = None,
    curated: Curated = None,
    seed: Annotated[int, typer.Option(help="Seed of sampling and wording.")] = 0,
) -> None:
    """Make bundles, MCTS and KG trajectories of the documents of some days; finish those of earlier days first."""
    from trailforge.flows.nightly import nightly
    from trailforge.inference import Caps

    due = day.date() if day else datetime.now(UTC).date()
    with _shown(out, due):
        nightly(
            documents=documents,
            out=out,
            day=due if day else None,
            window_days=window_days,
            bundles_preset=bundles_preset,
            mcts_preset=mcts_preset,
            kg_preset=kg_preset,
            kg=kg,
            model=model,
            model_name=model_name,
            most_documents=most_documents,
            most_questions=most_questions,
            distractors=distractors,
            benchmarks=benchmark,
            verdicts=verdicts,
            bands=bands,
            caps=Caps(max_cost=max_cost, max_calls=max_calls, max_tokens=max_tokens),
            keep_windows=keep_windows,
            curated=curated,
            seed=seed,
        )


@contextlib.contextmanager
def _shown(root: Path, day: date) -> Iterator[None]:
    """At the end, and before an error, say how the window stands."""
    from trailforge.flows.nights.status import windows_of

    try:
        yield
    finally:
        print("\n".join(line for window in windows_of(root) if window.day == day.isoformat() for line in window.told))


def retain_command(
    root: Annotated[Path, typer.Argument(help="Root of the windows.", metavar="ROOT")],
    keep: Annotated[int, typer.Option(min=1, help="So many of the newest complete windows stay.")],
    curated: Curated = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Remove old complete windows, but not those in use or with people's decisions that were not applied."""
    from trailforge.curation.verdicts import awaits_curation
    from trailforge.flows.nights.retention import fates, retain

    decided = fates(root, keep, is_open=awaits_curation, curated=curated or [])
    if not decided:
        print(f"{root}: nothing to remove, with the {keep} newest complete windows kept")
    for fate in decided if dry_run else retain(root, decided):
        gone = "would go" if dry_run else "removed"
        print(f"{fate.folder}: {f'stays: {fate.kept_for}' if fate.kept_for else gone}")


def check_bands_command(
    folder: RunFolder,
    bands: Annotated[str, typer.Option(help="nightly, or a YAML file.")] = "nightly",
) -> None:
    """Hold yield and cost of a finished run against their bands; code 12 when one is outside."""
    from trailforge.flows.nights.bands import bands_of, outside
    from trailforge.pipelines.runs.finish import read_manifest
    from trailforge.presets import declared_datasets, load_bands
    from trailforge.schemas import InvalidInput, OutOfBand

    held = bands_of(load_bands(bands), source=bands, datasets=tuple(declared_datasets()))
    manifest = read_manifest(folder)
    if manifest is None:
        raise InvalidInput("holds no finished run", file=folder)
    if breaches := outside(manifest, held):
        raise OutOfBand("; ".join(breach.told for breach in breaches))
    print(f"{manifest.run_id}: {len(held.get(manifest.dataset, {}))} figures, all within their bands")


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.command("nightly", epilog=NIGHTLY_EPILOG)(nightly_command)
    root.command("retain", epilog=RETAIN_EPILOG)(retain_command)
    root.command("check-bands", epilog=CHECK_EPILOG)(check_bands_command)
