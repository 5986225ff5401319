"""The model that a training begins with."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from trailforge.inference.packaged import SMOLLM2
from trailforge.schemas import InvalidInput
from trailforge.training import weights


def test_a_folder_is_taken_as_it_is(tiny_model: Path) -> None:
    """When it holds a model."""
    assert weights.base_model(str(tiny_model)) == str(tiny_model)


def test_tokenizer_without_our_marks_is_refused(tmp_path: Path) -> None:
    """And so is a folder without one."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE(vocab={"a": 0}, merges=[])), eos_token="a"
    ).save_pretrained(tmp_path / "plain")
    with pytest.raises(InvalidInput, match="im_start"):
        weights.load_tokenizer(str(tmp_path / "plain"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="holds no tokenizer"):
        weights.load_tokenizer(str(tmp_path / "empty"))


def test_damaged_weights_are_refused(tiny_model: Path, tmp_path: Path) -> None:
    """With the folder's name."""
    import shutil

    shutil.copytree(tiny_model, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    with pytest.raises(InvalidInput, match="weights cannot be loaded"):
        weights.load_model(str(tmp_path / "model"))


def test_packaged_weights_are_converted_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Into the user's cache; without gguf it says what to do."""
    if importlib.util.find_spec(SMOLLM2.package) is None:
        pytest.skip("the package of the weights is not installed")
    made: list[Path] = []

    def convert(source: Path, folder: Path) -> None:
        made.append(source)
        folder.mkdir()
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(weights, "convert", convert)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    own: Any = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "gguf" else own(name))
    with pytest.raises(InvalidInput, match="gguf"):
        weights.base_model("smollm2")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True if name == "gguf" else own(name))
    first, second = weights.base_model("smollm2"), weights.base_model("smollm2")
    assert first == second == str(tmp_path / "trailforge" / "models" / SMOLLM2.name)
    assert made == [SMOLLM2.weights()]


def test_attention_is_computed_by_the_kernel_that_is_asked_for(tiny_model: Path) -> None:
    assert weights.load_model(str(tiny_model), attention="eager").config._attn_implementation == "eager"
    if importlib.util.find_spec("flash_attn") is None:
        with pytest.raises(InvalidInput, match="flash_attention_2 is not installed here"):
            weights.load_model(str(tiny_model), attention="flash_attention_2")
