"""A GGUF file as a folder of plain weights and tokenizer, which vLLM can serve.

    python tests/support/gguf_to_safetensors.py WEIGHTS.gguf FOLDER

runs in an environment with transformers, gguf and accelerate: that of vLLM, not ours. A quantised file becomes float32.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any


def convert(weights: Path, folder: Path) -> None:
    """Write the folder; it is there whole or not at all."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source, file = str(weights.parent), weights.name
    model: Any = AutoModelForCausalLM.from_pretrained(source, gguf_file=file, dtype=torch.float32)
    model.hf_quantizer = None  # the weights are plain from here on, and are not to be saved as anything else
    vars(model.config).pop("quantization_config", None)
    unfinished = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    model.save_pretrained(unfinished)
    tokenizer: Any = AutoTokenizer.from_pretrained(source, gguf_file=file)
    tokenizer.save_pretrained(unfinished)
    os.replace(unfinished, folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
