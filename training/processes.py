"""The processes that train together, as `accelerate launch` and torchrun start them."""

from __future__ import annotations

import os
import sys
from typing import Any


def processes() -> int:
    """Return the number of processes that train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def process_rank() -> int:
    """Return the number of this process among those that train together, from 0."""
    return int(os.environ.get("RANK", "0"))


def is_main_process() -> bool:
    """Tell whether this process is the one that writes files."""
    return process_rank() == 0


def log(line: str) -> None:
    """Print a line on standard error, once whatever the number of processes, since the command line shows no logs."""
    if is_main_process():
        print(line, file=sys.stderr, flush=True)


def is_anywhere(here: bool, device: Any) -> bool:
    """Tell whether `here` is true in any of the processes, all of which have to call this."""
    if processes() == 1:
        return here
    import torch
    import torch.distributed

    flag = torch.tensor([int(here)], device=device)
    torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MAX)
    return bool(flag.item())
