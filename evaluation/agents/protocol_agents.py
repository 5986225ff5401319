"""Make an agent of each protocol in `protocols`: one conversation by `run_episode`, prompted in our words or in the
published ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from trailforge.evaluation.agents import Agent, AgentRun, AgentTools
from trailforge.evaluation.agents.free_form import Recorder, sampling_of
from trailforge.evaluation.agents.published import TEMPLATE, PublishedGrammar, published_grammar
from trailforge.protocols import (
    KG_SEARCH,
    PROTOCOLS,
    R_SEARCH,
    SEARCH_R1,
    EpisodeConfig,
    Grammar,
    run_episode,
    system_prompt,
    with_searches,
    with_turns,
)
from trailforge.schemas import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolAgentConfig:
    """Settings of an agent that follows a protocol. The default of five searches is RAGSearch's (appendix B)."""

    prompt: Literal["ours", "published"] = "ours"
    """Which prompts are used. `published`: those with which released checkpoints were trained
    (`evaluation.agents.published`).
    """
    chat: bool = False
    """Whether the published prompt is sent as turns of a chat, for models that were not trained on it.

    Released checkpoints were trained on one text, which a chat cannot give them; if this is off, the prompt goes to the
    server's completions.
    """
    published_system: str = ""
    """Text in the place of the system turn that comes with the published prompt; empty: that system turn."""
    max_searches: int = 5
    """Most searches of an episode, with one more turn left to answer. A protocol with a fixed number keeps that
    number.
    """
    max_tokens: int = 8192
    """Most tokens of an episode, as `EpisodeConfig.max_tokens`."""
    turn_tokens: int = 2048
    thought_tokens: int = 0
    """Tokens that a reasoning model may think before each turn, as `EpisodeConfig.thought_tokens`."""
    max_refusals: int = 0
    """How many malformed turns are answered, as `EpisodeConfig.max_refusals`. Published agents are told, or not, as in
    their training.
    """
    temperature: float = 0.7
    top_p: float = 1.0

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for numbers that leave no room."""
        if self.max_searches < 0 or self.turn_tokens < 1 or self.max_tokens < 1:
            raise InvalidInput("expected max_searches of 0 or more, turn_tokens and max_tokens of 1 or more")


async def run_protocol(question: str, tools: AgentTools, config: ProtocolAgentConfig, *, protocol: str) -> AgentRun:
    """Run one episode of a protocol. Raises `InvalidInput` when the protocol lacks the tools, or has no published
    prompt where that is asked for.
    """
    grammar = _grammar(protocol, tools, config)
    tools.environment.check(grammar)
    asker, recorder = tools.asker, Recorder(tools)
    run = await run_episode(
        question,
        grammar,
        recorder.recorded(tools.environment.respond(grammar, question, asker.meter), grammar.render_result),
        client=asker.client,
        model=asker.model,
        config=_episode_config(grammar, config, asker.style),
        meter=asker.meter,
        seed=asker.seed,
        sample=tools.sample,
        priority=asker.priority,
    )
    messages = [message for message in run.messages if message.content or message.role != "system"]
    return recorder.run(run.answer, run.stop, messages)


def _grammar(protocol: str, tools: AgentTools, config: ProtocolAgentConfig) -> Grammar:
    if config.prompt == "published":
        grammar = published_grammar(protocol)
        system = "" if config.chat else config.published_system or grammar.system_prompt
        return replace(grammar, system_prompt=system)
    if protocol == KG_SEARCH.name:
        return with_turns(config.max_searches + 1)
    if protocol == SEARCH_R1.name:
        return with_searches(config.max_searches)
    if protocol == R_SEARCH.name:
        return replace(R_SEARCH, system_prompt=system_prompt(tools.environment.top_k))
    return PROTOCOLS[protocol]


def _episode_config(
    grammar: Grammar, config: ProtocolAgentConfig, style: Literal["chat", "completion"]
) -> EpisodeConfig:
    searches = config.max_searches if grammar.num_searches is None else grammar.num_searches
    episode = EpisodeConfig(
        sampling=sampling_of(config.temperature, config.top_p, config.turn_tokens),
        thought_tokens=config.thought_tokens,
        max_turns=searches + 1,
        max_tokens=config.max_tokens,
        max_refusals=config.max_refusals,
        style=style,
    )
    if not isinstance(grammar, PublishedGrammar):
        return episode
    episode = replace(episode, max_refusals=searches + 1 if grammar.invalid else 0)
    return replace(episode, style="chat") if config.chat else replace(episode, style="completion", template=TEMPLATE)


AGENTS = {
    name: Agent(
        name=name,
        config=ProtocolAgentConfig,
        run=partial(run_protocol, protocol=name),
        searches=grammar.searches,
        protocol=name,
    )
    for name, grammar in PROTOCOLS.items()
}
"""The agents by name, which is the protocol's."""
