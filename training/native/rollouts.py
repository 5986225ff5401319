"""Episodes of research agents as tokens: what a model with native calls sampled, and what its server would write in
between.

Nothing is tokenised again: behind each sampled turn comes what the model's own chat template writes between the end of
that turn and the heading of the next one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from trailforge.inference import ChatTurn, Meter, Reply, Request
from trailforge.protocols.browse import TOOLS_JSON, writing_of
from trailforge.protocols.environment import Environment
from trailforge.schemas import ChatMessage, InvalidInput, NativeConversation, NativeMessage, ToolCall
from trailforge.training.masks import escape_special, own_template, special_tokens
from trailforge.training.native.episodes import episode_config, lead_browse_episode, question_in
from trailforge.training.native.tokens import render
from trailforge.training.native.turns import TurnForm, form_of
from trailforge.training.token_episodes import GoOn, RolloutLimits, TokenEpisode, TokenWriter


async def roll_out_browse(
    prompt: Sequence[ChatMessage],
    environment: Environment,
    *,
    go_on: GoOn,
    end_ids: Collection[int],
    tokenizer: Any,
    limits: RolloutLimits,
) -> TokenEpisode:
    """Make one episode on a row's prompt. `go_on` samples each of its turns (`training.token_episodes.GoOn`); `end_ids`
    are the tokens that end a turn. Raises what `go_on` raises, and as `form_of` and `lead_browse_episode` do.
    """
    opening = opening_ids(tokenizer, prompt, limits)
    writer = _NativeWriter(opening, go_on, end_ids, tokenizer, limits)
    run = await lead_browse_episode(
        prompt,
        environment,
        writer,
        limits,
        opening=len(opening),
        count=lambda text: len(tokenizer.encode(text, add_special_tokens=False)),
        escape=lambda text: escape_special(tokenizer, text),
    )
    episode = TokenEpisode(
        prompt_ids=writer.prompt_ids,
        ids=writer.ids,
        mask=writer.mask,
        logprobs=writer.logprobs,
        run=replace(run, tokens=len(writer.ids)),
    )
    return episode.without_loss() if episode.failed else episode


def opening_ids(tokenizer: Any, prompt: Sequence[ChatMessage], limits: RolloutLimits) -> list[int]:
    """Return the tokens up to the agent's first turn: rules, tools, and the question of a row's prompt."""
    config = episode_config(limits, 0, 1)
    turns = writing_of("native").opening(question_in(prompt), config.max_calls, config.max_at_once)
    if found := [token for token in special_tokens(tokenizer) for turn in turns if token in turn.content]:
        raise InvalidInput(
            f"holds the special token {found[0]}, which would end or forge a turn; leave the question out",
            field="prompt",
        )
    conversation = NativeConversation(tools=TOOLS_JSON, messages=turns)
    text = render(tokenizer, conversation, len(turns), own_template(tokenizer), add_generation_prompt=True)
    return tokenizer.encode(text, add_special_tokens=False)


class _NativeWriter(TokenWriter):
    """An episode under way, whose turns are in the form of a chat template."""

    def __init__(
        self, prompt: list[int], go_on: GoOn, end_ids: Collection[int], tokenizer: Any, limits: RolloutLimits
    ) -> None:
        super().__init__(prompt, go_on, end_ids, tokenizer, limits)
        self._form: TurnForm = form_of(tokenizer)
        self._template = own_template(tokenizer)
        self._shown = ""
        """What the template wrote of the messages before the agent's last turn."""

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """Return the agent's next turn, parsed as a server does. Raises what `TokenWriter.complete` raises, and
        `InvalidInput` for a template that shows earlier turns otherwise than before.
        """
        reply = await super().complete(request, meter)
        self._shown = self._written(request)
        message = self._form.read(reply.text)
        return replace(reply, text=message.content, reasoning=message.reasoning, tool_calls=message.tool_calls)

    def _longest(self, request: Request) -> int:
        return request.sampling.max_tokens

    def _given(self, request: Request) -> list[int]:
        """The rest of the agent's last turn behind its end, results, and the heading of the next turn."""
        whole = self._written(request, add_generation_prompt=True)
        end = whole.find(self._form.end, len(self._shown))
        if not whole.startswith(self._shown) or end < 0:
            raise InvalidInput(
                "the chat template shows earlier turns otherwise than before, so that an episode is no one sequence; "
                "take another model",
                field="chat_template",
            )
        return self._tokenizer.encode(whole[end + len(self._form.end) :], add_special_tokens=False)

    def _written(self, request: Request, *, add_generation_prompt: bool = False) -> str:
        """The messages by the template; no text in them is taken for a mark of it."""
        assert not isinstance(request.prompt, str)
        turns = tuple(self._plain(turn) for turn in request.prompt)
        conversation = NativeConversation(tools=request.tools, messages=turns)
        return render(
            self._tokenizer, conversation, len(turns), self._template, add_generation_prompt=add_generation_prompt
        )

    def _plain(self, turn: ChatTurn) -> NativeMessage:
        def plain(text: str) -> str:
            return escape_special(self._tokenizer, text)

        calls = tuple(
            ToolCall(id=call.id, name=plain(call.name), arguments=plain(call.arguments)) for call in turn.tool_calls
        )
        return NativeMessage(
            role=turn.role,  # type: ignore[arg-type]
            content=plain(turn.content),
            reasoning=plain(turn.reasoning),
            tool_calls=calls,
            tool_call_id=turn.tool_call_id,
        )
