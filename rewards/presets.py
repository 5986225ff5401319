"""The rewards of the papers by name. The equations and their constants are beside each other, one file per reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trailforge.rewards.dynasearcher import PAPER, DynaSearcherConstants
from trailforge.rewards.graph_r1 import GraphR1Constants
from trailforge.rewards.msearcher import MSearcherConstants
from trailforge.rewards.r_search import RSearchConstants
from trailforge.rewards.search_r1 import SearchR1Constants
from trailforge.schemas import InvalidInput

RewardKind = Literal["msearcher", "r_search", "dynasearcher", "graph_r1", "search_r1"]
RewardConstants = MSearcherConstants | RSearchConstants | DynaSearcherConstants | GraphR1Constants | SearchR1Constants

CONSTANTS: dict[RewardKind, type[RewardConstants]] = {
    "msearcher": MSearcherConstants,
    "r_search": RSearchConstants,
    "dynasearcher": DynaSearcherConstants,
    "graph_r1": GraphR1Constants,
    "search_r1": SearchR1Constants,
}
"""Which constants a kind of reward has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardPreset:
    """How episodes are paid: a kind of reward with its constants."""

    name: str
    """As it stands in a row's `reward_preset`."""
    kind: RewardKind
    constants: RewardConstants
    """Of the kind."""

    def __post_init__(self) -> None:
        if type(self.constants) is not CONSTANTS[self.kind]:
            raise TypeError(f"{self.kind}: expected {CONSTANTS[self.kind].__name__}, got {self.constants!r}")


REWARD_PRESETS: dict[str, RewardPreset] = {
    preset.name: preset
    for preset in (
        RewardPreset(name="msearcher", kind="msearcher", constants=MSearcherConstants()),
        RewardPreset(name="r-search", kind="r_search", constants=RSearchConstants()),
        RewardPreset(name="dynasearcher", kind="dynasearcher", constants=PAPER),
        RewardPreset(name="ragsearch", kind="graph_r1", constants=GraphR1Constants()),
        RewardPreset(name="search-r1", kind="search_r1", constants=SearchR1Constants()),
    )
}
"""Each with the paper's values. `search-r1` is the other reward of RAGSearch, for agents of that protocol."""


def reward_preset(name: str) -> RewardPreset:
    """A preset by its name. Raises `InvalidInput` when there is none."""
    if name not in REWARD_PRESETS:
        raise InvalidInput(f"no reward preset {name!r}; there are {', '.join(REWARD_PRESETS)}", field="reward_preset")
    return REWARD_PRESETS[name]
