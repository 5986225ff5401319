"""Make episodes as tokens: the one way for training and evaluation.

`protocols.episodes.run_episode` runs each episode, with a model client that also records tokens. What the model sampled
is appended as it was sampled; a tool's result is tokenised by itself and appended; the sequence is never tokenised
again from text. Episodes run independently: servers are asked turn by turn, and a generator in this process gets all
waiting turns when it is free (`roll_out`); `roll_out_one` is for turns that a framework's server samples. An episode
whose search failed stops as `failed`, and none of its tokens is trained.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from trailforge.inference import Client, Sampling
from trailforge.protocols import EpisodeConfig, EpisodeRun, Grammar, Observation, Search, grammar_of, run_episode
from trailforge.protocols.browse import BROWSE
from trailforge.protocols.environment import Environment, limit_observations
from trailforge.schemas import ChatMessage, InvalidInput
from trailforge.training.batched_turns import EpisodeLoop, WaitingTurns, generate_turns
from trailforge.training.generation import Continuation, Generator, TurnServer
from trailforge.training.masks import escape_special, prompt_ids
from trailforge.training.native import roll_out_browse
from trailforge.training.token_episodes import GoOn, RolloutLimits, TokenEpisode, TokenWriter

_NO_LIMIT = 1_000_000


def roll_out(
    prompts: Sequence[Sequence[ChatMessage]],
    protocol: str,
    environment: Environment,
    *,
    generator: Generator | TurnServer,
    tokenizer: Any,
    limits: RolloutLimits,
    loop: EpisodeLoop,
) -> list[TokenEpisode]:
    """Make an episode for each prompt, in order; the same prompt may occur many times.

    A `Generator` generates in the caller's thread, in which a trainer has its model, while the episodes run in `loop`.
    Raises what the generator and `Environment.respond_or_fail` raise, and `InvalidInput` for a prompt that is not a
    system turn and a question.
    """
    turns = WaitingTurns(len(prompts))

    async def episode(number: int, prompt: Sequence[ChatMessage]) -> TokenEpisode:
        def ask(ids: list[int], room: int, stop: Sequence[str]) -> Awaitable[Continuation]:
            if isinstance(generator, TurnServer):
                return generator.go_on(ids, room, stop)
            return turns.ask(number, ids, room)

        try:
            return await roll_out_one(
                prompt,
                protocol,
                environment,
                go_on=ask,
                end_ids=generator.end_ids,
                tokenizer=tokenizer,
                limits=limits,
            )
        finally:
            turns.leave(number)

    running = loop.soon(_all([episode(number, prompt) for number, prompt in enumerate(prompts)], turns.leave_all))
    try:
        if not isinstance(generator, TurnServer):
            generate_turns(turns, generator, _stop_of(protocol))
        return running.result()
    finally:
        running.cancel()


async def _all(episodes: Sequence[Coroutine[Any, Any, TokenEpisode]], end: Callable[[], None]) -> list[TokenEpisode]:
    """What all of them give. The first error ends the others, and then is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(episode) for episode in episodes]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    finally:
        end()
    return [task.result() for task in tasks]


async def roll_out_one(
    prompt: Sequence[ChatMessage],
    protocol: str,
    environment: Environment,
    *,
    go_on: GoOn,
    end_ids: Collection[int],
    tokenizer: Any,
    limits: RolloutLimits,
) -> TokenEpisode:
    """Make one episode. `go_on` samples each of its turns (`training.token_episodes.GoOn`); `end_ids` are the tokens
    that end a turn when they are sampled. Raises what tools and `go_on` raise, and `InvalidInput` for a prompt that is
    not a system turn and a question.
    """
    if protocol == BROWSE:
        return await roll_out_browse(
            prompt, environment, go_on=go_on, end_ids=end_ids, tokenizer=tokenizer, limits=limits
        )
    writer = TokenWriter(prompt_ids(tokenizer, prompt), go_on, end_ids, tokenizer, limits)
    run = await lead_episode(
        prompt,
        grammar_of(protocol),
        environment,
        writer,
        limits,
        count=writer.measure,  # so that no token need be estimated
        escape=lambda text: escape_special(tokenizer, text),
    )
    episode = TokenEpisode(
        prompt_ids=writer.prompt_ids, ids=writer.ids, mask=writer.mask, logprobs=writer.logprobs, run=run
    )
    return episode.without_loss() if episode.failed else episode


def _stop_of(protocol: str) -> Sequence[str]:
    """Strings at which turns end; native calls end with the turn."""
    return () if protocol == BROWSE else grammar_of(protocol).stop


async def lead_episode(
    prompt: Sequence[ChatMessage],
    protocol: Grammar,
    environment: Environment,
    client: Client,
    limits: RolloutLimits,
    *,
    count: Callable[[str], int],
    escape: Callable[[str], str],
    max_tokens: int = _NO_LIMIT,
) -> EpisodeRun:
    """Run one episode on a row's prompt, with any client.

    `count` returns the number of tokens of a result, and `escape` is applied to results. `max_tokens` is the limit of
    the episode as the server counts, for a client that does not count itself. Raises what tools and client raise, and
    `InvalidInput` for a prompt that is not a system turn and a question.
    """
    if [message.role for message in prompt] != ["system", "user"]:
        raise InvalidInput(
            "expected a system turn and the question, as `trailforge training-set` writes prompts", field="prompt"
        )
    # The rules are the row's own, and the question goes in as it stands there.
    grammar = replace(
        protocol,
        system_prompt=prompt[0].content,
        user_suffix="",
        write_result=lambda found: escape(protocol.write_result(found)),
    )
    tools = environment.respond_or_fail(protocol, protocol.question_of(prompt[1].content))

    async def respond(search: Search) -> Observation:
        found = await tools(search)
        return replace(found, message=escape(found.message))

    searches = protocol.num_searches or (_NO_LIMIT if limits.max_searches is None else limits.max_searches)
    return await run_episode(
        prompt[1].content,
        grammar,
        limit_observations(respond, grammar, count, limits.max_observation_tokens),
        client=client,
        model="",
        config=EpisodeConfig(
            sampling=Sampling(max_tokens=limits.max_tokens),
            max_turns=1 + searches,
            max_tokens=max_tokens,
        ),
    )
