"""Measure how long making a world from a graph takes, and how well perfect, guessing and search-once agents do in it.

*Perfect*: a scripted agent that follows the gold hops by BM25, takes the first passage where it is about what was asked
for, and else searches again in the other words that the world names. *First passage*: the same, but it believes what
is first, whatever it is about. *Guesser*: gives every question the most frequent answer. *At once*: one search in the
question's own words, with as many passages as the world was measured with, has the answer in a passage (questions of
two facts and more).

    make bench B=world
    make bench B=world ARGS="--questions 600 --test-questions 420 --names real --seed 1"
    make bench B=world ARGS="--kg kgs/wikidata5m --hops 1,2,3"
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.support.world_agent import WorldFolder
from trailforge.generators.kg_questions.worlds import WorldConfig, make_world
from trailforge.retrieval.kg import build_kg, open_source

SAMPLE = Path(__file__).resolve().parents[1] / "sample_data" / "kg"


def main() -> None:
    """Make a world, let the four kinds of agents answer its questions, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kg", type=Path, help="folder that `kg build` made (default: the sample graph)")
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--test-questions", type=int, default=0)
    parser.add_argument("--hops", default="1,2")
    parser.add_argument("--comparisons", type=float, default=0.0)
    parser.add_argument("--look-alikes", type=float, default=0.5)
    parser.add_argument("--distractors", type=int, default=500)
    parser.add_argument("--names", choices=("real", "invented"), default="invented")
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    print("| seed | split | questions | documents | wall s | CPU s | perfect | first passage | guesser | at once |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        kg = options.kg or Path(temporary) / "kg"
        if options.kg is None:
            build_kg(open_source(SAMPLE), kg)
        for seed in options.seed:
            config = WorldConfig(
                questions=options.questions,
                test_questions=options.test_questions,
                hops=tuple(map(int, options.hops.split(","))),
                comparisons=options.comparisons,
                look_alikes=options.look_alikes,
                distractors=options.distractors,
                names=options.names,
                seed=seed,
            )
            wall, processor = time.perf_counter(), time.process_time()
            make_world(kg, Path(temporary) / str(seed), config)
            times = time.perf_counter() - wall, time.process_time() - processor
            _print_rows(WorldFolder(Path(temporary) / str(seed)), seed, times)


def _print_rows(world: WorldFolder, seed: int, times: tuple[float, float]) -> None:
    for split in ("questions", "test"):
        if not (world.folder / f"{split}.jsonl").exists():
            continue
        questions = world.questions(split)
        count = len(questions)
        right = sum(map(world.solved, questions))
        first = sum(all(not each["is_misled"] for each in world.searches[question.id]) for question in questions)
        guessed = Counter(question.answer for question in questions).most_common(1)[0][1]
        longer = world.longer(split)
        at_once = sum(map(world.found_at_once, longer))
        share = f"{at_once / len(longer):.1%}" if longer else "–"
        print(
            f"| {seed} | {split} | {count:,} | {len(world.documents):,} | {times[0]:.0f} | {times[1]:.0f} "
            f"| {right / count:.1%} | {first / count:.1%} | {guessed / count:.1%} | {share} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
