"""The renderer with which verifiers, and with it prime-rl, asks vLLM for tokens, in the form of our own rollouts.

renderer: {name: custom, import_path: trailforge.training.adapters.verifiers_renderer.Renderer}
"""

# It comes with verifiers, which is installed in an environment of its own.
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from renderers.base import ParsedResponse, RenderedTokens
from renderers.configs import BaseRendererConfig

from trailforge.schemas import ChatMessage
from trailforge.training.adapters.search_episodes import end_ids_of
from trailforge.training.masks import masked_tokens, observation_ids, prepare_tokenizer, prompt_ids
from trailforge.training.scoring import read_messages


class RendererConfig(BaseRendererConfig):
    """The renderer's configuration, which has no options."""


class Renderer:
    """A renderer that turns conversations into the tokens of our rollouts.

    The thoughts of earlier turns stay, and nothing is tokenised again: an agent's turn continues as it was sampled.
    What ends it where no end was sampled belongs to the next message.
    """

    config_class = RendererConfig
    is_prefix_stable = True
    supports_tools = False

    def __init__(self, tokenizer: Any, config: RendererConfig | None = None) -> None:
        prepare_tokenizer(tokenizer)
        self._tokenizer = tokenizer
        self._end_ids = list(end_ids_of(tokenizer))
        asked = [ChatMessage(role="user", content="a")]
        self._heading = len(prompt_ids(tokenizer, asked)) - len(masked_tokens(tokenizer, asked).input_ids)

    def render(
        self, messages: Sequence[Any], *, tools: Any = None, add_generation_prompt: bool = False
    ) -> RenderedTokens:
        """Return the tokens of a conversation, each with the message that it belongs to; -1 for the heading of the next
        turn.
        """
        spoken = read_messages(list(messages))
        ends = [len(masked_tokens(self._tokenizer, spoken[: n + 1]).input_ids) for n in range(len(spoken))]
        owners = [n for n, (start, end) in enumerate(pairwise([0, *ends])) for _ in range(end - start)]
        if add_generation_prompt:
            ids = prompt_ids(self._tokenizer, spoken)
            return self._rendered(ids, owners + [-1] * (len(ids) - len(owners)), messages)
        return self._rendered(masked_tokens(self._tokenizer, spoken).input_ids, owners, messages)

    def render_ids(
        self, messages: Sequence[Any], *, tools: Any = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """Return the tokens of a conversation alone."""
        return self.render(messages, add_generation_prompt=add_generation_prompt).token_ids

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: Any,
        *,
        tools: Any = None,
    ) -> RenderedTokens | None:
        """Return the tokens so far, an end of the turn where none was sampled, the search's result, and the heading of
        the next turn. None where there is not exactly one new message; the conversation is then rendered whole."""
        if len(new_messages) != 1:
            return None
        previous = [*previous_prompt_ids, *previous_completion_ids]
        end = [] if previous[-1] in self._end_ids else [self._tokenizer.eos_token_id]
        new = [*end, *observation_ids(self._tokenizer, new_messages[0]["content"])]
        owners = [-1] * len(previous) + [0] * (len(new) - self._heading) + [-1] * self._heading
        return self._rendered([*previous, *new], owners, new_messages)

    def parse_response(
        self, token_ids: list[int], *, tools: Any = None, prompt_ids: list[int] | None = None
    ) -> ParsedResponse:
        """Return a turn as one text, with thoughts and tags and without its end token."""
        has_end = bool(token_ids) and token_ids[-1] in self._end_ids
        words = token_ids[:-1] if has_end else token_ids
        return ParsedResponse(content=self._tokenizer.decode(words, skip_special_tokens=False))

    def get_stop_token_ids(self) -> list[int]:
        """Return the token that ends a turn and, since base models end turns with it, the one that ends a text."""
        return self._end_ids

    def _rendered(self, ids: list[int], owners: list[int], messages: Sequence[Any]) -> RenderedTokens:
        return RenderedTokens(
            token_ids=ids, message_indices=owners, message_roles=[message["role"] for message in messages]
        )
