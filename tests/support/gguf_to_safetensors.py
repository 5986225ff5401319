"""A GGUF file as a folder of plain weights and tokenizer, which vLLM can serve.

    python tests/support/gguf_to_safetensors.py WEIGHTS.gguf FOLDER

runs in an environment with transformers, gguf and accelerate: that of vLLM, not ours.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # ours is not installed there
    from trailforge.training.gguf_weights import convert

    convert(Path(sys.argv[1]), Path(sys.argv[2]))
