"""How long a row is: counted by a tokenizer, or estimated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trailforge.schemas import ChatMessage, InvalidInput, install_hint
from trailforge.schemas.text import count_conversation
from trailforge.training.masks import masked_tokens, prepare_tokenizer, prompt_ids, teach


class Lengths:
    """Measures conversations and prompts in tokens."""

    def __init__(self, tokenizer: str | None) -> None:
        """Raises `InvalidInput` when there is no such tokenizer, or it changes text."""
        self.measured_by = tokenizer or "estimate"
        self._tokenizer = load_tokenizer(tokenizer) if tokenizer else None

    def of(self, messages: Sequence[ChatMessage]) -> int:
        """Of a conversation with its template. Raises `InvalidInput` for text that is a special token."""
        if self._tokenizer is None:
            return count_conversation(messages)
        return len(masked_tokens(self._tokenizer, messages).input_ids)

    def of_prompt(self, messages: Sequence[ChatMessage]) -> int:
        """Of what stands before the agent's first turn. Raises as `of`."""
        if self._tokenizer is None:
            return count_conversation(messages)
        return len(prompt_ids(self._tokenizer, messages))


def load_tokenizer(name: str) -> Any:
    """A tokenizer of transformers, taught ChatML as `train sft` does (`prepare_tokenizer`). Raises `InvalidInput`."""
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise InvalidInput(f"tokenizers need the package transformers: {install_hint('train')}") from error
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, KeyError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InvalidInput(f"no tokenizer there ({first})", file=name) from error
    teach(tokenizer)
    prepare_tokenizer(tokenizer)
    return tokenizer
