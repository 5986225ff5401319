"""The model that a training begins with: a folder, a name that transformers knows, or `smollm2` from its package."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

from inference.servers import SMOLLM2
from schemas import InvalidInput
from training.folders import user_cache
from training.gguf_weights import convert
from training.masks import ready

PACKAGED = "smollm2"
"""SmolLM2-135M-Instruct, whose weights come as a package: for trying things out."""


def base_model(name: str) -> str:
    """What transformers loads for a base model. `smollm2` is converted once and kept in the user's cache.

    Raises `InvalidInput` for a folder without a model and for a name that is neither here nor can be fetched.
    """
    if name == PACKAGED:
        return str(packaged_weights())
    path = Path(name)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise InvalidInput("holds no model (config.json, weights, tokenizer)", file=path)
        return str(path)
    if path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise InvalidInput(f"no such folder; give one with a model, a model's name, or {PACKAGED}", file=path)
    return _fetchable(name)


def _fetchable(name: str) -> str:
    from transformers import AutoConfig

    try:
        AutoConfig.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"no base model {name!r} here, and it cannot be fetched; give a folder, or {PACKAGED}"
        ) from error
    return name


def packaged_weights(folder: Path | None = None) -> Path:
    """SmolLM2's weights as transformers reads them, converted when they are first asked for.

    Raises `ServerUnavailable` when the package is missing, and `InvalidInput` when gguf is, which reads its file.
    """
    source = SMOLLM2.weights()
    folder = folder or user_cache("models") / SMOLLM2.name
    if not (folder / "config.json").is_file():
        if importlib.util.find_spec("gguf") is None:
            raise InvalidInput(f"{PACKAGED} needs the package gguf to be converted: run `make install`")
        folder.parent.mkdir(parents=True, exist_ok=True)
        convert(source, folder)
    return folder


def load_tokenizer(name: str) -> Any:
    """A model's tokenizer, made ready for our conversations. Raises `InvalidInput` when there is none."""
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InvalidInput("its tokenizer cannot be loaded", file=name) from error
    ready(tokenizer)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_model(name: str) -> Any:
    """A causal language model in float32: what trains in bfloat16 keeps its weights in full precision."""
    import torch
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
    except (OSError, ValueError, json.JSONDecodeError) as error:
        raise InvalidInput("its weights cannot be loaded", file=name) from error
