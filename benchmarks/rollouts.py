"""Measure how much longer many episodes at once take than the longest alone: scripted model, searches through
`serve-search`.

Synthetic passages of 100 words by Zipf's law under BM25, no query twice, nothing cached; agents and server are a
process each. The model takes as long for every turn: `turn by turn` as a server that is asked for each by itself, `in
batches` as an engine in the trainer's process, which gets what waits whenever it is free. `alone` is the longest
episode by itself. Of each the best of several rounds.

    make bench B=rollouts
    make bench B=rollouts ARGS="--episodes 128 --turn 1.0 --cache FOLDER"
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from itertools import islice
from pathlib import Path

from _zipf import build_over_passages, make_queries, serving

from tests.support.timed_agents import Script, TimedGenerator, TimedServer, time_episodes
from trailforge.protocols import REACT
from trailforge.protocols.environment import EnvironmentConfig
from trailforge.training.search_sources import open_training_environment
from trailforge.training.weights import base_model, load_tokenizer


def main() -> None:
    """Build, serve and measure; prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=50_000)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--turn", type=float, default=0.2, help="seconds that the model takes for one")
    parser.add_argument("--most-turns", type=int, default=11, help="of an episode; others have 2 at least")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokenizer", default="smollm2")
    parser.add_argument("--cache", type=Path, help="folder that keeps the index for the next time")
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # what is read comes a text at a time
    dice = random.Random(0)
    turns = [options.most_turns, *(dice.randint(2, options.most_turns) for _ in range(options.episodes - 1))]
    tokenizer = load_tokenizer(base_model(options.tokenizer))
    with tempfile.TemporaryDirectory(prefix="trailforge-rollouts-") as scratch:
        folder = (options.cache or Path(scratch)) / f"zipf-{options.passages}"
        build_over_passages(folder, options.passages)
        queries = make_queries(options.passages)
        print(
            f"{options.passages:,} passages, {options.episodes} episodes of 2 to {options.most_turns} turns "
            f"({sum(turns)} in all) of {options.turn:g} s, {os.cpu_count()} cores.\n"
        )
        print("| | alone | all | all / alone | tokens | load |\n|---|---:|---:|---:|---:|---:|", flush=True)
        with serving(folder) as (url, _):
            environment = open_training_environment(REACT.name, [], search=EnvironmentConfig(kind=url), top_k=5)
            for name, kind in (("turn by turn", TimedServer), ("in batches", TimedGenerator)):
                rows = []
                for _ in range(options.rounds):
                    script = Script([list(islice(queries, count - 1)) for count in turns], tokenizer, options.turn)
                    assert script.numbers and script.turns
                    alone, _ = time_episodes(script, kind(script), environment, [0])
                    script = Script([list(islice(queries, count - 1)) for count in turns], tokenizer, options.turn)
                    assert script.numbers and script.turns
                    together, episodes = time_episodes(script, kind(script), environment, range(len(turns)))
                    assert all(each.run.stop == "answered" for each in episodes)
                    tokens = sum(len(each.ids) for each in episodes)
                    rows.append((together / alone, alone, together, tokens, os.getloadavg()[0]))
                ratio, alone, together, tokens, load = min(rows)
                print(
                    f"| {name} | {alone:.2f} s | {together:.2f} s | {ratio:.2f} | {tokens:,} | {load:.1f} |", flush=True
                )


if __name__ == "__main__":
    main()
