"""Measure whether the questions of a world can be brought into a band of difficulty, for agents of known strength.

The agents were fixed before anything was measured. Each follows the gold hops by BM25 and takes the first passage;
where a look-alike is first, it notices with a chance of its own, and then searches in the wording that the world
names; what it reads it misreads with another chance. *Attempts* are its draws on a question.

Round by round a world is written, each question gets its attempts, and `trailforge demand --pass-rate` keeps those in
the band and gives the others back for harder or easier ones, by whose quotas the next world is written. It ends when
there are enough, or after `--rounds`. Then all that were kept are drawn on anew: the share that is in the band again
tells how far it was met, and what the first world alone would have given stands beside it.

    make bench B=bands
    make bench B=bands ARGS="--questions 200 --attempts 8 --band 0.1..0.7"
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks._demanded import Played, evaluate, run_demand
from tests.support.world_agent import WorldFolder
from trailforge.generators.kg_questions.worlds import WorldConfig, make_world
from trailforge.pipelines.sources.demand import NOT_DEMANDED
from trailforge.retrieval.kg import build_kg, open_source
from trailforge.schemas import Passage, Question
from trailforge.training.sets.config import WantedRange

SAMPLE = Path(__file__).resolve().parents[1] / "sample_data" / "kg"
_FRESH = 1000
"""Seeds of fresh draws begin here."""


@dataclass(frozen=True, kw_only=True)
class Strength:
    """The strength of a scripted agent: how often it notices a look-alike document, and how often it misreads what it
    found.
    """

    notices: float
    misreads: float

    def play(self, world: WorldFolder, question: Question, seed: int) -> Played:
        """Return one attempt of this agent at a question."""
        dice, brought = random.Random(f"{question.id} {seed}"), list[Passage]()
        for search in world.searches[question.id]:
            passage = world.search(search["query"], 1)[0]
            brought.append(passage)
            if passage.title != search["title"] and dice.random() < self.notices:
                passage = world.search(search["reworded"], 1)[0]
                brought.append(passage)
            if passage.title != search["title"] or dice.random() < self.misreads:
                return Played(question=question, brought=brought, answer="something else", seed=seed)
        return Played(question=question, brought=brought, answer=question.answer, seed=seed)


AGENTS = {"weak": Strength(notices=0.3, misreads=0.2), "strong": Strength(notices=0.6, misreads=0.05)}


def main() -> None:
    """Measure each agent by itself, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--attempts", type=int, default=8)
    parser.add_argument("--band", default="0.1..0.7")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--agents", nargs="+", default=list(AGENTS), choices=AGENTS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        kg = Path(temporary) / "kg"
        build_kg(open_source(SAMPLE), kg)
        for name in options.agents:
            _aim(kg, Path(temporary) / name, name, options)


def _aim(kg: Path, place: Path, name: str, options: argparse.Namespace) -> None:
    place.mkdir()
    agent, band = AGENTS[name], WantedRange.read(options.band, "--band")
    kept: list[tuple[WorldFolder, Question]] = []
    demand, searches, written = NOT_DEMANDED, 0, 0
    for number in range(options.rounds):
        out = place / str(number)
        wanted = options.questions - len(kept)
        size = {"questions": max(40, 2 * wanted if number else wanted), "hops": (1, 2, 3), "distractors": 100}
        make_world(kg, out, WorldConfig(**size, names="invented", seed=options.seed + number, demand=demand))
        world = WorldFolder(out)
        asked = world.questions()
        played = [agent.play(world, each, seed) for each in asked for seed in range(options.attempts)]
        searches += sum(len(each.brought) for each in played)
        written += len(asked)
        evaluate(played, place / f"evaluation-{number}")
        how = ("--pass-rate", options.band, "--kept", str(place / f"kept-{number}.jsonl"), "--keep", "0.05")
        demand = run_demand(place / f"evaluation-{number}", out / "questions.jsonl", how)
        lines = (place / f"kept-{number}.jsonl").read_text(encoding="utf-8").splitlines()
        ids = {json.loads(line)["id"] for line in lines}
        inside = [each for each in asked if each.id in ids]
        print(f"{name}, round {number + 1}: {len(inside)} of {len(asked)} in {band}", flush=True)
        kept += [(world, each) for each in inside[:wanted]]
        if len(kept) >= options.questions:
            break
    again = 0
    for world, question in kept:
        drawn = [agent.play(world, question, _FRESH + seed).is_right for seed in range(options.attempts)]
        again += sum(drawn) / len(drawn) in band
    print(
        f"{name}: {len(kept)} kept of {written} written; {searches / len(kept):.1f} searches and "
        f"{written * options.attempts / len(kept):.1f} attempts for each; on fresh draws {again / len(kept):.1%} "
        f"are in the band",
        flush=True,
    )


if __name__ == "__main__":
    main()
