"""`trailforge mcts-trajectories`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trailforge.commands.runs import MadeOf, RunCommand

_TRAJECTORIES = RunCommand(
    dataset="mcts_trajectories",
    preset="msearcher",
    presets="msearcher (production), demo (embedded model)",
    epilog="""Examples:\n
    trailforge mcts-trajectories --preset demo --questions sample_data/musique_style_questions.jsonl --out out/demo\n
    trailforge mcts-trajectories --model http://127.0.0.1:8000/v1 --questions train.jsonl.gz --out out/musique\n
    trailforge mcts-trajectories --dry-run --questions train.jsonl.gz            what it would take\n
    trailforge mcts-trajectories … (the same line again) goes on where it stopped and pays for nothing twice.\n
    trailforge mcts-trajectories … --runner PortableRunner --beam-option job_endpoint=127.0.0.1:8099\n
    The password of a shared ledger comes from TRAILFORGE_LEDGER_PASSWORD.\n
    The key of a hosted model comes from TRAILFORGE_API_KEY (or OPENAI_API_KEY).""",
)


def _made_of(
    questions: Annotated[
        Path, typer.Option(help="Questions: MuSiQue, HotpotQA or 2WikiMultiHopQA as published, or our JSONL; .gz too.")
    ],
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N valid questions.")] = None,
) -> MadeOf:
    """Turn multi-hop questions into correct and self-reflective search trajectories (MSearcher)."""
    return MadeOf(files=(questions,), limit=limit)


def register(app: typer.Typer) -> None:
    """Add the command."""
    _TRAJECTORIES.add_to(app, _made_of)
