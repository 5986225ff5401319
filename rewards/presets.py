"""The rewards of the papers by name. The equations and their constants are beside each other, one file per reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from trailforge.rewards.dynasearcher import PAPER, DynaSearcherConstants
from trailforge.rewards.graph_r1 import GraphR1Constants
from trailforge.rewards.msearcher import MSearcherConstants
from trailforge.rewards.r_search import RSearchConstants
from trailforge.rewards.search_r1 import SearchR1Constants
from trailforge.schemas import InvalidInput

RewardConstants = MSearcherConstants | RSearchConstants | DynaSearcherConstants | GraphR1Constants | SearchR1Constants


def kind_of(constants: type[RewardConstants]) -> str:
    """What a kind of reward is called: as its file."""
    return constants.__module__.rpartition(".")[2]


CONSTANTS: dict[str, type[RewardConstants]] = {kind_of(each): each for each in get_args(RewardConstants)}
"""Which constants a kind of reward has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardPreset:
    """How episodes are paid: a kind of reward with its constants."""

    name: str
    """As it stands in a row's `reward_preset`."""
    constants: RewardConstants
    """They say which kind."""

    @property
    def kind(self) -> str:
        """Of reward."""
        return kind_of(type(self.constants))


REWARD_PRESETS: dict[str, RewardPreset] = {
    preset.name: preset
    for preset in (
        RewardPreset(name="msearcher", constants=MSearcherConstants()),
        RewardPreset(name="r-search", constants=RSearchConstants()),
        RewardPreset(name="dynasearcher", constants=PAPER),
        RewardPreset(name="ragsearch", constants=GraphR1Constants()),
        RewardPreset(name="search-r1", constants=SearchR1Constants()),
    )
}
"""Each with the paper's values. `search-r1` is the other reward of RAGSearch, for agents of that protocol."""


def reward_preset(name: str) -> RewardPreset:
    """A preset by its name. Raises `InvalidInput` when there is none."""
    if name not in REWARD_PRESETS:
        raise InvalidInput(f"no reward preset {name!r}; there are {', '.join(REWARD_PRESETS)}", field="reward_preset")
    return REWARD_PRESETS[name]
