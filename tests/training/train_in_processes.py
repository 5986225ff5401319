"""A short supervised training, to be started by torchrun: SET MODEL OUT."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.training.tiny import preset
from trailforge.training.trl.offline import train_sft

if __name__ == "__main__":
    rows, model, out = sys.argv[1:]
    train_sft(Path(rows), preset(sft={"epochs": 4}), Path(out), base_model=model, max_steps=2)
