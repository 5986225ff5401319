"""Measure how busy a run keeps a model server: `busy` is the share of its slots at work, from first call to last reply.

A scripted model behind a real HTTP server on loopback, with log-normal latencies, answers the production preset on made
up questions; the whole command runs, ledger, retrieval and filters included.

    make bench B=scheduler
    make bench B=scheduler ARGS="--questions 200 --slots 64 --latency 2 --set schedule.questions_in_flight=32"
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from tests.support.model_server import running, stats
from tests.support.world import write_questions
from trailforge.presets import load_preset

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Run the whole command once over made-up questions, and print how busy it kept the server's slots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--latency", type=float, default=2.0, help="mean seconds of a call")
    parser.add_argument("--spread", type=float, default=0.5, help="sigma of the log-normal factor")
    parser.add_argument("--error-rate", type=float, default=0.3, help="share of wrong answers")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="on top of the preset")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as scratch,
        running(
            latency=options.latency, spread=options.spread, slots=options.slots, error_rate=options.error_rate
        ) as url,
    ):
        folder = Path(scratch)
        write_questions(folder / "questions.jsonl", options.questions, hops=(2, 3, 4))
        (folder / "preset.yaml").write_text(yaml.safe_dump(_preset(options.slots, options.set)))
        started = time.monotonic()
        _generate(folder, url)
        seconds, seen = time.monotonic() - started, stats(url)
    print(
        f"{options.questions} questions, {options.slots} slots, {options.latency} s a call (sigma {options.spread}): "
        f"{seen['calls']:.0f} calls in {seen['seconds']:.1f} s ({seconds:.1f} s with start and finish), "
        f"busy {seen['busy_fraction']:.1%}; by tenth of the run: "
        + " ".join(f"{share:.0%}" for share in seen["busy_by_tenth"])
    )


def _preset(slots: int, changes: list[str]) -> dict:
    preset = load_preset("msearcher", "mcts_trajectories")
    preset["model"] |= {
        "name": "scripted",
        "max_in_flight": slots + slots // 4,
    }  # what waits at the server fills its gaps
    for change in changes:
        path, value = change.split("=", 1)
        *sections, key = path.split(".")
        at = preset
        for section in sections:
            at = at.setdefault(section, {})
        at[key] = yaml.safe_load(value)
    return preset


def _generate(folder: Path, url: str) -> None:
    command = [sys.executable, "-m", "trailforge", "mcts-trajectories", "--questions", folder / "questions.jsonl",
               "--preset", folder / "preset.yaml", "--model", url, "--out", folder / "out"]  # fmt: skip
    subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
