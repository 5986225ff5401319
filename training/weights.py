"""Load the model that a training begins with: a folder, a name that transformers knows, or `smollm2` from its
package.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trailforge.inference.ledgers import Ledger
from trailforge.inference.packaged import SMOLLM2
from trailforge.schemas import InvalidInput, install_hint, located, user_cache
from trailforge.training.chat_marks import END
from trailforge.training.config import TrainerConfig
from trailforge.training.generation import CheckpointClient
from trailforge.training.gguf_weights import convert
from trailforge.training.masks import prepare_tokenizer, teach
from trailforge.training.native import end_with_turns
from trailforge.training.processes import log

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")
PACKAGED = "smollm2"
"""The name of SmolLM2-135M-Instruct, whose weights come as a package, for trying things out."""


def base_model(name: str) -> str:
    """Return what transformers loads for a base model. `smollm2` is converted once and stored in the user's cache.
    Raises `InvalidInput` for a folder without a model and for a name that is neither here nor can be downloaded.
    """
    if name == PACKAGED:
        return str(packaged_weights())
    path = Path(name)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise InvalidInput("holds no model (config.json, weights, tokenizer); give a folder that does", file=path)
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


def packaged_weights() -> Path:
    """Return SmolLM2's weights as transformers reads them, converted when they are first asked for.

    Raises `ServerUnavailable` when the package is missing, and `InvalidInput` when gguf is, which reads its file.
    """
    source = SMOLLM2.weights()
    folder = user_cache("models") / SMOLLM2.name
    if not (folder / "config.json").is_file():
        if importlib.util.find_spec("gguf") is None:
            raise InvalidInput(f"{PACKAGED} needs the package gguf to be converted: {install_hint('train')}")
        folder.parent.mkdir(parents=True, exist_ok=True)
        convert(source, folder)
    return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A model with its tokenizer, prepared for our conversations."""

    name: str
    tokenizer: Any
    model: Any
    own_template: str | None = None
    """The model's own chat template, before ours took its place; None: it has none."""
    added: tuple[str, ...]
    """ChatML tokens that the model's tokenizer did not know. They have weights, which nothing has trained."""

    def check_learns(self, config: TrainerConfig) -> None:
        """Raise `InvalidInput` when tokens were added and only adapters, which cannot learn them, would be trained and
        saved.
        """
        if self.added and config.lora is not None:
            raise InvalidInput(
                f"{self.name} has to learn {' and '.join(self.added)}, which adapters do not: train all weights "
                "(no lora), or take a model that speaks ChatML",
                field="sft.lora",
            )


def load_base(name: str, *, attention: str | None = None) -> Base:
    """Load a model to train or to evaluate.

    Both ChatML tokens are added where its tokenizer does not know them. The end of a turn is initialised as a copy of
    the token by which the model ended its texts so far, the start of one as the mean of all tokens. Raises
    `InvalidInput` when there is no such model, or its tokenizer changes text.
    """
    tokenizer, model = _tokenizer(name), load_model(name, attention=attention)
    known, ended_with = len(tokenizer), tokenizer.eos_token_id
    if added := teach(tokenizer):
        log(f"{name}: its tokenizer does not know {' and '.join(added)}: added, to be learnt in the training")
        _give_weights(model, tokenizer, added, known, ended_with)
    own = tokenizer.chat_template
    _make_ready(tokenizer, name)
    return Base(name=name, tokenizer=tokenizer, model=model, own_template=own, added=tuple(added))


def open_checkpoint(folder: str, ledger: Ledger) -> CheckpointClient:
    """Open a folder's model in this process to answer requests, on the accelerator where there is one. Raises what
    `load_base` raises.
    """
    import torch

    base = load_base(folder)
    if torch.cuda.is_available():
        base.model.to("cuda")
    return CheckpointClient(base.model, base.tokenizer, ledger)


def load_tokenizer(name: str) -> Any:
    """Load a model's tokenizer, prepared for our conversations. Raises `InvalidInput` when that is impossible."""
    tokenizer = _tokenizer(name)
    _make_ready(tokenizer, name)
    return tokenizer


def load_own_tokenizer(name: str) -> Any:
    """Load a model's tokenizer with its own chat template, for native calls; turns end with its end of sequence.

    Raises `InvalidInput` as `native.form_of` does.
    """
    tokenizer = _tokenizer(name)
    with located(file=name):
        end_with_turns(tokenizer)
    return tokenizer


_FETCH_AGAIN = "fetch or copy its files again, or take another model"


def _reason_of(error: Exception) -> str:
    """The first line of what transformers says."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _tokenizer(name: str) -> Any:
    from transformers import AutoTokenizer

    folder = Path(name)
    # Where config.json names a model, transformers would make an empty tokenizer of its kind.
    if folder.is_dir() and not any((folder / file).is_file() for file in _TOKENIZER_FILES):
        raise InvalidInput(f"holds no tokenizer ({', '.join(_TOKENIZER_FILES)}); copy the model's there", file=name)
    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"its tokenizer cannot be loaded ({_reason_of(error)}); {_FETCH_AGAIN}", file=name
        ) from error


def _make_ready(tokenizer: Any, name: str) -> None:
    with located(file=name):
        prepare_tokenizer(tokenizer)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token


def _give_weights(model: Any, tokenizer: Any, added: Sequence[str], known: int, ended_with: int | None) -> None:
    """Of the first `known` tokens all have weights. Many models have rows to spare behind them, which are taken."""
    import torch

    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    with torch.no_grad():
        for layer in (model.get_input_embeddings(), model.get_output_embeddings()):
            for token in added:
                place = tokenizer.convert_tokens_to_ids(token)
                if place >= known:
                    is_end = token == END and ended_with is not None
                    layer.weight[place] = layer.weight[ended_with] if is_end else layer.weight[:known].mean(dim=0)


def load_model(name: str, *, attention: str | None = None) -> Any:
    """Load a causal language model in float32, since training in bfloat16 keeps its weights in full precision.
    `attention` is the kernel, as `training.config.Attention`. Raises `InvalidInput` when there is no such model, or no
    such kernel.
    """
    import torch
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32, attn_implementation=attention)
    except ImportError as error:
        raise InvalidInput(f"{attention} is not installed here; install it, or take sdpa", field="attention") from error
    except (OSError, ValueError, json.JSONDecodeError) as error:
        raise InvalidInput(f"its weights cannot be loaded ({_reason_of(error)}); {_FETCH_AGAIN}", file=name) from error
