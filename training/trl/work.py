"""Estimate what a training will take before its first step, from the rows and this machine's speed.

Time is the least time of multiplications, at the speed that this machine reaches on one product of the model's size:
for each weight and token 2 forward and 4 backward (2 with adapters), and 2 more to compute a layer anew (checkpointing)
or for a reference model. What a step does beside them comes on top.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from trailforge.schemas import RlRow
from trailforge.training.config import DpoConfig, RlConfig, SftConfig, TrainerConfig
from trailforge.training.processes import processes
from trailforge.training.trl.memory import GB, Shape, need, shape_of, spread_over

_SPEED_S = 0.3
"""For so long products are made to learn a machine's speed."""


def describe_sft(
    model: Any, config: SftConfig, lengths: Sequence[int], *, trained: int, max_steps: int | None = None
) -> str:
    """Describe what a training on conversations of these lengths, in tokens, will take: rows, tokens, steps, and of a
    step the least time and the memory. `trained`: tokens of an epoch that the loss is taken on.
    """
    rows = math.ceil(sum(lengths) / config.max_tokens) if config.packing else len(lengths)
    in_step = min(config.batch_size, rows)
    steps = max_steps or math.ceil(rows / config.batch_size) * config.epochs
    said = f"{len(lengths):,} conversations, {sum(lengths):,} tokens, {trained:,} of them trained"
    said += f"; {steps:,} steps of {in_step:,} {'packed rows' if config.packing else 'conversations'}"
    longest = config.max_tokens if config.packing else max(lengths)
    return said + _of_a_step(model, config, sum(lengths) / rows * in_step, longest)


def describe_dpo(
    model: Any, config: DpoConfig, lengths: Sequence[int], *, trained: int, max_steps: int | None = None
) -> str:
    """Describe what a training on pairs will take, as `describe_sft` does. `lengths` are of both conversations of a
    pair together.
    """
    in_step = min(config.batch_size, len(lengths))
    steps = max_steps or math.ceil(len(lengths) / config.batch_size) * config.epochs
    said = f"{len(lengths):,} pairs, {sum(lengths):,} tokens, {trained:,} of them trained"
    said += f"; {steps:,} steps of {in_step:,} pairs"
    return said + _of_a_step(model, config, sum(lengths) / len(lengths) * in_step, max(lengths), with_reference=True)


def describe_rl(
    model: Any,
    config: RlConfig,
    rows: Sequence[RlRow],
    prompts: Sequence[int],
    *,
    has_judge: bool,
    max_steps: int | None = None,
) -> str:
    """Describe what a training on questions will take: rollouts, calls and updates of a step, and the memory; of time
    only what 1,000 tokens take, for how long episodes will be is not known.

    `prompts`: lengths of the rows' prompts. vLLM's share of a device is not in the memory.
    """
    every, episodes = config.updates_per_step, config.episodes_per_step
    updates = max_steps or len(rows) // config.prompts_per_step * config.epochs * every
    parts = [
        f"{episodes:,} episodes of up to {config.max_tokens:,} tokens after a prompt of {_span(prompts)}",
        _searches(config, rows),
        *([f"up to {episodes:,} verdicts of the judge"] if has_judge else []),
        f"{every:,} updates on {config.mini_batch:,} episodes each" if every > 1 else "one update on all of them",
    ]
    said = f"{len(rows):,} questions; {math.ceil(updates / every):,} steps of {config.prompts_per_step:,}, each with "
    said += ", ".join(parts)
    shape = shape_of(model.config)
    if shape is None:
        return said
    has_reference = config.kl.start > 0
    seconds = _least_seconds(shape, model, config, 1000, with_reference=has_reference)
    most = max(prompts) + config.max_tokens
    memory = need(shape, config, most, over=spread_over(), with_reference=has_reference).total / GB
    said += f"; to train on 1,000 tokens takes at least {seconds:,.2f} s here, beside making the episodes, and "
    return said + f"the longest episode about {memory:,.1f} GB of memory"


def _searches(config: RlConfig, rows: Sequence[RlRow]) -> str:
    """The searches of a step: as measured, or by hops, or at most."""
    measured = [row.calls_needed for row in rows if row.calls_needed is not None]
    hops = [row.reward_model.ground_truth.num_hops for row in rows if row.reward_model.ground_truth.num_hops]
    parts = []
    if measured:
        mean = sum(measured) / len(measured)
        parts.append(f"about {mean * config.episodes_per_step:,.0f} by what right attempts took when measured")
    elif hops:
        parts.append(f"{sum(hops) / len(hops) * config.episodes_per_step:,.0f} at one a hop")
    if config.max_searches is not None:
        parts.append(f"{config.max_searches * config.episodes_per_step:,} at most")
    return f"searches: {', '.join(parts)}" if parts else "searches as many as its tokens hold"


def _span(lengths: Sequence[int]) -> str:
    return f"{min(lengths):,}" if min(lengths) == max(lengths) else f"{min(lengths):,} to {max(lengths):,}"


def _of_a_step(model: Any, config: TrainerConfig, tokens: float, longest: int, *, with_reference: bool = False) -> str:
    """Least time and memory of a step of so many tokens; nothing of a model that is built otherwise."""
    shape = shape_of(model.config)
    if shape is None:
        return ""
    seconds = _least_seconds(shape, model, config, tokens, with_reference=with_reference)
    memory = need(shape, config, longest, over=spread_over(), with_reference=with_reference).total / GB
    return f", each at least {seconds:,.1f} s here and about {memory:,.1f} GB of memory"


def _least_seconds(shape: Shape, model: Any, config: TrainerConfig, tokens: float, *, with_reference: bool) -> float:
    for_each = (4.0 if config.lora else 6.0) + 2.0 * config.gradient_checkpointing + 2.0 * with_reference
    multiplied = shape.layers * shape.layer_weights + shape.vocabulary * shape.hidden  # embeddings are looked up
    return for_each * multiplied * tokens / processes() / _measure_speed(shape, model.device, model.dtype)


def _measure_speed(shape: Shape, device: Any, dtype: Any) -> float:
    """Multiplications and additions a second of this process, by products as a layer makes them."""
    import torch

    first = torch.ones(512, shape.hidden, device=device, dtype=dtype)
    second = torch.ones(shape.hidden, shape.intermediate, device=device, dtype=dtype)
    made, began = 0, 0.0
    for attempt in range(64):
        result = first @ second
        result.sum().item()  # waits for a device that computes by itself
        if attempt == 0:
            began = time.perf_counter()  # the first one also prepares
            continue
        made += 1
        if time.perf_counter() - began > _SPEED_S:
            break
    return 2.0 * 512 * shape.hidden * shape.intermediate * made / (time.perf_counter() - began)
