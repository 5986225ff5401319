"""The weight of the KL term over a training: TRL has one number for it, papers let it fall."""

from __future__ import annotations

from typing import Any

from trailforge.training.config import KlConfig


def kl_annealing(trainer: Any, kl: KlConfig) -> Any:
    """A callback that sets the weight before each optimizer step: `kl.start` at the first, `kl.end` at the last.

    It depends on the step alone, so a resumed training has the same weights.
    """
    from transformers import TrainerCallback

    class KlAnnealing(TrainerCallback):
        """Called by the trainer."""

        def on_step_begin(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            trainer.beta = kl.at(state.global_step / max(1, state.max_steps - 1))

    return KlAnnealing()
