"""SIGTERM, which clusters send before they take a machine away: the step is ended, a checkpoint written, and we leave.

torchrun and `accelerate launch` pass the signal on and kill what still runs after 30 seconds. What has not written its
checkpoint by then goes on from the one before, as after any other end.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, NoReturn

from trailforge.training.telling import tell

EXIT_CODE = 128 + signal.SIGTERM


def stopping(every: int = 1) -> Any:
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
            self.is_asked = _anywhere(self.is_asked, args)
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
    tell(f"stopped after step {step} of {steps}; the same command with --resume goes on from here")
    raise SystemExit(EXIT_CODE)


def _anywhere(here: bool, args: Any) -> bool:
    """All processes have to stop at the same step."""
    if args.world_size == 1:
        return here
    import torch
    import torch.distributed

    told = torch.tensor([int(here)], device=args.device)
    torch.distributed.all_reduce(told, op=torch.distributed.ReduceOp.MAX)
    return bool(told.item())
