"""Collect an episode's tokens while it is made: what the model sampled and what it was given to read, with the loss
mask.

    prompt_ids   system prompt, question, heading of the agent's turn
    ids          agent's turn <|im_end|>    tool turn, heading    agent's turn <|im_end|>    …
    mask         1 1 1 …      0             0 0 0 …               1 1 1 …      0

An `<|im_end|>` that the model sampled itself is trained as its other tokens; the one that is put behind a closing tag,
where generation stopped, is nobody's choice. (Supervised training takes the loss on both.)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trailforge.inference import ChatTurn, Meter, Reply, Request
from trailforge.protocols import EpisodeRun
from trailforge.schemas import ContextOverflow, Message
from trailforge.training.generation import Continuation
from trailforge.training.masks import observation_ids

GoOn = Callable[[list[int], int, Sequence[str]], Awaitable[Continuation]]
"""Continues a sequence, given its ids so far, its room and its stop strings, as `Generator.generate` does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutLimits:
    """The limits that end an episode."""

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
    """A finished episode as tokens. All lists but `prompt_ids` have the same length and are never empty."""

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
        """Return the messages of the conversation in which the agent took part."""
        return self.run.messages

    @property
    def failed(self) -> bool:
        """Tell whether a failing search ended the episode, by no fault of the agent's: it gets no reward, and counts in
        no mean.
        """
        return self.run.stop == "failed"

    def without_loss(self) -> TokenEpisode:
        """Return the same episode with no token trained."""
        return replace(self, mask=[0] * len(self.ids), logprobs=[0.0] * len(self.ids))


class TokenWriter:
    """An episode in progress, which is a model client to `run_episode` and a sequence of tokens to the trainer."""

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
        """Return the length of a tool turn in tokens, with the marks around it and the heading of the next turn."""
        self._measured = content, observation_ids(self._tokenizer, content)
        return len(self._measured[1])

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """Return the agent's next turn. Raises `ContextOverflow` when there is no room left for one."""
        if self.ids:
            self._append(self._given(request))
        room = min(self._limits.max_tokens - len(self.ids) - 1, self._longest(request))  # one is for the turn's end
        if room < 1:
            raise ContextOverflow(f"the episode has no room left within its {self._limits.max_tokens} tokens")
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

    def _longest(self, request: Request) -> int:
        """Most tokens of a turn; that of the whole episode, where nothing else is said."""
        del request
        return self._limits.max_tokens

    def _given(self, request: Request) -> list[int]:
        """What the agent reads before its next turn: a tool turn and the heading of its own."""
        turn = request.prompt[-1]
        assert isinstance(turn, ChatTurn)
        measured, new = self._measured
        return new if measured == turn.content else observation_ids(self._tokenizer, turn.content)

    def _append(self, new: list[int]) -> None:
        """Append what the agent is given to read; raises `ContextOverflow` when it does not fit."""
        if len(self.ids) + len(new) + 2 > self._limits.max_tokens:
            raise ContextOverflow(
                f"the result of a search does not fit into the episode's {self._limits.max_tokens} tokens"
            )
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
