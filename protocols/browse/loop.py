"""Run the episode of a research agent: it calls tools until it answers, within limits of tokens and calls.

run = await run_browse_episode(question, tools, client=client, model="…", config=BrowseConfig(writing="native"))

Everything follows from the replies and the pages: an episode that is killed and run again finds its finished calls in
the client's ledger, and ends in the same bytes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from trailforge.inference import ChatTurn, Client, LongChat, Meter, Reply, Request, Sampling
from trailforge.protocols.base import estimate_tokens
from trailforge.protocols.browse.actions import (
    BROWSE,
    BrowseTurn,
    Call,
    Citation,
    FindAction,
    OpenAction,
    SearchAction,
    call_name,
)
from trailforge.protocols.browse.context import ContextRule, Windows, as_sent
from trailforge.protocols.browse.figures import Gold, count_figures
from trailforge.protocols.browse.mistakes import find_mended
from trailforge.protocols.browse.native import mended_ids
from trailforge.protocols.browse.results import (
    ANSWER_NOW,
    NO_CALLS_LEFT,
    NO_ROOM_LEFT,
    NO_ROOM_NOW,
    PUT_OFF,
    TOO_MANY_AT_ONCE,
    CallResult,
    calls_left,
    carry_out,
    result_text,
)
from trailforge.protocols.browse.writings import SUMMARY_REQUEST, writing_of
from trailforge.protocols.episodes import StopReason, turn_text
from trailforge.retrieval import PageTools
from trailforge.schemas import BrowseCall, BrowseRecord, ContextOverflow, MalformedReply, NativeMessage, Writing

CountTokens = Callable[[str], int]
_SHORT_RESULT = 64
"""Tokens that a result takes at least: room for the others of its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseConfig:
    """How a long episode is sampled, and which limits end it."""

    writing: Writing = "native"
    """How the agent writes its calls: as native tool calls, or as tags in text."""
    context: ContextRule = field(default_factory=ContextRule)
    """The rule that says which earlier messages the model is shown."""
    sends_thoughts: bool = True
    """Whether earlier thoughts are sent back to the model. Where calls are tags, thoughts are part of the text and are
    always sent.
    """
    sampling: Sampling = field(default_factory=lambda: Sampling(temperature=1.0, top_p=0.95, max_tokens=4096))
    """How a turn is sampled. The stop strings of `writing` are added."""
    max_calls: int = 300
    """Most calls of an episode. Once they are made, the agent is told so and can only answer."""
    max_at_once: int = 8
    """Most calls of one turn. Further ones are not carried out, and the agent is told so."""
    max_tokens: int = 131_072
    """Most tokens of a prompt together with the turn that answers it, as the server counts."""
    max_spent: int | None = None
    """Tokens of all prompts and replies of the episode together; None sets no cap."""
    max_refusals: int = 3
    """How many turns that cannot be read are answered with what is wrong. The next one ends the episode."""
    top_k: int = 5
    """Number of passages that a search shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseRun:
    """An episode, finished or stopped, with the results of its calls."""

    record: BrowseRecord
    stop: StopReason
    answer: str
    """The agent's answer; empty when it gave none."""
    results: tuple[CallResult, ...]
    """What each call of the record found, in the order of the calls."""
    shown: tuple[str, ...]
    """The text that the agent read for each call."""
    turns: tuple[BrowseTurn, ...]
    """The turns of the agent that could be read."""


async def run_browse_episode(
    question: str,
    tools: PageTools,
    *,
    client: Client,
    model: str,
    config: BrowseConfig = BrowseConfig(),
    gold: Sequence[Gold] | None = None,
    count: CountTokens = estimate_tokens,
    clock: Callable[[], float] | None = time.perf_counter,
    meter: Meter | None = None,
    seed: int = 0,
    sample: int = 0,
    priority: int = 0,
) -> BrowseRun:
    """Run an episode: let the agent search, open and find until it answers or reaches a limit.

    `gold` are the pages that the answer rests on, for the figures. `count` counts the tokens of a result. `clock`
    returns the time, or is None where a row must not depend on it. `sample` is a number that distinguishes episodes on
    one question. Raises what the client and the tools raise. A prompt longer than the server's context ends the episode
    as `too_long`, unless it is the first.
    """
    episode = _Episode(question, config, count, clock)
    request = Request(
        model=model,
        prompt=(),
        sampling=config.sampling,
        tools=episode.writing.tools,
        sample=sample,
        seed=seed,
        purpose=BROWSE,
        is_turn=True,
        priority=priority,
        conversation=LongChat(),
    )
    while episode.stop is None:
        wants_summary = episode.begin_turn()
        try:
            reply = await client.complete(replace(request, prompt=episode.prompt(), sampling=episode.sampling()), meter)
        except ContextOverflow:
            if not episode.has_spoken:
                raise
            episode.stop = "too_long"
            break
        if wants_summary:
            episode.add_summary(reply)
        elif calls := episode.add_turn(reply):
            await episode.carry_out(calls, tools)
    return episode.finished(gold)


class _Episode:
    """An episode under way."""

    def __init__(
        self, question: str, config: BrowseConfig, count: CountTokens, clock: Callable[[], float] | None
    ) -> None:
        self.stop: StopReason | None = None
        self.writing = writing_of(config.writing)
        self._config, self._count, self._clock = config, count, clock
        opening = self.writing.opening(question, config.max_calls, config.max_at_once)
        sends = config.sends_thoughts or config.writing == "tags"
        self._sends_thoughts = sends
        self._windows = Windows(config.context, opening, self.writing.mark, sends_thoughts=sends)
        self._calls: list[BrowseCall] = []
        self._results: list[CallResult] = []
        self._shown: list[str] = []
        self._turns: list[BrowseTurn] = []
        self._size = sum(count(message.content) for message in opening) + count(self.writing.tools)
        """How long the next prompt is, as far as it is known."""
        self._opening_size = self._size
        self._base, self._is_measured = self._size, False
        """What the window began with, opening and summary, and whether a server has counted it."""
        self._spent = self._refusals = 0
        self._is_last = False
        """The agent was told that it can only answer."""
        self._answer = ""
        self._citations: tuple[Citation, ...] = ()
        self._made: set[Call] = set()
        self._sent: dict[NativeMessage, ChatTurn] = {}
        """The turns of prompts, each made once, as it keeps how it is written."""
        self._turn_by_id: dict[int, ChatTurn] = {}
        """The same by the ids of these very messages, which `_sent` keeps alive."""

    @property
    def has_spoken(self) -> bool:
        """Whether the agent has taken a turn."""
        return bool(self._turns) or self._refusals > 0

    def prompt(self) -> tuple[ChatTurn, ...]:
        """What the model reads next."""
        shown = as_sent(self._windows.prompt, self.writing.name)
        known = map(self._turn_by_id.get, map(id, shown))
        return tuple([turn or self._turn_of(each) for turn, each in zip(known, shown, strict=True)])

    def _turn_of(self, message: NativeMessage) -> ChatTurn:
        """The turn of a message that is new, or equal to an earlier one: to compare a long text costs more than a call
        of the others.
        """
        turn = self._sent.get(message)
        if turn is None:
            turn = self._sent[message] = self._turn_by_id[id(message)] = _chat_turn(message)
        return turn

    def sampling(self) -> Sampling:
        """How the next turn is drawn, which may fill what room is left."""
        room = max(1, self._config.max_tokens - self._size)
        longest = min(self._config.sampling.max_tokens, room)
        return replace(self._config.sampling, max_tokens=longest, stop=self.writing.stop)

    def begin_turn(self) -> bool:
        """Keep the context to its rule. Whether a summary is asked for before the agent continues."""
        before = len(self._windows.views)
        self._windows.begin_turn()
        if self._config.context.kind == "newest" and len(self._windows.views) > before:
            self._size = self._measured()
        if self._windows.wants_summary(self._size - self._base) and not self._is_last:
            self._windows.ask_summary(SUMMARY_REQUEST)
            return True
        return False

    def add_summary(self, reply: Reply) -> None:
        """Go on from what the model has summed up."""
        self._note(reply)
        self._windows.messages.append(self._message(reply))
        if reply.is_cut or not reply.text.strip():
            self.stop = "too_long" if reply.is_cut else "malformed"
            return
        self._windows.end_summary()
        self._size = self._base = self._opening_size + self._count(reply.text)
        self._is_measured = False

    def add_turn(self, reply: Reply) -> tuple[Call, ...]:
        """Take what the model wrote. Returns the calls to carry out next, if any."""
        self._note(reply)
        message = mended_ids(self._message(reply), len(self._calls))
        self._windows.messages.append(message)
        turn, problem = None, ""
        try:
            turn = self.writing.read(message, len(self._calls))
            self._turns.append(turn)
        except MalformedReply as error:
            problem = str(error)
        if reply.is_cut:
            self.stop = "too_long"
        elif turn is not None and turn.answer is not None:
            self.stop, self._answer, self._citations = "answered", turn.answer.text, turn.answer.citations
        elif self._is_last:
            self.stop = "too_many_turns" if len(self._calls) >= self._config.max_calls else "too_long"
        elif turn is None:
            self._refuse(problem)
        elif self._config.max_spent is not None and self._spent >= self._config.max_spent:
            self.stop = "too_long"
        return turn.calls if turn is not None and self.stop is None else ()

    async def carry_out(self, calls: Sequence[Call], tools: PageTools) -> None:
        """Make the calls of the last turn, all at once, and give their results to the agent in their order."""
        turn = len(self._windows.messages) - 1
        left = min(self._config.max_at_once, self._config.max_calls - len(self._calls))
        made = await asyncio.gather(*(self._timed(call, tools) for call in calls[:left]))
        refused = TOO_MANY_AT_ONCE if left == self._config.max_at_once else NO_CALLS_LEFT
        found = [*made, *((CallResult(problem=refused), 0.0) for _ in calls[left:])]
        named = self._windows.messages[turn].tool_calls  # none where they stand in the text
        ids = [call.id for call in named] or [""] * len(calls)
        for number, (call, id, (result, seconds)) in enumerate(zip(calls, ids, found, strict=True)):
            text = result_text(call, result)
            tokens = self._count(text)
            if not self._fits(tokens, is_last=number + 1 == len(calls)):
                problem = NO_ROOM_LEFT if self._config.context.kind == "all" else NO_ROOM_NOW
                result, text, tokens = CallResult(problem=problem), problem, self._count(problem)
            self._add_result(turn, call, result, text, tokens, id, seconds)
        self._warn()

    def finished(self, gold: Sequence[Gold] | None) -> BrowseRun:
        """The episode as it is."""
        assert self.stop is not None
        views = self._windows.close()
        record = BrowseRecord(
            writing=self.writing.name,
            tools=self.writing.tools,
            context=str(self._config.context),
            sends_thoughts=self._sends_thoughts,
            messages=tuple(self._windows.messages),
            views=views,
            calls=tuple(self._calls),
            figures=count_figures(self._calls, self._windows.messages, self._citations, gold),
        )
        return BrowseRun(
            record=replace(record, mended=find_mended(record, gold)),
            stop=self.stop,
            answer=self._answer,
            results=tuple(self._results),
            shown=tuple(self._shown),
            turns=tuple(self._turns),
        )

    async def _timed(self, call: Call, tools: PageTools) -> tuple[CallResult, float]:
        began = self._clock() if self._clock else 0.0
        result = await carry_out(call, tools, self._config.top_k)
        return result, self._clock() - began if self._clock else 0.0

    def _add_result(
        self, turn: int, call: Call, result: CallResult, text: str, tokens: int, id: str, seconds: float
    ) -> None:
        message = self.writing.result(text, id)
        self._windows.messages.append(message)
        self._size += tokens
        self._results.append(result)
        self._shown.append(text)
        name = call_name(call)
        self._calls.append(
            BrowseCall(
                turn=turn,
                result=len(self._windows.messages) - 1,
                tool=name if name in ("search", "open", "find") else "",
                query=call.query
                if isinstance(call, SearchAction)
                else call.text
                if isinstance(call, FindAction)
                else "",
                page=call.page if isinstance(call, OpenAction | FindAction) else "",
                part=call.part if isinstance(call, OpenAction) else 0,
                problem=result.problem,
                pages=tuple(page for page, _, _ in result.shown),
                parts=tuple(part for _, part, _ in result.shown),
                titles=tuple(title for _, _, title in result.shown),
                tokens=tokens,
                seconds=round(seconds, 6),
                is_repeat=call in self._made and result.problem not in PUT_OFF,
            )
        )
        if result.problem not in PUT_OFF:
            self._made.add(call)

    def _fits(self, tokens: int, *, is_last: bool) -> bool:
        """Whether a result of so many tokens leaves room for a turn after it."""
        spare = self._config.sampling.max_tokens + (0 if is_last else _SHORT_RESULT)
        return self._size + tokens + spare <= self._config.max_tokens

    def _warn(self) -> None:
        """Tell the agent in its last result that it can only answer now, where no call or no room is left, and from the
        half of its calls on how many are left.
        """
        is_full = self._size + 2 * self._config.sampling.max_tokens > self._config.max_tokens
        keeps = self._config.context.kind == "all"
        calls_over = len(self._calls) >= self._config.max_calls
        if not calls_over and not (is_full and keeps):
            if 2 * len(self._calls) >= self._config.max_calls:
                self._add_line(calls_left(self._config.max_calls - len(self._calls)))
            return
        self._is_last = True
        self._add_line(NO_CALLS_LEFT if calls_over else ANSWER_NOW)

    def _add_line(self, said: str) -> None:
        """Say something below the last result."""
        last = self._windows.messages[-1]
        self._shown[-1] = f"{self._shown[-1]}\n\n{said}"
        self._windows.messages[-1] = self.writing.result(self._shown[-1], last.tool_call_id)
        self._size += self._count(said)

    def _refuse(self, problem: str) -> None:
        self._refusals += 1
        if self._refusals > self._config.max_refusals:
            self.stop = "malformed"
            return
        refusal = self.writing.refusal(problem)
        self._windows.messages.append(refusal)
        self._size += self._count(refusal.content)

    def _note(self, reply: Reply) -> None:
        """Room by the server's count; estimated where it counts nothing."""
        self._spent += reply.prompt_tokens + reply.completion_tokens
        if reply.prompt_tokens and not self._is_measured:
            self._base, self._is_measured = reply.prompt_tokens, True
        called = sum(self._count(call.arguments) for call in reply.tool_calls)
        written = self._count(reply.text) + self._count(reply.reasoning) + called
        self._size = reply.prompt_tokens + reply.completion_tokens if reply.prompt_tokens else self._size + written

    def _measured(self) -> int:
        """An estimate of what is shown next."""
        return self._count(self.writing.tools) + sum(
            self._count(text) for message in self._windows.prompt for text in _chat_turn(message).words
        )

    def _message(self, reply: Reply) -> NativeMessage:
        """What the model wrote, as it goes back to it."""
        if self.writing.name == "tags":
            return NativeMessage(role="assistant", content=turn_text(reply))
        return NativeMessage(
            role="assistant", content=reply.text, reasoning=reply.reasoning, tool_calls=reply.tool_calls
        )


def _chat_turn(message: NativeMessage) -> ChatTurn:
    return ChatTurn(
        role=message.role,
        content=message.content,
        reasoning=message.reasoning,
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
    )
