"""Episodes as tokens: the one rollout of training and evaluation.

`protocols.episodes.run_episode` leads each episode, and takes us for a model client that also remembers tokens. What
the model sampled goes into the sequence as it was sampled; what a tool says is tokenised by itself and appended; the
sequence is never made from text again. The episodes of `roll_out` wait for each other before each generation, so that
their turns are generated together; one of `roll_out_one` waits for nobody, as servers batch what they are asked.

    prompt_ids   system prompt, question, heading of the agent's turn
    ids          agent's turn <|im_end|>    tool turn, heading    agent's turn <|im_end|>    …
    mask         1 1 1 …      0             0 0 0 …               1 1 1 …      0

An `<|im_end|>` that the model sampled itself is trained as its other tokens; the one that is put behind a closing tag,
where generation stopped, is nobody's choice. (Supervised training takes the loss on both.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trailforge.inference import ChatTurn, Client, Meter, Reply, Request, Sampling
from trailforge.protocols import Grammar, grammar_of
from trailforge.protocols.environment import Environment, limit_observations
from trailforge.protocols.episodes import EpisodeConfig, EpisodeRun, run_episode
from trailforge.protocols.turns import Observation, Search
from trailforge.schemas import ChatMessage, ContextOverflow, InvalidInput, Message
from trailforge.training.generation import Continuation, Generator
from trailforge.training.masks import END, START, escape_special, prompt_ids

_NO_LIMIT = 1_000_000

GoOn = Callable[[list[int], int, Sequence[str]], Awaitable[Continuation]]
"""(ids so far, room, stop strings) -> the continuation, as `Generator.generate` makes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutLimits:
    """Where an episode ends."""

    max_tokens: int
    """Of everything after the prompt, results included."""
    max_observation_tokens: int = 1024
    max_searches: int | None = None
    """None: `max_tokens` alone ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEpisode:
    """A finished episode. The lists but `prompt_ids` are as long as each other and never empty."""

    prompt_ids: list[int]
    ids: list[int]
    """From the agent's first token on."""
    mask: list[int]
    """1 where a token was sampled, 0 for what a tool said and for ends of turn that were put there."""
    logprobs: list[float | None]
    """As the sampler saw them: 0.0 where the mask is 0, None where unknown."""
    run: EpisodeRun

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation that the agent took part in."""
        return self.run.messages


@dataclass(slots=True)
class _Rounds:
    """Gathers what the episodes want to have generated, until all that go on wait for it."""

    episodes: int
    _asked: dict[int, tuple[list[int], int, asyncio.Future[Continuation]]] = field(default_factory=dict)
    _all_wait: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, number: int, ids: list[int], room: int) -> Continuation:
        """Continue an episode's tokens."""
        future: asyncio.Future[Continuation] = asyncio.get_running_loop().create_future()
        self._asked[number] = ids, room, future
        self._look()
        return await future

    def leave(self) -> None:
        """An episode has ended."""
        self.episodes -= 1
        self._look()

    async def serve(self, generator: Generator, stop: Sequence[str]) -> None:
        """Generate in rounds until no episode in any process goes on. Episodes stand in the order of their numbers."""
        self._look()
        while True:
            await self._all_wait.wait()
            asked = [self._asked[number] for number in sorted(self._asked)]
            self._asked.clear()
            self._all_wait.clear()
            if not generator.goes_on(bool(asked)):
                return
            made = generator.generate([ids for ids, _, _ in asked], [room for _, room, _ in asked], stop)
            for (_, _, future), one in zip(asked, made, strict=True):
                future.set_result(one)
            if not self.episodes:
                self._look()

    def _look(self) -> None:
        if len(self._asked) == self.episodes:
            self._all_wait.set()


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


def observation_ids(tokenizer: Any, content: str) -> list[int]:
    """What stands between two turns of the agent, as `training.masks` tokenises it."""
    text = f"\n{START}user\n{content}{END}\n{START}assistant\n"
    return tokenizer.encode(text, add_special_tokens=False)


async def roll_out(
    prompts: Sequence[Sequence[ChatMessage]],
    protocol: str,
    environment: Environment,
    *,
    generator: Generator,
    tokenizer: Any,
    limits: RolloutLimits,
) -> list[TokenEpisode]:
    """An episode for each prompt, in their order; the same prompt may stand there many times.

    Raises what tools and generator raise, and `InvalidInput` for a prompt that is not system turn and question.
    """
    rounds = _Rounds(len(prompts))
    known: Mapping[tuple[ChatMessage, ...], list[int]] = {
        opening: prompt_ids(tokenizer, opening) for opening in {tuple(prompt) for prompt in prompts}
    }
    grammar = grammar_of(protocol)

    async def episode(number: int, prompt: Sequence[ChatMessage]) -> TokenEpisode:
        def ask(ids: list[int], room: int, stop: Sequence[str]) -> Awaitable[Continuation]:
            return rounds.ask(number, ids, room)

        writer = _Writer(known[tuple(prompt)], ask, generator.end_ids, tokenizer, limits)
        finished = await _run(prompt, grammar, environment, writer, tokenizer, limits)
        rounds.leave()
        return finished

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(episode(number, prompt)) for number, prompt in enumerate(prompts)]
            group.create_task(rounds.serve(generator, grammar.stop))
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
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
    """One episode, whose turns `go_on` samples. `end_ids`: tokens that end a turn when they are sampled.

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
        count=lambda text: len(tokenizer.encode(text, add_special_tokens=False)),
        escape=lambda text: escape_special(tokenizer, text),
    )
    return TokenEpisode(
        prompt_ids=writer.prompt_ids, ids=writer.ids, mask=writer.mask, logprobs=writer.logprobs, run=run
    )


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
    """One episode on a row's prompt, over any client. `count` measures results, `escape` is applied to what they say.

    `max_tokens`: of the episode as the server counts, for a client that does not count itself. Raises what tools and
    client raise, and `InvalidInput` for a prompt that is not system turn and question.
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
    tools = environment.respond(protocol, protocol.question_of(prompt[1].content))

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
