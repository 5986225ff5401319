"""Measure what an evaluation with the packaged model takes, and check that killing it changes none of its results.

    python -m benchmarks.evaluation_grid --questions 20 --kill-after 4

runs three agents over three back ends on made-up questions of two and three hops, once undisturbed and once killed
after so many finished shards and run again, and prints both tables and seconds. What was finished at the kill has to
be the same afterwards; of two runs the episodes may differ, as the embedded model does not always reply alike.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from tests.support.world import write_questions
from trailforge.evaluation.folder import read_episodes
from trailforge.evaluation.results.metrics import summarize
from trailforge.schemas.agent_episode import AgentEpisode

AGENTS, BACKENDS = ("single_shot", "search_o1", "react"), ("bm25", "dense", "linear_rag")
MEASURES = ("contain_em", "f1", "supporting_recall", "answered", "searches", "calls", "context_tokens")


def main() -> None:
    """Run the evaluation twice, once killed and resumed, and print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--kill-after", type=int, default=4, help="finished shards, of five questions each")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_questions(place / "questions.jsonl", options.questions)
        whole, killed = place / "whole", place / "killed"
        began = time.monotonic()
        subprocess.run(command(place, whole), check=True, stderr=subprocess.DEVNULL)
        print(f"undisturbed: {time.monotonic() - began:,.0f} s")
        process = subprocess.Popen(command(place, killed), stderr=subprocess.DEVNULL)
        while len(list((killed / "shards").glob("*.json"))) < options.kill_after and process.poll() is None:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        finished = episodes(killed)
        began = time.monotonic()
        subprocess.run(command(place, killed), check=True, stderr=subprocess.DEVNULL)
        print(f"after a kill at {options.kill_after} shards: {time.monotonic() - began:,.0f} s")
        show(whole)
        show(killed)
        first, second = episodes(whole), episodes(killed)
        kept = sum(second.get(uid) == row for uid, row in finished.items())
        same = sum(second.get(uid) == row for uid, row in first.items())
        print(f"of {len(finished)} episodes that were finished at the kill {kept} are as they were")
        print(f"of {len(first)} episodes {same} are the same in both runs, but for the clock")


def command(place: Path, out: Path) -> list[str]:
    """Return the command line of the evaluation."""
    words = [sys.executable, "-m", "trailforge.cli", "evaluate", str(place / "questions.jsonl"), "--preset", "demo"]
    return [*words, "--out", str(out), *(f"--agent={a}" for a in AGENTS), *(f"--backend={b}" for b in BACKENDS)]


def episodes(folder: Path) -> dict[str, AgentEpisode]:
    """Return the episodes of an evaluation's folder by uid, without their seconds."""
    return {
        row.uid: replace(
            row,
            searches=tuple(replace(search, seconds=0.0) for search in row.searches),
            costs=replace(row.costs, seconds=None),
        )
        for row in read_episodes(folder)
    }


def show(folder: Path) -> None:
    """Print the table of an evaluation's folder."""
    cells: dict[tuple[str, str], list[AgentEpisode]] = defaultdict(list)
    for row in read_episodes(folder):
        cells[row.agent, row.backend].append(row)
    print(f"{'agent':<12} {'back end':<11}", *(f"{name:>17}" for name in MEASURES))
    for (agent, backend), rows in sorted(cells.items()):
        means = [summarize(rows).measures[name] for name in MEASURES]
        print(f"{agent:<12} {backend:<11}", *(f"{spread.mean:17.3f}" if spread else f"{'':>17}" for spread in means))


if __name__ == "__main__":
    main()
