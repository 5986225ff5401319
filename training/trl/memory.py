"""Estimate the accelerator memory that a training needs, before anything is loaded.

Of each device, in bytes, for N weights in float32 over S devices (FSDP, ZeRO-3; S = 1 else), T tokens at a time, L
layers of width h with a middle of i, and V words:

    state         16 N / S            weights, gradients and Adam's two moments (with adapters: weights alone)
    reference     4 N / S             of a KL term, and of DPO
    layers        4 n_l               two layers gathered in bfloat16, where the weights are spread
    head          8 V h               the gathered head and its gradient in float32; logits are made in tiles
    kept          2 L T h             what checkpointing keeps; without it, all of `a layer` for each
    a layer       4 T (8 h + 2 k + 4 i)   one layer's activations, and as much for their gradients (k: width of keys)
    scores        6 T^2 heads         only of attention `eager`
    engine        a share             what vLLM takes beside the trainer, unless it sleeps meanwhile

Buffers of the framework, fragments and the CUDA context come on top: a run that fills more than `FULL` of a device is
warned of. Counted are models as Llama and Qwen are built; of others nothing is said.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

from trailforge.schemas import InvalidInput
from trailforge.training.config import TrainerConfig
from trailforge.training.processes import log, processes

FULL = 0.9
"""Share of a device's memory from which on a run is warned of."""
GB = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The numbers of a model on which its memory depends."""

    layers: int
    hidden: int
    intermediate: int
    vocabulary: int
    heads: int
    key_width: int
    """Width of all keys of a token, and of its values."""
    query_width: int
    is_tied: bool
    """Whether the head is the embedding."""

    @property
    def layer_weights(self) -> int:
        """Return the number of weights of one layer, biases left out."""
        attention = 2 * self.hidden * (self.query_width + self.key_width)
        return attention + 3 * self.hidden * self.intermediate + 2 * self.hidden

    @property
    def weights(self) -> int:
        """Return the number of weights of the whole model."""
        words = self.vocabulary * self.hidden
        return self.layers * self.layer_weights + words * (1 if self.is_tied else 2) + self.hidden


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Bytes that one device needs, by what they are for."""

    state: float
    reference: float
    layers: float
    head: float
    activations: float
    engine: float

    @property
    def total(self) -> float:
        """Return the bytes of one device, all purposes together."""
        return sum(getattr(self, each.name) for each in fields(self))

    @property
    def text(self) -> str:
        """Describe the need in one line for a person."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        return ", ".join(f"{name} {value / GB:.1f}" for name, value in parts.items() if value)


def shape_of(config: Any) -> Shape | None:
    """Read the shape from a model's configuration in transformers; None when the model is built otherwise."""
    text = config.get_text_config()
    names = ("num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size", "num_attention_heads")
    known: list[Any] = [getattr(text, name, None) for name in names]
    if None in known or getattr(text, "num_experts", None):
        return None
    layers, hidden, intermediate, vocabulary, heads = known
    width = getattr(text, "head_dim", None) or hidden // heads
    return Shape(
        layers=layers,
        hidden=hidden,
        intermediate=intermediate,
        vocabulary=vocabulary,
        heads=heads,
        key_width=(getattr(text, "num_key_value_heads", None) or heads) * width,
        query_width=heads * width,
        is_tied=bool(getattr(text, "tie_word_embeddings", False)),
    )


def need(
    shape: Shape,
    config: TrainerConfig,
    tokens: int,
    *,
    over: int = 1,
    with_reference: bool = False,
    engine: float = 0.0,
) -> Need:
    """Estimate the need for sequences of `tokens`, `config.per_device` at a time.

    `over`: devices over which the weights are spread. `engine`: bytes that vLLM keeps.
    """
    at_a_time = tokens * config.per_device
    a_layer = 2.0 * at_a_time * (8 * shape.hidden + 2 * shape.key_width + 4 * shape.intermediate)
    kept = 2.0 * at_a_time * shape.hidden if config.gradient_checkpointing else a_layer
    scores = 6.0 * config.per_device * tokens**2 * shape.heads if config.attention == "eager" else 0.0
    return Need(
        state=(4.0 if config.lora else 16.0) * shape.weights / over,
        reference=4.0 * shape.weights / over if with_reference and not config.lora else 0.0,
        layers=4.0 * shape.layer_weights if over > 1 else 0.0,
        head=8.0 * shape.vocabulary * shape.hidden,
        activations=shape.layers * kept + 2 * a_layer + scores,
        engine=engine,
    )


def check_memory(
    source: str, config: TrainerConfig, tokens: int, *, with_reference: bool = False, engine_share: float = 0.0
) -> None:
    """Print what the training needs, where there is an accelerator, and warn when that is nearly all or more than it
    has. Raises `InvalidInput` when weights and optimizer alone do not fit.
    """
    import torch
    from transformers import AutoConfig

    if not torch.cuda.is_available() or (shape := shape_of(AutoConfig.from_pretrained(source))) is None:
        return
    device = float(torch.cuda.get_device_properties(0).total_memory)
    wanted = need(
        shape,
        config,
        tokens,
        over=spread_over(),
        with_reference=with_reference,
        engine=engine_share * device,
    )
    judge(wanted, device, tokens)


def judge(wanted: Need, device: float, tokens: int) -> None:
    """Print how much of a device's bytes a training needs for sequences of `tokens`, and warn when that is nearly all
    or more. Raises `InvalidInput` when weights and optimizer alone do not fit."""
    if wanted.state + wanted.reference > device:
        raise InvalidInput(
            f"weights and optimizer take {(wanted.state + wanted.reference) / GB:.0f} GB of each device, which has "
            f"{device / GB:.0f}: spread the model over more devices (sharding: fsdp2), or train adapters (lora)"
        )
    log(
        f"memory of a device, GB, for {tokens} tokens in a row: {wanted.total / GB:.1f} of {device / GB:.0f} "
        f"({wanted.text})"
    )
    if wanted.total > FULL * device:
        log(
            "that is likely to be too much: spread the model over more devices, lower per_device or max_tokens, use "
            "gradient_checkpointing, or let vLLM sleep (--vllm-sleep)"
        )


def spread_over() -> int:
    """Return over how many processes `accelerate launch` distributes the weights; 1 where each has all of them."""
    is_zero_3 = os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE") == "3"
    return processes() if is_zero_3 or os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true" else 1
