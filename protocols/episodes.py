"""The one loop in which an agent of any `Grammar` exchanges turns with its tools, for data, training and evaluation.

The agent's words are kept as they came: nothing is cut out of them or put right, so the format is judged on what the
model wrote. Where a turn with slips is carried out all the same, `Turn.repairs` names the mends beside it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from trailforge.inference import ChatTurn, Client, Meter, Reply, Request, Sampling
from trailforge.protocols.base import estimate_tokens, tags_in
from trailforge.protocols.grammar import Grammar
from trailforge.protocols.turns import Observation, Search, Turn
from trailforge.schemas import ContextOverflow, MalformedReply, Message, Passage

StopReason = Literal["answered", "too_many_turns", "malformed", "too_long", "failed"]
"""Why an episode ended.

`answered`: the last turn answers. `too_many_turns`: the last turn that was allowed searches; the search is not
executed. `malformed`: the last turn cannot be read. `too_long`: the episode has no room left, or its last turn was cut.
`failed`: its last search failed, by no fault of the agent's (`Observation.failure`).
"""

Respond = Callable[[Search], Awaitable[Observation]]
"""The tools of an episode, as one function that answers a search.

What it raises, `run_episode` raises. A failure that ends only the episode is an `Observation.failure`; one that the
agent should read is an `Observation.message`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeConfig:
    """How an episode is sampled, and which limits end it. Defaults are DynaSearcher's (section 4.1) where it has
    any.
    """

    sampling: Sampling = field(default_factory=lambda: Sampling(temperature=1.0, top_p=0.95, max_tokens=2048))
    """How one turn is sampled. The stop strings of the grammar are added."""
    thought_tokens: int = 0
    """Tokens that a reasoning model may think before each turn, beyond the two other limits of tokens; 0: it is no
    reasoning model.

    Servers look for stop strings in thoughts too, so such a model is sent none: its turn ends at the first closing tag
    outside of its thoughts, and what it wrote after that is not read.
    """
    max_turns: int = 10
    """Most turns of the agent. In the last one it can only answer."""
    max_tokens: int = 8192
    """Most tokens of the whole episode after the question, results included, as the server counts; estimated where it
    does not.

    A reasoning model's thoughts (`thought_tokens`) do not count.
    """
    max_refusals: int = 0
    """How many malformed turns are answered with what is wrong with them. The next one ends the episode."""
    style: Literal["chat", "completion"] = "chat"
    """How the model is asked. `chat`: every turn is a turn of the chat. `completion`: the episode is one text that the
    model continues.
    """
    result_role: Literal["user", "tool"] = "user"
    """The role in which a chat server gets the results.

    A `tool` turn answers a tool call, of which there is none here, and chat templates wrap it in tags of their own.
    """
    template: str = "{{system}}\n\n{{user}}\n\n"
    """The text with which a completion begins. A chat model's own marks can be put here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeStep:
    """One turn of the agent with its result."""

    turn: Turn | None
    """The agent's turn; None when it cannot be read."""
    problem: str
    """Why the turn cannot be read; empty when it can."""
    observation: Observation | None
    """What the agent was given to read after the turn; None after an answer, and when the episode ended here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRun:
    """An episode, finished or stopped."""

    question: str
    steps: tuple[EpisodeStep, ...]
    messages: tuple[Message, ...]
    """The conversation from the system prompt on. An assistant turn has the agent's own words, mended or not."""
    stop: StopReason
    answer: str
    """The agent's answer; empty when it gave none."""
    tokens: int
    """Tokens after the question, as `EpisodeConfig.max_tokens` counts them."""
    error: str = ""
    """What failed, for an episode that ended as `failed`; else empty."""
    prompt_tokens: int = 0
    """Tokens of the prompts of all calls together, as the server counts; 0 where it does not."""
    completion_tokens: int = 0

    @property
    def searches(self) -> tuple[Search, ...]:
        """Return the searches that were executed."""
        return tuple(step.turn.search for step in self.steps if step.turn and step.turn.search and step.observation)

    @property
    def num_searches(self) -> int:
        """Return the number of searches that were executed."""
        return len(self.searches)

    @property
    def passages(self) -> tuple[Passage, ...]:
        """Return all passages that the agent was given, in that order."""
        return tuple(passage for step in self.steps if step.observation for passage in step.observation.passages)


async def run_episode(
    question: str,
    grammar: Grammar,
    respond: Respond,
    *,
    client: Client,
    model: str,
    config: EpisodeConfig = EpisodeConfig(),
    meter: Meter | None = None,
    seed: int = 0,
    sample: int = 0,
    priority: int = 0,
) -> EpisodeRun:
    """Run an episode: let the agent search until it answers or reaches a limit.

    `sample` is a number that distinguishes episodes on one question. Raises what the client and the tools raise. A
    prompt longer than the model's context ends the episode as `too_long`, unless it is the first: then the question did
    not fit.
    """
    episode = _Episode(question, grammar, config)
    while (stop := episode.stop) is None:
        request = Request(
            model=model,
            prompt=episode.prompt(),
            sampling=episode.sampling(),
            sample=sample,
            seed=seed,
            purpose=f"episode {grammar.name}",
            is_turn=True,
            priority=priority,
        )
        try:
            reply = await client.complete(request, meter)
        except ContextOverflow:
            if not episode.steps:
                raise
            stop = "too_long"
            break
        search = episode.add_turn(reply)
        if search is not None:
            found = await respond(search)
            if found.failure:
                return episode.finished("failed", found.failure)
            episode.add_observation(found)
    return episode.finished(stop)


class _Episode:
    """An episode under way."""

    def __init__(self, question: str, grammar: Grammar, config: EpisodeConfig) -> None:
        self.stop: StopReason | None = None
        self.steps: list[EpisodeStep] = []
        self._question, self._grammar, self._config = question, grammar, config
        self._messages: list[Message] = [*grammar.opening(question)]
        self._said = ""
        """All of it from the agent's first word on, as the one text that it is in style `completion`."""
        self._tokens, self._opening_tokens, self._refusals = 0, 0, 0
        self._prompt_tokens, self._completion_tokens = 0, 0

    def prompt(self) -> str | tuple[ChatTurn, ...]:
        """What the model reads next."""
        if self._config.style == "completion":
            system, user = (message.content for message in self._messages[:2])
            opening = self._config.template.replace("{{system}}", system).replace("{{user}}", user)
            return opening + self._said
        return tuple(
            ChatTurn(role=self._config.result_role if message.role == "tool" else message.role, content=message.content)
            for message in self._messages
            if message.content or message.role != "system"
        )

    def sampling(self) -> Sampling:
        """Of the next turn, which may fill what room is left."""
        config = self._config
        longest = min(config.sampling.max_tokens, config.max_tokens - self._tokens)
        return sampling_of_turn(replace(config.sampling, max_tokens=longest), self._grammar, config.thought_tokens)

    def add_turn(self, reply: Reply) -> Search | None:
        """Take what the model wrote. Returns the search to execute next, if any."""
        if self._config.thought_tokens:
            reply = end_turn(reply, self._grammar)
        text = turn_text(reply)
        end = "" if reply.is_cut else self._grammar.missing_end(text)
        self._said += text + end
        self._messages.append(Message(role="assistant", content=text + end, train=True))
        self._count(reply, text + end)
        turn, problem = self._read(text + end, reply.is_cut)
        self.steps.append(EpisodeStep(turn=turn, problem=problem, observation=None))
        if reply.is_cut:
            self.stop = "too_long"
        elif turn is not None and turn.answer is not None:
            self.stop = "answered"
        elif turn is None and self._refusals >= self._config.max_refusals:
            self.stop = "malformed"
        elif len(self.steps) >= self._config.max_turns:
            self.stop = "too_many_turns"
        elif self._tokens >= self._config.max_tokens:
            self.stop = "too_long"
        elif turn is None:
            self._refusals += 1
            self.add_observation(self._grammar.refusal(problem))
        return turn.search if turn is not None and self.stop is None else None

    def add_observation(self, observation: Observation) -> None:
        """Give it to the agent to read."""
        text = self._grammar.render_result(observation)
        self.steps[-1] = replace(self.steps[-1], observation=observation)
        self._messages.append(Message(role="tool", content=text, train=False))
        self._said += self._grammar.result_segment(text)
        self._tokens += estimate_tokens(text)
        if self._tokens >= self._config.max_tokens:
            self.stop = "too_long"

    def finished(self, stop: StopReason, error: str = "") -> EpisodeRun:
        """The episode as it is."""
        turn = self.steps[-1].turn
        return EpisodeRun(
            question=self._question,
            steps=tuple(self.steps),
            messages=tuple(self._messages),
            stop=stop,
            answer=(turn.answer or "") if turn is not None and stop == "answered" else "",
            tokens=self._tokens,
            error=error,
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
        )

    def _read(self, text: str, is_cut: bool) -> tuple[Turn | None, str]:
        if is_cut:
            return None, "cut at the limit of tokens"
        try:
            return self._grammar.parse_turn(text), ""
        except MalformedReply as error:
            return None, str(error)

    def _count(self, reply: Reply, text: str) -> None:
        """The server's count of all but the opening, which is the first prompt; estimated where it counts nothing.

        Of a reasoning model's turns what follows their thoughts is estimated: servers count those in.
        """
        self._prompt_tokens += reply.prompt_tokens
        self._completion_tokens += reply.completion_tokens
        if self._config.thought_tokens or not reply.prompt_tokens:
            self._tokens += estimate_tokens(text.rpartition("</think>")[2] if self._config.thought_tokens else text)
            return
        self._opening_tokens = self._opening_tokens or reply.prompt_tokens
        self._tokens = reply.prompt_tokens - self._opening_tokens + reply.completion_tokens


def sampling_of_turn(sampling: Sampling, grammar: Grammar, thought_tokens: int) -> Sampling:
    """Return how a turn is sampled: generation stops at the grammar's stop strings.

    With `thought_tokens` above 0 the model is a reasoning model: it gets so many tokens more, to think, and no stop
    strings.
    """
    if not thought_tokens:
        return replace(sampling, stop=grammar.stop)
    return replace(sampling, max_tokens=sampling.max_tokens + thought_tokens, stop=())


def end_turn(reply: Reply, grammar: Grammar) -> Reply:
    """Cut the reply of a model that was sent no stop strings at the end of its turn, if it has one."""
    turn = grammar.up_to_end(reply.text)
    return reply if turn is None else replace(reply, text=turn, finish_reason="stop")


def turn_text(reply: Reply) -> str:
    """Return an agent's turn as the model wrote it.

    Thoughts that a server delivers separately are the protocol's thought: they go back between the tags that the server
    removed, unchanged. A thought that nothing follows was not closed. They stay separate where the text has a thought
    of its own, since then they are what a reasoning model thought before its turn.
    """
    if not reply.reasoning or "<think>" in tags_in(reply.text):
        return reply.text
    return f"<think>{reply.reasoning}</think>{reply.text}" if reply.text else f"<think>{reply.reasoning}"
