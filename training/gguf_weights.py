"""Convert a GGUF file to a folder of plain weights and tokenizer, for transformers and for vLLM."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any


def convert(weights: Path, folder: Path) -> None:
    """Write the folder from a GGUF file, whole or not at all. A quantised file becomes float32.

    It needs transformers, accelerate and gguf, and nothing of this project, since it also runs in the model server's
    environment.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source, file = str(weights.parent), weights.name
    model: Any = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.float32)
    model.hf_quantizer = None  # the weights are plain from here on, and are not to be saved as anything else
    vars(model.config).pop("quantization_config", None)
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}.tmp")
    model.save_pretrained(unfinished)
    tokenizer: Any = AutoTokenizer.from_pretrained(source, gguf_file=file)
    tokenizer.save_pretrained(unfinished)
    try:
        os.replace(unfinished, folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(unfinished)  # another process was faster
