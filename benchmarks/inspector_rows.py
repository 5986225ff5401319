"""Rows for curators: seconds and memory to open a table of a million rows, show one, sample, list the lowest, search.

Writes a table of made-up trajectories, each with a conversation of a few turns, in the files and row groups that runs
have, once; then measures each act on it in a process of its own, so that the memory is that act's peak. The files
are in the system's cache as far as they fit.

    make bench B=inspector_rows
    make bench B=inspector_rows ARGS="--rows 100000 --files 2000 --keep /tmp/rows"
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np

from inspector.table_index import TableIndex
from schemas import Message, Provenance, Step, Trajectory, TrajectoryReward, write_parquet

_TABLE = "mcts_trajectories"
_WORDS = [f"word{number}" for number in range(5000)]


def main() -> None:
    """One table: a line for each act."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--words", type=int, default=60, help="of each of six messages")
    parser.add_argument("--keep", type=Path, help="folder of the rows, made when it is not there")
    parser.add_argument("--act", choices=_ACTS, help="measure this alone, here")
    options = parser.parse_args()
    if options.act:
        _measure(options.keep, options.act)
        return
    folder = options.keep or Path(tempfile.mkdtemp(prefix="trailforge-rows-"))
    try:
        if not (folder / "manifest.json").exists():
            _write(folder, options.rows, options.files, options.words)
        print("| act | seconds | peak memory, MiB | came to |\n|---|---:|---:|---|", flush=True)
        for act in _ACTS:
            command = [sys.executable, __file__, "--keep", str(folder), "--act", act]
            print(subprocess.run(command, check=True, capture_output=True, text=True).stdout, end="", flush=True)
    finally:
        if options.keep is None:
            shutil.rmtree(folder)


def _row(number: int, words: Callable[[], str]) -> Trajectory:
    """A trajectory of two steps, as long as those of a run."""
    roles = ("system", "user", "assistant", "tool", "assistant", "assistant")
    messages = tuple(Message(role=role, content=words(), train=role == "assistant") for role in roles)
    return Trajectory(
        uid=f"{number:016x}", question_id=f"q{number // 2}", question=words()[:80], answer="A", answer_aliases=(),
        kind="correct", reflection_error=None, origin="policy", plan=("one", "two"), wrong_plan=None,
        steps=tuple(
            Step(index=n, sub_question="one", query="one", passages=(), answer="A", is_mistake=False) for n in range(2)
        ),
        messages=messages, final_answer="A", num_tool_calls=2, num_hops=2, token_estimate=number % 997,
        reward=TrajectoryReward(total=1.0, exact_match=1.0, f1=(number * 7919 % 1000) / 1000, cover_exact_match=1.0),
        step_pair=None, wrong_rollout=None, right_rollout=0, diverges_at=None,
        provenance=Provenance(run_id="r", source_id="s", model="m", prompt_version="p", seed=0, call_keys=()),
    )  # fmt: skip


def _write(folder: Path, rows: int, files: int, words: int) -> None:
    """Texts are drawn from 5,000 made-up ones."""
    rng = random.Random(0)
    (folder / _TABLE).mkdir(parents=True, exist_ok=True)
    texts = [" ".join(rng.choices(_WORDS, k=words)) for _ in range(5000)]
    entries, begun = [], time.monotonic()
    cuts = np.linspace(0, rows, files + 1).astype(int).tolist()
    for first, last in pairwise(cuts):
        path = folder / _TABLE / f"part-{len(entries):05d}-{first:012x}.parquet"
        write_parquet(path, Trajectory, [_row(number, lambda: rng.choice(texts)) for number in range(first, last)])
        entries.append({"path": f"{_TABLE}/{path.name}", "rows": last - first})
    (folder / "manifest.json").write_text(json.dumps({"files": entries}))
    size = sum(path.stat().st_size for path in (folder / _TABLE).iterdir())
    seconds = time.monotonic() - begun
    print(f"{rows:,} rows in {files:,} files, {size / 2**20:,.0f} MiB, written in {seconds:.0f} s\n", flush=True)


_ACTS: dict[str, Callable[[TableIndex], object]] = {
    "open and count": len,
    "row in the middle": lambda index: index.row(len(index) // 2)["uid"],
    "20 rows by chance, read": lambda index: len([index.row(n) for n in index.at_random(20, 0)]),
    "row by its uid, the last": lambda index: index.find(f"{len(index) - 1:016x}"),
    "the 100 lowest by reward.f1": lambda index: len(index.lowest("reward.f1", 100)),
    "rows of one kind": lambda index: len(index.matching("kind", "correct")),
    "search for a frequent word": lambda index: len(index.search("WORD77 ").rows),
    "search for what is nowhere, 2 s": lambda index: index.search("no such text").searched,
}


def _measure(folder: Path, act: str) -> None:
    """Open the table and do it; prints its line."""
    begun = time.monotonic()
    came_to = _ACTS[act](TableIndex(folder, _TABLE))
    seconds = time.monotonic() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"| {act} | {seconds:.2f} | {peak:,.0f} | {came_to} |")


if __name__ == "__main__":
    main()
