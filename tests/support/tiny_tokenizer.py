"""A byte-level BPE tokenizer of a few hundred tokens that speaks ChatML, trained in a blink."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_TEXTS = (
    "<think>Who directed the film? I search.</think><search>director of the film</search>",
    "<tool_response>\n1. (The film) The film was directed by Ada in 1950.\n</tool_response>",
    "<think>Ada did.</think>\n<answer>Ada</answer>",
    "system user assistant tool\n\n",
)


@cache
def _trained() -> str:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(_TEXTS * 4, trainer)
    return tokenizer.to_str()


def tiny_tokenizer(*special: str) -> PreTrainedTokenizerFast:
    """A new one each time, for tests that change it; without a chat template. `special`: more tokens of a template."""
    from tokenizers import AddedToken, Tokenizer
    from transformers import PreTrainedTokenizerFast

    tokenizer: Any = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_trained()),
        eos_token="<|endoftext|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>", "<|im_end|>"],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.add_tokens([AddedToken(token, special=True) for token in special])
    return tokenizer
