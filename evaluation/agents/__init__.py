"""Agents that answer questions by searching, one file each behind one declaration, loaded by name."""

from importlib import import_module

from trailforge.evaluation.agents.declaration import Agent, AgentRun, AgentTools
from trailforge.schemas import InvalidInput

AGENTS = ("single_shot", "search_o1", "graph_search")
"""Those that have a file of their own; the protocols of `protocols` are agents too (`protocol_agents`)."""

__all__ = ["AGENTS", "Agent", "AgentRun", "AgentTools", "load_agent"]


def load_agent(name: str) -> Agent:
    """The declaration of an agent. Raises `InvalidInput` that lists those there are."""
    if name in AGENTS:
        return import_module(f"{__name__}.{name}").AGENT
    protocol_agents = import_module(f"{__name__}.protocol_agents").AGENTS
    if name not in protocol_agents:
        raise InvalidInput(f"no agent {name!r}; there are {', '.join([*AGENTS, *protocol_agents])}", field="agent")
    return protocol_agents[name]
