"""Episodes as tokens, on a loop of their own."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from trailforge.training.batched_turns import EpisodeLoop
from trailforge.training.rollouts import roll_out
from trailforge.training.token_episodes import TokenEpisode


def rolled_out(*arguments: Any, **options: Any) -> list[TokenEpisode]:
    """As `roll_out`."""
    with closing(EpisodeLoop()) as loop:
        return roll_out(*arguments, **options, loop=loop)
