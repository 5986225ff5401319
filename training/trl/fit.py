"""One run of a trainer, from a checkpoint or the first step to the last, or to a SIGTERM, and its figures.

Clusters send SIGTERM before they take a machine away: the step is ended, a checkpoint written, and the process ends.
torchrun and `accelerate launch` pass the signal on and kill what still runs after 30 seconds. What has not written its
checkpoint by then goes on from the one before, as after any other end.
"""

from __future__ import annotations

import csv
import io
import math
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from trailforge.pipelines.engine.files import write_text
from trailforge.training.processes import is_anywhere, log
from trailforge.training.trl.arguments import make_seal_callback

EXIT_CODE = 128 + signal.SIGTERM


def make_stop_callback(every: int = 1) -> Any:
    """A callback; `is_asked` says whether the training has ended for a signal, in whichever of its processes.

    `every`: it ends after a step that this divides.
    """
    from transformers import TrainerCallback

    class Stopping(TrainerCallback):
        """Called by the trainer."""

        def __init__(self) -> None:
            self.is_asked = False
            self._earlier: Any = None

        def on_train_begin(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            if threading.current_thread() is threading.main_thread():
                self._earlier = signal.signal(signal.SIGTERM, self._ask)

        def on_step_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            self.is_asked = is_anywhere(self.is_asked, args.device)
            if self.is_asked and state.global_step % every == 0:
                control.should_save = control.should_training_stop = True

        def on_train_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            if self._earlier is not None:
                signal.signal(signal.SIGTERM, self._earlier)

        def _ask(self, number: int, frame: FrameType | None) -> None:
            self.is_asked = True

    return Stopping()


def leave(step: int, steps: int) -> NoReturn:
    """End the process as one that was told to."""
    log(f"stopped after step {step} of {steps}; the same command with --resume goes on from here")
    raise SystemExit(EXIT_CODE)


def fit(trainer: Any, out: Path, checkpoint: Path | None, *, every: int = 1) -> Any:
    """Train, with whole checkpoints and figures in `out`; what `train` of transformers returns.

    Told to stop by SIGTERM, it writes a checkpoint and ends the process, after a step that `every` divides.
    """
    stopped = make_stop_callback(every)
    for callback in (make_seal_callback(), make_figures_callback(out), stopped):
        trainer.add_callback(callback)
    done = trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if stopped.is_asked and trainer.state.global_step < trainer.state.max_steps:
        leave(trainer.state.global_step, trainer.state.max_steps)
    return done


FIGURES = "curves.csv"
_EVERY_S = 60.0
"""The table is written anew with checkpoints, but not with each of a training whose steps are fast."""


def figures_by_step(history: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    """The trainer's log with a row for each step, in their order; what is told once more counts the last time."""
    rows: dict[int, dict[str, float]] = {}
    for entry in history:
        known = {name: float(value) for name, value in entry.items() if isinstance(value, int | float)}
        rows.setdefault(int(entry["step"]), {}).update(known)
    return [rows[step] | {"step": step} for step in sorted(rows)]


def write_figures(history: Sequence[Mapping[str, Any]], out: Path) -> None:
    """Write all figures of each step as a table."""
    rows = figures_by_step([entry for entry in history if "train_runtime" not in entry])
    if not rows:
        return
    table = io.StringIO()
    names = ["step", *sorted({name for row in rows for name in row} - {"step"})]
    writer = csv.DictWriter(table, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(out / FIGURES, table.getvalue())


def make_figures_callback(out: Path) -> Any:
    """A callback that writes the figures with checkpoints, and at the end."""
    from transformers import TrainerCallback

    class Writing(TrainerCallback):
        """Called by the trainer."""

        def __init__(self) -> None:
            self._written_at = -math.inf

        def on_save(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            if state.is_world_process_zero and time.monotonic() - self._written_at > _EVERY_S:
                write_figures(state.log_history, out)
                self._written_at = time.monotonic()

        def on_train_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            if state.is_world_process_zero:
                write_figures(state.log_history, out)

    return Writing()
