"""One run of a trainer, from a checkpoint or the first step to the last, or to a SIGTERM.

Clusters send SIGTERM before they take a machine away: the step is ended, a checkpoint written, and the process ends.
torchrun and `accelerate launch` pass the signal on and kill what still runs after 30 seconds. What has not written its
checkpoint by then goes on from the one before, as after any other end.
"""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from trailforge.training.processes import is_anywhere, log
from trailforge.training.trl.arguments import make_seal_callback
from trailforge.training.trl.curves import make_chart_callback

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
    """Train, with whole checkpoints and curves in `out`; what `train` of transformers returns.

    Told to stop by SIGTERM, it writes a checkpoint and ends the process, after a step that `every` divides.
    """
    stopped = make_stop_callback(every)
    for callback in (make_seal_callback(), make_chart_callback(out), stopped):
        trainer.add_callback(callback)
    done = trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if stopped.is_asked and trainer.state.global_step < trainer.state.max_steps:
        leave(trainer.state.global_step, trainer.state.max_steps)
    return done
