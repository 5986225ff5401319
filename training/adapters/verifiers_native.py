"""The renderer with which verifiers asks vLLM for the tokens of research agents, in the form of our own rollouts.

renderer: {name: custom, import_path: trailforge.training.adapters.verifiers_native.NativeRenderer}

Turns are in the model's own chat template, thoughts and calls are read as `training.native` reads them, and what was
sampled is never tokenised again.
"""

# It comes with verifiers, which is installed in an environment of its own.
# pyright: reportMissingImports=false

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from renderers.base import ParsedResponse, ParsedToolCall, RenderedTokens, ToolCallParseStatus
from renderers.configs import BaseRendererConfig

from trailforge.schemas import NativeConversation, NativeMessage, ToolCall
from trailforge.training.native import end_with_turns
from trailforge.training.native.tokens import render


class NativeRendererConfig(BaseRendererConfig):
    """The renderer's configuration, which has no options."""


class NativeRenderer:
    """A renderer of native calls in a model's own chat template, whose turns stay as they were sampled."""

    config_class = NativeRendererConfig
    is_prefix_stable = True
    supports_tools = True

    def __init__(self, tokenizer: Any, config: NativeRendererConfig | None = None) -> None:
        """Raises `InvalidInput` for a template that cannot be trained so; see `training.native.form_of`."""
        self._form = end_with_turns(tokenizer)
        self._tokenizer = tokenizer
        self._end = tokenizer.convert_tokens_to_ids(self._form.end)

    def render(
        self, messages: Sequence[Any], *, tools: Any = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        """Return the tokens of a conversation; all belong to its last message, except for the heading of the next
        turn.
        """
        spoken = [_message(each) for each in messages]
        conversation = NativeConversation(tools=json.dumps(tools) if tools else "", messages=tuple(spoken))
        whole = self._encode(render(self._tokenizer, conversation, len(spoken)))
        heading = 0
        if add_generation_prompt:
            longer = self._encode(render(self._tokenizer, conversation, len(spoken), add_generation_prompt=True))
            heading, whole = len(longer) - len(whole), longer
        owners = [len(spoken) - 1] * (len(whole) - heading) + [-1] * heading
        return self._rendered(whole, owners, messages)

    def render_ids(
        self, messages: Sequence[Any], *, tools: Any = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """Return the tokens of a conversation alone."""
        return self.render(messages, tools=tools, add_generation_prompt=add_generation_prompt).token_ids

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: Any,
        *,
        tools: Any = None,
    ) -> RenderedTokens | None:
        """Return the tokens so far, the results of the last turn's calls, and the heading of the next turn. None where
        the sampled turn has no end token, or a message is no result; the conversation is then rendered whole."""
        previous = [*previous_prompt_ids, *previous_completion_ids]
        results = [_message(each) for each in new_messages]
        if previous[-1] != self._end or any(each.role != "tool" for each in results):
            return None
        # What stands behind a turn's end does not depend on the turn.
        calls = tuple(ToolCall(id=each.tool_call_id, name="search", arguments="{}") for each in results)
        asked = NativeMessage(role="user", content="?")
        turns = (asked, NativeMessage(role="assistant", content="", tool_calls=calls), *results)
        conversation = NativeConversation(tools="", messages=turns)
        text = render(self._tokenizer, conversation, len(turns), add_generation_prompt=True)
        start = text.find(self._form.end, len(render(self._tokenizer, conversation, 1))) + len(self._form.end)
        new = self._encode(text[start:])
        heading = len(self._encode(text)) - len(self._encode(render(self._tokenizer, conversation, len(turns))))
        last = len(results) - 1
        owners = [-1] * len(previous) + [last] * (len(new) - heading) + [-1] * heading
        return self._rendered([*previous, *new], owners, new_messages)

    def parse_response(
        self, token_ids: list[int], *, tools: Any = None, prompt_ids: list[int] | None = None
    ) -> ParsedResponse:
        """Return a turn split into thought, text and calls."""
        words = token_ids[:-1] if token_ids and token_ids[-1] == self._end else token_ids
        said = self._form.read(self._tokenizer.decode(words, skip_special_tokens=False))
        calls = [
            ParsedToolCall(raw=call.arguments, name=call.name, arguments=call.arguments, status=ToolCallParseStatus.OK)
            for call in said.tool_calls
        ]
        return ParsedResponse(content=said.content, reasoning_content=said.reasoning or None, tool_calls=calls)

    def get_stop_token_ids(self) -> list[int]:
        """Return the tokens that end a turn."""
        return [self._end]

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)

    def _rendered(self, ids: list[int], owners: list[int], messages: Sequence[Any]) -> RenderedTokens:
        return RenderedTokens(
            token_ids=ids, message_indices=owners, message_roles=[message["role"] for message in messages]
        )


def _message(given: Mapping[str, Any]) -> NativeMessage:
    calls = tuple(
        ToolCall(id=each.get("id") or "", name=each["function"]["name"], arguments=each["function"]["arguments"])
        for each in given.get("tool_calls") or ()
    )
    return NativeMessage(
        role=given["role"],
        content=given.get("content") or "",
        reasoning=given.get("reasoning_content") or "",
        tool_calls=calls,
        tool_call_id=given.get("tool_call_id") or "",
    )
