"""Convert rows with native tool calls to tokens, for trainers that would not write calls and thoughts as servers do."""

from __future__ import annotations

from collections.abc import Iterator

from trailforge.evaluation.agents import load_tokenizer
from trailforge.schemas import InvalidInput, SftRow
from trailforge.training.masks import MaskedTokens
from trailforge.training.native import conversation_of, native_tokens


class NativeRows:
    """Converts rows to tokens in the chat template of a model."""

    def __init__(self, base_model: str) -> None:
        """Raises `InvalidInput` for a model without a chat template, which writes calls."""
        self._tokenizer = load_tokenizer(base_model)
        if self._tokenizer.chat_template is None:
            raise InvalidInput(
                f"{base_model} has no chat template, which writes calls; name a model that has one", field="base_model"
            )

    def of(self, row: SftRow) -> Iterator[MaskedTokens]:
        """Return the tokens of a row. Raises `InvalidInput`, naming the row, as `native_tokens` does."""
        try:
            yield from native_tokens(self._tokenizer, conversation_of(row), row.train)
        except InvalidInput as error:
            raise InvalidInput(f"{row.uid}: {error.problem}", field=error.field) from error
