"""What a person sees at the end of a run: its figures, one of its rows, and where to look further."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from inspector import run_views, terminal
from schemas import Manifest


def show_trajectories(manifest: Manifest, out: Path) -> None:
    """Print the figures of a run, one of its trajectories, and what to look at next."""
    console = Console()
    console.print(terminal.figures(manifest, terminal.kinds_of(run_views.trajectories(out))))
    example = run_views.example(out)
    if example is not None:
        console.print(terminal.trajectory(example))
    console.print(
        f"\nRows: {out}/mcts_trajectories/*.parquet   Card: {out}/README.md\n"
        f"Look further:\n  trailforge show {out} --kind reasoning\n  trailforge show {out} --tree\n"
        f"  trailforge verify {out}",
        highlight=False,
    )


def show_episodes(manifest: Manifest, out: Path) -> None:
    """Print the figures of a run of KG trajectories, one of its episodes, and what to look at next."""
    console = Console()
    origins = run_views.episode_origins(out)
    console.print(terminal.figures(manifest, origins))
    if origins:
        console.print(terminal.kg_trajectory(*run_views.find_episodes(out, None, 1)))
    console.print(
        f"\nRows: {out}/kg_trajectories/*.parquet   Card: {out}/README.md\n"
        f"Look further:\n  trailforge show {out} --count 5\n  trailforge verify {out}",
        highlight=False,
    )


def show_kg_questions(manifest: Manifest, out: Path) -> None:
    """Print the figures of a run of questions made of a graph, one of them, and what to look at next."""
    console = Console()
    shapes = run_views.question_shapes(out)
    console.print(terminal.figures(manifest, shapes))
    if shapes:
        console.print(terminal.kg_question(*run_views.find_kg_questions(out, None, None, 1)))
    console.print(
        f"\nRows: {out}/kg_questions/*.parquet   Card: {out}/README.md\n"
        f"For the other generators: {out}/questions.jsonl\n"
        f"Look further:\n  trailforge show {out} --count 5\n  trailforge verify {out}",
        highlight=False,
    )


def show_bundles(manifest: Manifest, out: Path) -> None:
    """Print the figures of a run of bundles, one of its questions, and what to look at next."""
    console = Console()
    types = run_views.question_types(out)
    console.print(terminal.figures(manifest, types))
    if types:
        console.print(terminal.bundle_question(*run_views.find_questions(out, None, None, 1)))
    console.print(
        f"\nRows: {out}/bundle_questions/*.parquet   Card: {out}/README.md\n"
        f"Look further:\n  trailforge show {out} --count 5\n  trailforge show {out} --bundles --count 5\n"
        f"  trailforge verify {out}",
        highlight=False,
    )
