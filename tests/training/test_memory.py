"""What a training needs of a device's memory, against figures reckoned by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.training.tiny import preset
from trailforge.schemas import InvalidInput
from trailforge.training.config import LoraConfig, SftConfig, load_train_preset
from trailforge.training.trl.memory import FULL, Shape, judge, need, shape_of
from trailforge.training.weights import load_model

QWEN_7B = Shape(
    layers=28,
    hidden=3584,
    intermediate=18944,
    vocabulary=152_064,
    heads=28,
    key_width=512,
    query_width=3584,
    is_tied=False,
)
"""Qwen2.5-7B: 7,615,616,512 weights, of which 129,024 are biases."""
GB = 1e9


def config(**changes: Any) -> SftConfig:
    """With checkpointing, as presets have it."""
    return preset(sft={"gradient_checkpointing": True, "per_device": 1, **changes}).sft


def test_weights_are_counted_as_they_are(tiny_model: Path) -> None:
    assert QWEN_7B.weights == 7_615_616_512 - 129_024
    model = load_model(str(tiny_model))
    shape = shape_of(model.config)
    biases = sum(weight.numel() for name, weight in model.named_parameters() if name.endswith("bias"))
    assert shape is not None and shape.weights == sum(weight.numel() for weight in model.parameters()) - biases


def test_rows_of_16k_of_a_7b_fit_80_gb_of_eight_devices() -> None:
    """By hand: 122 GB of state over 8, 28 kept inputs of 0.117 GB, twice a layer of 3.456."""
    msearcher = load_train_preset("msearcher").sft
    assert (msearcher.max_tokens, msearcher.per_device, msearcher.gradient_checkpointing) == (16_384, 1, True)
    found = need(QWEN_7B, msearcher, msearcher.max_tokens, over=8)
    assert found.state / GB == pytest.approx(15.23, abs=0.01)
    assert found.layers / GB == pytest.approx(0.93, abs=0.01)
    assert found.head / GB == pytest.approx(4.36, abs=0.01)
    assert found.activations / GB == pytest.approx(28 * 0.1174 + 2 * 3.456, abs=0.01)
    assert found.total / GB == pytest.approx(30.72, abs=0.02) and found.total < FULL * 80 * GB


def test_what_is_left_out_of_it_shows_in_the_figures() -> None:
    """Without checkpointing all 28 layers stay, `eager` holds every pair of tokens, and a reference its weights."""
    whole = need(QWEN_7B, config(gradient_checkpointing=False), 16_384, over=8)
    assert whole.activations / GB == pytest.approx(30 * 3.456, abs=0.05) and whole.total > 80 * GB
    eager = need(QWEN_7B, config(attention="eager"), 16_384, over=8)
    assert (eager.activations - 10.2 * GB) / GB == pytest.approx(6 * 28 * 16_384**2 / 1e9, abs=0.05)
    two = need(QWEN_7B, config(per_device=2), 16_384, over=8, with_reference=True, engine=24 * GB)
    assert two.activations / GB == pytest.approx(2 * 10.2, abs=0.02)
    assert (two.reference / GB, two.engine / GB) == (pytest.approx(3.81, abs=0.01), 24)
    adapters = need(QWEN_7B, config(lora=LoraConfig()), 1024, with_reference=True)
    assert (adapters.state / GB, adapters.reference) == (pytest.approx(30.46, abs=0.01), 0.0)


def test_what_cannot_fit_is_refused_and_what_nearly_does_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    device = 80 * GB
    with pytest.raises(InvalidInput, match="take 122 GB of each device, which has 80: spread the model"):
        judge(need(QWEN_7B, config(), 16_384), device, 16_384)
    judge(need(QWEN_7B, config(), 16_384, over=8), device, 16_384)
    fits = capsys.readouterr().err
    assert "for 16384 tokens in a row: 30.7 of 80 (state 15.2, layers 0.9, head 4.4, activations 10.2)" in fits
    assert "too much" not in fits
    judge(need(QWEN_7B, config(), 65_536, over=8), device, 65_536)
    judge(need(QWEN_7B, config(per_device=4), 16_384, over=8, engine=24 * GB), device, 16_384)
    assert capsys.readouterr().err.count("likely to be too much") == 1


def test_of_a_mixture_of_experts_nothing_is_said() -> None:
    from transformers import Qwen2MoeConfig

    assert shape_of(Qwen2MoeConfig()) is None
