"""Train by supervised and reinforcement learning with TRL's trainers, using masks, episodes and rewards of our own."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.training.trl.checkpoints import find_last_whole as find_last_whole
    from trailforge.training.trl.offline import train_dpo as train_dpo
    from trailforge.training.trl.offline import train_sft as train_sft
    from trailforge.training.trl.rl import VllmOptions as VllmOptions
    from trailforge.training.trl.rl import train_rl as train_rl
else:
    __getattr__, __dir__ = lazy_names(__name__)
