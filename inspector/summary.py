"""What a person sees at the end of a run: its figures, one of its rows, and where to look further."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, RenderableType

from trailforge.inspector import run_views, terminal
from trailforge.schemas import Manifest


def show_trajectories(manifest: Manifest, out: Path) -> None:
    """Print the figures of a run, one of its trajectories, and what to look at next."""
    example = run_views.example(out)
    view = None if example is None else terminal.trajectory(example)
    kinds = terminal.kinds_of(run_views.trajectories(out))
    _show(manifest, out, kinds, view, "mcts_trajectories", ("--kind reasoning", "--tree"))


def show_episodes(manifest: Manifest, out: Path) -> None:
    """Print the figures of a run of KG trajectories, one of its episodes, and what to look at next."""
    origins = run_views.episode_origins(out)
    view = terminal.kg_trajectory(*run_views.find_episodes(out, None, None, 1)) if origins else None
    _show(manifest, out, origins, view, "kg_trajectories", ("--count 5",))


def show_kg_questions(manifest: Manifest, out: Path) -> None:
    """Print the figures of a run of questions made of a graph, one of them, and what to look at next."""
    shapes = run_views.question_shapes(out)
    view = terminal.kg_question(*run_views.find_kg_questions(out, None, None, 1)) if shapes else None
    note = f"For the other generators: {out}/questions.jsonl\n" if shapes else ""
    _show(manifest, out, shapes, view, "kg_questions", ("--count 5",), note)


def show_bundles(manifest: Manifest, out: Path) -> None:
    """Print the figures of a run of bundles, one of its questions, and what to look at next."""
    types = run_views.question_types(out)
    view = terminal.bundle_question(*run_views.find_questions(out, None, None, 1)) if types else None
    _show(manifest, out, types, view, "bundle_questions", ("--count 5", "--bundles --count 5"))


def _show(
    manifest: Manifest,
    out: Path,
    kinds: Counter[str],
    example: RenderableType | None,
    table: str,
    more: Sequence[str],
    note: str = "",
) -> None:
    """`more`: options of `trailforge show` that are worth a look; `note`: a line of its own."""
    console = Console()
    console.print(terminal.figures(manifest, kinds))
    if example is not None:
        console.print(example)
    further = "".join(f"  trailforge show {out} {options}\n" for options in more)
    console.print(
        f"\nRows: {out}/{table}/*.parquet   Card: {out}/README.md\n{note}"
        f"Look further:\n{further}  trailforge inspect {out}\n  trailforge verify {out}",
        highlight=False,
    )
