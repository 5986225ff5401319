"""Appends decisions to a run's log until it is killed, telling each on its standard output once it is on disk."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from trailforge.curation.decisions import append, now
from trailforge.schemas import Decision


def main(folder: str, who: str) -> None:
    """Rows are numbered from 0."""
    for number in count():
        comment = "long " * 200
        decision = Decision(
            run_id="run", table="t", uid=str(number), who=who, when=now(), action="comment", comment=comment
        )
        append(Path(folder), [decision])
        print(number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
