"""Lines for whoever started a training. On standard error: the command line shows no logs."""

from __future__ import annotations

import os
import sys


def tell(line: str) -> None:
    """Say something once, whatever the number of processes."""
    if os.environ.get("RANK", "0") == "0":
        print(line, file=sys.stderr, flush=True)
