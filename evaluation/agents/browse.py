"""The research agent: it searches pages, opens them and finds words in them, over up to hundreds of calls.

--agent browse            native tool calls; the preset says `agents: {browse: {writing: tags}}` for tags in text
"""

from __future__ import annotations

from dataclasses import dataclass

from trailforge.evaluation.agents import Agent, AgentRun, AgentTools
from trailforge.evaluation.agents.free_form import sampling_of
from trailforge.protocols.browse import (
    BROWSE,
    WORDS,
    BrowseConfig,
    BrowseRun,
    plain_text,
    read_rule,
    run_browse_episode,
    writing_of,
)
from trailforge.schemas import (
    AgentSearch,
    BrowseCall,
    BrowseRecord,
    InvalidInput,
    Message,
    Writing,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseAgentConfig:
    """Settings of a research agent: how the model is prompted, and how many calls and tokens an episode may take."""

    writing: Writing = "native"
    """How the agent writes its calls. `native` offers tools to a server that takes them; `tags` puts calls in the text,
    for any server.
    """
    context: str = "all"
    """What the model is shown: `all`; `newest:K`, the newest K results; or `summary:TOKENS`, its own summary after so
    many tokens.
    """
    sends_thoughts: bool = True
    """Whether earlier thoughts are sent back to the model, as `reasoning_content`."""
    max_calls: int = 300
    """Most calls of tools in an episode."""
    max_at_once: int = 8
    """Most calls of one turn."""
    max_tokens: int = 131_072
    """Most tokens of a prompt together with the turn that answers it."""
    max_spent: int | None = None
    """Tokens of all prompts and replies of an episode together; None sets no cap."""
    turn_tokens: int = 4096
    """Most tokens of one turn, its thought included."""
    max_refusals: int = 3
    """How many turns that cannot be read are answered with what is wrong. The next one ends the episode."""
    temperature: float = 0.7
    top_p: float = 0.95

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for numbers that leave no room, and for a rule or a writing that there is not."""
        read_rule(self.context)
        writing_of(self.writing)
        for name in ("max_calls", "max_at_once", "turn_tokens"):
            if getattr(self, name) < 1:
                raise InvalidInput("has to be 1 or more", field=name)
        if self.max_tokens < 2 * self.turn_tokens:
            raise InvalidInput("has to be twice turn_tokens or more", field="max_tokens")

    def episode(self, top_k: int) -> BrowseConfig:
        """Return these settings as the configuration of the episode loop, with `top_k` results a search."""
        return BrowseConfig(
            writing=self.writing,
            context=read_rule(self.context),
            sends_thoughts=self.sends_thoughts,
            sampling=sampling_of(self.temperature, self.top_p, self.turn_tokens),
            max_calls=self.max_calls,
            max_at_once=self.max_at_once,
            max_tokens=self.max_tokens,
            max_spent=self.max_spent,
            max_refusals=self.max_refusals,
            top_k=top_k,
        )


async def run(question: str, tools: AgentTools, config: BrowseAgentConfig) -> AgentRun:
    """Run one episode. Raises `InvalidInput` where there are no pages to open, or where the model takes only a single
    text and no chat.
    """
    environment, asker = tools.environment, tools.asker
    if environment.pages is None:
        raise InvalidInput(f"{BROWSE} opens pages; give an index, documents or a search server (not the web itself)")
    if asker.style != "chat":
        raise InvalidInput(f"{BROWSE} talks in turns of a chat; set style: chat", field="style")
    done = await run_browse_episode(
        question,
        environment.pages,
        client=asker.client,
        model=asker.model,
        config=config.episode(environment.top_k),
        count=tools.count,
        meter=asker.meter,
        seed=asker.seed,
        sample=tools.sample,
        priority=asker.priority,
    )
    return record_run(done)


def record_run(done: BrowseRun) -> AgentRun:
    """Convert an episode of the research loop to the record that every agent returns."""
    return AgentRun(
        answer=done.answer,
        stop=done.stop,
        messages=plain_messages(done.record),
        searches=tuple(_search(call, done) for call in done.record.calls if call.tool == "search"),
        shown=done.shown,
        browse=done.record,
    )


def plain_messages(record: BrowseRecord) -> tuple[Message, ...]:
    """Return the conversation as plain text turns; native tool calls are written in each turn as tags would write
    them.
    """
    return tuple(
        Message(role=each.role, content=plain_text(each, record.writing), train=each.role == "assistant")
        for each in record.messages
    )


def _search(call: BrowseCall, done: BrowseRun) -> AgentSearch:
    result = done.results[done.record.calls.index(call)]
    return AgentSearch(
        query=call.query,
        document_ids=call.pages,
        titles=call.titles,
        scores=tuple(hit.score for hit in result.hits),
        context_tokens=call.tokens,
        seconds=call.seconds,
    )


AGENT = Agent(name=BROWSE, config=BrowseAgentConfig, run=run, protocol=BROWSE, words=WORDS)
