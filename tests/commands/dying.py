"""`trailforge` that kills itself (-9) at a rename, the last step of every file and folder it makes.

python -m tests.commands.dying NUMBER before|after ARGUMENT…    NUMBER counts renames from 1
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from trailforge import cli

_replace = os.replace


def main(number: int, moment: str, arguments: list[str]) -> None:
    """Run the command up to there."""
    renames = 0

    def dying(source: Any, target: Any) -> None:
        nonlocal renames
        renames += 1
        if renames == number and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        _replace(source, target)
        if renames == number:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = dying
    cli.main(arguments)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
