"""One run of a trainer: from a checkpoint or from the first step to the last, or to where it is told to stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trailforge.training.arguments import sealing
from trailforge.training.curves import charting
from trailforge.training.stopping import leave, stopping


def fit(trainer: Any, out: Path, checkpoint: Path | None, *, every: int = 1) -> Any:
    """Train, with whole checkpoints and curves in `out`; what `train` of transformers returns.

    Told to stop by SIGTERM, it writes a checkpoint and ends the process, after a step that `every` divides.
    """
    stopped = stopping(every)
    for callback in (sealing(), charting(out), stopped):
        trainer.add_callback(callback)
    done = trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if stopped.is_asked and trainer.state.global_step < trainer.state.max_steps:
        leave(trainer.state.global_step, trainer.state.max_steps)
    return done
