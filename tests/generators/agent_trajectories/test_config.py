"""What a generator of agents' episodes refuses before anything is asked."""

from __future__ import annotations

import pytest

from trailforge.generators.agent_trajectories.config import AgentGeneratorConfig
from trailforge.protocols.browse import BROWSE
from trailforge.schemas import InvalidInput


def test_an_agent_with_several_tools_is_refused_with_what_to_do() -> None:
    with pytest.raises(InvalidInput, match="does not take an agent with several tools yet; draw its episodes with"):
        AgentGeneratorConfig(agent=BROWSE)
