"""Counting tokens as the policy model does."""

from __future__ import annotations

from trailforge.retrieval.kg.subgraph import CountTokens
from trailforge.schemas import RetrievalError


def tokenizer_of(model: str) -> CountTokens:
    """The counter of a model's own tokenizer, by its folder or its name on the hub.

    Raises `RetrievalError` when transformers is not installed or the tokenizer cannot be loaded.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise RetrievalError("counting with a model's tokenizer needs transformers: run `make install`") from error
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise RetrievalError(f"the tokenizer of {model} cannot be loaded ({str(error).splitlines()[0]})") from error
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))
