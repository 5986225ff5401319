"""Episodes as tokens: the one way in which training and evaluation make them.

`protocols.episodes.run_episode` leads each episode, and takes us for a model client that also remembers tokens. What
the model sampled goes into the sequence as it was sampled; what a tool says is tokenised by itself and appended; the
sequence is never made from text again. Episodes go on by themselves: servers are asked turn by turn, and a generator in
this process gets what waits when it is free (`roll_out`); one that a framework's server samples is `roll_out_one`'s. An
episode whose search failed stops as `failed`, and none of its tokens is trained.

    prompt_ids   system prompt, question, heading of the agent's turn
    ids          agent's turn <|im_end|>    tool turn, heading    agent's turn <|im_end|>    …
    mask         1 1 1 …      0             0 0 0 …               1 1 1 …      0

An `<|im_end|>` that the model sampled itself is trained as its other tokens; the one that is put behind a closing tag,
where generation stopped, is nobody's choice. (Supervised training takes the loss on both.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trailforge.inference import ChatTurn, Client, Meter, Reply, Request, Sampling
from trailforge.protocols import EpisodeConfig, EpisodeRun, Grammar, Observation, Search, grammar_of, run_episode
from trailforge.protocols.environment import Environment, limit_observations
from trailforge.schemas import ChatMessage, ContextOverflow, InvalidInput, Message
from trailforge.training.batched_turns import EpisodeLoop, WaitingTurns, generate_turns
from trailforge.training.generation import Continuation, Generator, TurnServer
from trailforge.training.masks import escape_special, observation_ids, prompt_ids

_NO_LIMIT = 1_000_000
GoOn = Callable[[list[int], int, Sequence[str]], Awaitable[Continuation]]
"""Continues a sequence, given its ids so far, its room and its stop strings, as `Generator.generate` does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutLimits:
    """Where an episode ends."""

    max_tokens: int
    """Most tokens of everything after the prompt, results included."""
    max_observation_tokens: int = 1024
    """Most tokens of one tool turn, with its marks."""
    max_searches: int | None = None
    """Most searches; None: `max_tokens` alone ends the episode."""


def limits_of(numbers: Any, max_tokens: int) -> RolloutLimits:
    """Return the limits of an `RlConfig`, or of the `SearchSettings` of a framework's agents."""
    return RolloutLimits(
        max_tokens=max_tokens,
        max_observation_tokens=numbers.max_observation_tokens,
        max_searches=numbers.max_searches,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEpisode:
    """A finished episode. All lists but `prompt_ids` have the same length and are never empty."""

    prompt_ids: list[int]
    ids: list[int]
    """The tokens from the agent's first one on."""
    mask: list[int]
    """The mask of the loss: 1 where a token was sampled, 0 for what a tool said and for ends of turn that were put
    there.

    It is 0 everywhere in an episode that `failed`.
    """
    logprobs: list[float | None]
    """Log-probabilities of the tokens, as the sampler saw them: 0.0 where the mask is 0, None where unknown."""
    run: EpisodeRun

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation in which the agent took part."""
        return self.run.messages

    @property
    def failed(self) -> bool:
        """Whether a search ended the episode, by no fault of the agent's: it is paid nothing, and counts in no mean."""
        return self.run.stop == "failed"

    def without_loss(self) -> TokenEpisode:
        """Return the same episode, of which no token is trained."""
        return replace(self, mask=[0] * len(self.ids), logprobs=[0.0] * len(self.ids))


class _Writer:
    """One episode under way: a model client to `run_episode`, a sequence of tokens to the trainer."""

    def __init__(
        self,
        prompt: list[int],
        go_on: GoOn,
        end_ids: Collection[int],
        tokenizer: Any,
        limits: RolloutLimits,
    ) -> None:
        self.prompt_ids = prompt
        self.ids: list[int] = []
        self.mask: list[int] = []
        self.logprobs: list[float | None] = []
        self._go_on, self._end_ids, self._tokenizer, self._limits = go_on, end_ids, tokenizer, limits
        self._measured: tuple[str | None, list[int]] = None, []

    def measure(self, content: str) -> int:
        """Length in tokens of a tool turn, with the marks around it and the heading of the next turn."""
        self._measured = content, observation_ids(self._tokenizer, content)
        return len(self._measured[1])

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """The agent's next turn. Raises `ContextOverflow` when there is no room left for one."""
        if self.ids:
            turn = request.prompt[-1]
            assert isinstance(turn, ChatTurn)
            self._read(turn.content)
        room = self._limits.max_tokens - len(self.ids) - 1  # the last token is for the end of the turn
        if room < 1:
            raise ContextOverflow(f"no room within {self._limits.max_tokens} tokens")
        before = len(self.prompt_ids) + len(self.ids)
        stop = request.sampling.stop
        generated = await self._go_on([*self.prompt_ids, *self.ids], room, stop)
        text, is_cut = self._write(generated, stop)
        return Reply(
            text=text,
            finish_reason="length" if is_cut else "stop",
            prompt_tokens=before,
            completion_tokens=len(generated.ids),
            key="",
        )

    def _read(self, content: str) -> None:
        """Append a tool turn and the heading of the agent's next one; nothing when they do not fit."""
        measured, new = self._measured
        if measured != content:
            new = observation_ids(self._tokenizer, content)
        if len(self.ids) + len(new) + 2 > self._limits.max_tokens:
            raise ContextOverflow(f"the result does not fit into {self._limits.max_tokens} tokens")
        self.ids += new
        self.mask += [0] * len(new)
        self.logprobs += [0.0] * len(new)

    def _write(self, generated: Continuation, stop: Sequence[str]) -> tuple[str, bool]:
        """Append what was sampled. Returns its text up to the first stop string, and whether it was cut.

        The token that completes a stop string may hold more than that; it stays, the text behind it is nobody's.
        """
        new = generated.ids
        has_end = bool(new) and new[-1] in self._end_ids
        words = self._tokenizer.decode(new[:-1] if has_end else new, skip_special_tokens=False)
        ends = [words.find(each) + len(each) for each in stop if each in words]
        self.ids += new
        self.mask += [1] * len(new)
        self.logprobs += generated.logprobs or [None] * len(new)
        is_cut = bool(new) and not has_end and not ends
        if not has_end and not is_cut:
            self.ids.append(self._tokenizer.eos_token_id)
            self.mask.append(0)
            self.logprobs.append(0.0)
        return words[: min(ends)] if ends else words, is_cut


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
    """Make an episode for each prompt, in their order; the same prompt may stand there many times.

    A `Generator` generates in the caller's thread, in which a trainer has its model, while the episodes go on in
    `loop`. Raises what the generator raises, what `Environment.respond_or_fail` does, and `InvalidInput` for a prompt
    that is not system turn and question.
    """
    turns = WaitingTurns(len(prompts))
    grammar = grammar_of(protocol)
    known = {opening: prompt_ids(tokenizer, opening) for opening in {tuple(prompt) for prompt in prompts}}

    async def episode(number: int, prompt: Sequence[ChatMessage]) -> TokenEpisode:
        def ask(ids: list[int], room: int, stop: Sequence[str]) -> Awaitable[Continuation]:
            if isinstance(generator, TurnServer):
                return generator.go_on(ids, room, stop)
            return turns.ask(number, ids, room)

        writer = _Writer(known[tuple(prompt)], ask, generator.end_ids, tokenizer, limits)
        try:
            return await _run(prompt, grammar, environment, writer, tokenizer, limits)
        finally:
            turns.leave(number)

    running = loop.soon(_all([episode(number, prompt) for number, prompt in enumerate(prompts)], turns.leave_all))
    try:
        if not isinstance(generator, TurnServer):
            generate_turns(turns, generator, grammar.stop)
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
    """Make one episode, whose turns `go_on` samples. `end_ids`: tokens that end a turn when they are sampled.

    Raises what tools and `go_on` raise, and `InvalidInput` for a prompt that is not system turn and question.
    """
    writer = _Writer(prompt_ids(tokenizer, prompt), go_on, end_ids, tokenizer, limits)
    return await _run(prompt, grammar_of(protocol), environment, writer, tokenizer, limits)


async def _run(
    prompt: Sequence[ChatMessage],
    protocol: Grammar,
    environment: Environment,
    writer: _Writer,
    tokenizer: Any,
    limits: RolloutLimits,
) -> TokenEpisode:
    """One episode over `writer`, which counts its tokens, so that none need be estimated."""
    run = await lead_episode(
        prompt,
        protocol,
        environment,
        writer,
        limits,
        count=writer.measure,
        escape=lambda text: escape_special(tokenizer, text),
    )
    episode = TokenEpisode(
        prompt_ids=writer.prompt_ids, ids=writer.ids, mask=writer.mask, logprobs=writer.logprobs, run=run
    )
    return episode.without_loss() if episode.failed else episode


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
    """Run one episode on a row's prompt, over any client.

    `count` measures results, `escape` is applied to what they say. `max_tokens`: most tokens of the episode as the
    server counts, for a client that does not count itself. Raises what tools and client raise, and `InvalidInput` for a
    prompt that is not system turn and question.
    """
    if [message.role for message in prompt] != ["system", "user"]:
        raise InvalidInput("expected a system turn and the question", field="prompt")
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
