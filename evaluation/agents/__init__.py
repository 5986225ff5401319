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
    from trailforge.evaluation.agents.free_form import AGAIN as AGAIN
    from trailforge.evaluation.agents.free_form import LOST as LOST
    from trailforge.evaluation.agents.free_form import build_exchange as build_exchange
    from trailforge.evaluation.agents.free_form import record_search as record_search
    from trailforge.evaluation.agents.published import SEARCH_R1_INVALID as SEARCH_R1_INVALID
    from trailforge.evaluation.agents.published import published_grammar as published_grammar
    from trailforge.evaluation.agents.search_o1 import FOUND as FOUND
    from trailforge.evaluation.agents.search_o1 import MARKS as MARKS
    from trailforge.evaluation.agents.search_o1 import NO_MORE_SEARCHES as NO_MORE_SEARCHES
    from trailforge.evaluation.agents.search_o1 import READING as READING
    from trailforge.evaluation.agents.search_o1 import SEARCHED_BEFORE as SEARCHED_BEFORE
    from trailforge.evaluation.difficulty import MeasuredDifficulty as MeasuredDifficulty
    from trailforge.evaluation.difficulty import measure_difficulty as measure_difficulty
    from trailforge.evaluation.failures import TAGS as TAGS
    from trailforge.evaluation.failures import asked_at as asked_at
    from trailforge.evaluation.failures import is_right as is_right
    from trailforge.evaluation.failures import read_texts as read_texts
    from trailforge.evaluation.failures import tag_failures as tag_failures
    from trailforge.evaluation.metrics import EpisodeSetting as EpisodeSetting
    from trailforge.evaluation.metrics import by_question as by_question
    from trailforge.evaluation.metrics import make_episode as make_episode
    from trailforge.evaluation.metrics import score_run as score_run
    from trailforge.evaluation.reading_budget import CountTokens as CountTokens
    from trailforge.evaluation.reading_budget import load_tokenizer as load_tokenizer
    from trailforge.evaluation.reading_budget import open_tokenizer as open_tokenizer
else:
    __getattr__, __dir__ = lazy_names(__name__)


AGENTS = ("single_shot", "search_o1", "graph_search", "browse")
"""Those that have a file of their own; the protocols of `protocols` are agents too (`protocol_agents`)."""
_CHOOSE = "Answer with the letters of all correct options, as `A, C`, or with the one letter where one is correct."
_LIST = "Several answers are asked for: give all of them, with semicolons between them, and nothing else."


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTools:
    """What an agent answers one question with."""

    environment: Environment
    """What it searches. Its `top_k` is how many passages a search gives."""
    asker: Asker
    """Its model, with seed and meter; `sample` tells several episodes on one question apart."""
    sample: int = 0
    count: Callable[[str], int] = estimate_tokens
    """Tokens of a text: by the model's tokenizer where that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """What an agent did."""

    answer: str
    """Empty unless it gave one."""
    stop: AgentStop
    messages: tuple[Message, ...]
    """The conversation, whole; of an agent that holds several, the one that answers."""
    searches: tuple[AgentSearch, ...]
    calls: tuple[AgentCall, ...] = ()
    """Beside the conversation, in the order in which they were made."""
    shown: tuple[str, ...] = ()
    """What each search gave to read, as a model was given it; empty: not known, as of stored runs."""
    browse: BrowseRecord | None = None
    """The whole episode of an agent with several tools; None for others."""

    @property
    def context_tokens(self) -> int:
        """How long all is together that it was given to read."""
        if self.browse is not None:
            return sum(call.tokens for call in self.browse.calls)
        return sum(search.context_tokens for search in self.searches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One way to answer questions by searching."""

    name: str
    config: type[Any]
    """A frozen dataclass of its numbers; the defaults are its paper's where no field says otherwise."""
    run: Callable[[str, AgentTools, Any], Coroutine[Any, Any, AgentRun]]
    """Question -> what it did. Raises what tools and client raise; a reply that cannot be read is an end, no error."""
    searches: Searched | Literal["any"] = "documents"
    """`any`: documents, and a knowledge graph where there is one."""
    protocol: str = ""
    """Of `protocols`, that its conversation follows; empty: none."""
    words: str = ""
    """Its rules, where they stand in no prompt file and no grammar: with other words it is another agent."""

    def check_graph(self, has_graph: bool) -> None:
        """Raises `InvalidInput` where a knowledge graph is missing, or given in vain."""
        if self.searches == "graph" and not has_graph:
            raise InvalidInput(f"{self.name} searches a knowledge graph too; give one", field="--kg")
        if has_graph and self.searches not in ("graph", "any"):
            raise InvalidInput(f"{self.name} searches no knowledge graph; leave it out", field="--kg")


def load_agent(name: str) -> Agent:
    """The declaration of an agent. Raises `InvalidInput` that lists those there are."""
    if name in AGENTS:
        return import_module(f"{__name__}.{name}").AGENT
    protocol_agents = import_module(f"{__name__}.protocol_agents").AGENTS
    if name not in protocol_agents:
        raise InvalidInput(f"no agent {name!r}; there are {', '.join([*AGENTS, *protocol_agents])}", field="agent")
    return protocol_agents[name]


def ask_for(question: Question, protocol: str) -> str:
    """A question as an agent is asked it: with how options are chosen, unless its protocol's rules say so, and that
    several answers are wanted."""
    if question.kind == "options" and protocol != R_SEARCH.name:
        return f"{question.question}\n{_CHOOSE}"
    return f"{question.question}\n{_LIST}" if question.kind == "set" else question.question
