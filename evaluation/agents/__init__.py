"""Agents that answer questions by searching, one file each behind one declaration, loaded by name.

agent = load_agent("search_o1")
run = await agent.run("Who …?", tools, agent.config())
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from trailforge.doors import lazy_names
from trailforge.inference import Asker
from trailforge.protocols import R_SEARCH, Searched
from trailforge.protocols.environment import Environment
from trailforge.schemas import (
    AgentCall,
    AgentSearch,
    AgentStop,
    BrowseRecord,
    InvalidInput,
    Message,
    Question,
    estimate_tokens,
)

if TYPE_CHECKING:
    from trailforge.evaluation.agents.browse import plain_messages as plain_messages
    from trailforge.evaluation.agents.browse import record_run as record_run
    from trailforge.evaluation.agents.free_form import AGAIN as AGAIN
    from trailforge.evaluation.agents.free_form import LOST as LOST
    from trailforge.evaluation.agents.free_form import build_exchange as build_exchange
    from trailforge.evaluation.agents.free_form import record_search as record_search
    from trailforge.evaluation.agents.published import SEARCH_R1_INVALID as SEARCH_R1_INVALID
    from trailforge.evaluation.agents.published import published_grammar as published_grammar
    from trailforge.evaluation.agents.reading_budget import CountTokens as CountTokens
    from trailforge.evaluation.agents.reading_budget import load_tokenizer as load_tokenizer
    from trailforge.evaluation.agents.reading_budget import open_tokenizer as open_tokenizer
    from trailforge.evaluation.agents.search_o1 import FOUND as FOUND
    from trailforge.evaluation.agents.search_o1 import MARKS as MARKS
    from trailforge.evaluation.agents.search_o1 import NO_MORE_SEARCHES as NO_MORE_SEARCHES
    from trailforge.evaluation.agents.search_o1 import READING as READING
    from trailforge.evaluation.agents.search_o1 import SEARCHED_BEFORE as SEARCHED_BEFORE
else:
    __getattr__, __dir__ = lazy_names(__name__)


AGENTS = ("single_shot", "search_o1", "graph_search", "browse")
"""Names of the agents that have a file of their own. The protocols of `protocols` are agents too
(`protocol_agents`).
"""
_CHOOSE = "Answer with the letters of all correct options, as `A, C`, or with the one letter where one is correct."
_LIST = "Several answers are asked for: give all of them, with semicolons between them, and nothing else."


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTools:
    """The tools with which an agent answers one question: its model, its documents and perhaps a knowledge graph."""

    environment: Environment
    """What the agent searches. Its `top_k` is the number of passages that a search shows."""
    asker: Asker
    """The agent's model, with seed and meter. Its `sample` tells several episodes on one question apart."""
    sample: int = 0
    count: Callable[[str], int] = estimate_tokens
    """Counts the tokens of a text: by the model's tokenizer where that is known, else by an estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """What an agent did on one question: its messages, searches, calls and answer."""

    answer: str
    """The agent's answer; empty when it gave none."""
    stop: AgentStop
    messages: tuple[Message, ...]
    """The whole conversation. An agent that holds several conversations gives the one that answers."""
    searches: tuple[AgentSearch, ...]
    calls: tuple[AgentCall, ...] = ()
    """The model calls beside the conversation, in the order in which they were made."""
    shown: tuple[str, ...] = ()
    """What each search gave to read, in the words that a model was shown; empty where that is not known, as in stored
    runs.
    """
    browse: BrowseRecord | None = None
    """The whole episode of an agent with several tools; None for other agents."""

    @property
    def context_tokens(self) -> int:
        """Return the number of tokens of everything that the agent was given to read."""
        if self.browse is not None:
            return sum(call.tokens for call in self.browse.calls)
        return sum(search.context_tokens for search in self.searches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The declaration of an agent: its name, its settings, and the function that answers a question by searching."""

    name: str
    config: type[Any]
    """The class of the agent's settings, a frozen dataclass. Its defaults are those of the agent's paper where no field
    says otherwise.
    """
    run: Callable[[str, AgentTools, Any], Coroutine[Any, Any, AgentRun]]
    """Runs the agent on a question with its tools and settings.

    Raises what tools and client raise. A reply that cannot be read ends the episode and is no error.
    """
    searches: Searched | Literal["any"] = "documents"
    """What the agent searches. `any`: documents, and a knowledge graph where there is one."""
    protocol: str = ""
    """The protocol of `protocols` that the agent's conversation follows; empty: none."""
    words: str = ""
    """The agent's rules, where they stand in no prompt file and no grammar. With other rules it counts as another
    agent.
    """

    def check_graph(self, has_graph: bool) -> None:
        """Raise `InvalidInput` when the agent needs a knowledge graph and there is none, or when there is one that it
        does not use.
        """
        if self.searches == "graph" and not has_graph:
            raise InvalidInput(f"{self.name} searches a knowledge graph too; give one", field="--kg")
        if has_graph and self.searches not in ("graph", "any"):
            raise InvalidInput(f"{self.name} searches no knowledge graph; leave it out", field="--kg")


def load_agent(name: str) -> Agent:
    """Load the declaration of an agent by its name. Raises `InvalidInput`, with the list of agents, for an unknown
    name.
    """
    if name in AGENTS:
        return import_module(f"{__name__}.{name}").AGENT
    protocol_agents = import_module(f"{__name__}.protocol_agents").AGENTS
    if name not in protocol_agents:
        raise InvalidInput(f"no agent {name!r}; there are {', '.join([*AGENTS, *protocol_agents])}", field="agent")
    return protocol_agents[name]


def ask_for(question: Question, protocol: str) -> str:
    """Return the text of a question as an agent is given it.

    It says how options are to be chosen, unless the rules of the agent's protocol say so, and that several answers are
    wanted where they are.
    """
    if question.kind == "options" and protocol != R_SEARCH.name:
        return f"{question.question}\n{_CHOOSE}"
    return f"{question.question}\n{_LIST}" if question.kind == "set" else question.question
