"""Measure whether two rounds of quotas (`trailforge demand`) make an agent's failures rarer than rounds without quotas
do.

The agent is scripted, and learns from data: it searches a world by BM25 in the words of each sub-question, and takes
the first passage. Where that is about something else, it searches once more in the wording that found the right
document most often for this relation in the questions that it was trained on (`searches.jsonl`); of a relation for
which it saw none it believes the first passage. Both arms begin with the same questions. In each of two rounds the
agent is evaluated on a world of its own, `trailforge demand` makes quotas of that by relation and failure, and a new
world is written: by the quotas, or, in the control, as many questions without. The test set, a further world, is
written first, and its hash is the same at the end. An interval is a bootstrap over its questions.

    make bench B=demand
    make bench B=demand ARGS="--seeds 0 1 2 --questions 60 --test-questions 400"
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks._demanded import Played, evaluate, run_demand
from tests.support.world_agent import WorldFolder
from trailforge.generators.kg_questions.worlds import WorldConfig, make_world
from trailforge.pipelines.engine.files import sha256_of
from trailforge.pipelines.sources.demand import NOT_DEMANDED, Demand, relation_of, traits_of
from trailforge.retrieval.kg import build_kg, open_source
from trailforge.schemas import Passage, Question

SAMPLE = Path(__file__).resolve().parents[1] / "sample_data" / "kg"
_DRAWS = 2000


@dataclass(slots=True)
class Learner:
    """The scripted agent, with the search wordings that it has learnt for each relation."""

    wordings: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def learn(self, world: WorldFolder) -> None:
        """Learn from all questions of a world which wording finds the right document for each relation."""
        for search in (each for found in world.searches.values() for each in found if each["is_misled"]):
            if search["title"] in search["reworded"]:
                self.wordings[self._key(search)][search["reworded"].replace(search["title"], "{x}")] += 1

    def play(self, world: WorldFolder, question: Question) -> Played:
        """Return an episode of the agent: what each search found, and the answer."""
        brought: list[Passage] = []
        for search in world.searches[question.id]:
            passage = world.search(search["query"], 1)[0]
            if passage.title != search["title"] and (known := self.wordings.get(self._key(search))):
                (wording, _) = known.most_common(1)[0]
                passage = world.search(wording.replace("{x}", search["title"]), 1)[0]
            brought.append(passage)
            if passage.title != search["title"]:
                return Played(question=question, brought=brought, answer=passage.title)
        return Played(question=question, brought=brought, answer=question.answer)

    def _key(self, search: dict[str, Any]) -> str:
        return relation_of(search["query"].replace(search["title"], "#1"))


@dataclass(frozen=True, kw_only=True)
class Arm:
    """What was measured of one arm of the experiment, with quotas or without."""

    right: dict[str, bool]
    """Of the test questions by id, at the end."""
    weak_share: list[float]
    """Of the questions of each round, those of a relation that the first demand asks for."""


def main() -> None:
    """Run both arms for each seed and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--questions", type=int, default=60, help="of the beginning, and of each round")
    parser.add_argument("--test-questions", type=int, default=400, help="of the test set, and of evaluations")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        kg = Path(temporary) / "kg"
        build_kg(open_source(SAMPLE), kg)
        for seed in options.seeds:
            _compare(kg, Path(temporary) / str(seed), seed, options)


def _compare(kg: Path, place: Path, seed: int, options: argparse.Namespace) -> None:
    place.mkdir()
    test = _world(kg, place / "test", options.test_questions, 100 * seed + 1)
    frozen = [sha256_of(test.folder / name) for name in ("questions.jsonl", "corpus.jsonl")]
    seen = _world(kg, place / "seen", options.test_questions, 100 * seed + 2)
    first = _world(kg, place / "first", options.questions, 100 * seed + 3)
    before = Learner()
    before.learn(first)
    weak = _quotas(before, seen, place / "weak")
    relations = {quota.relation for quota in weak.quotas if quota.relation}
    arms = {
        name: _rounds(kg, place, name, (first, seen, test), relations, seed, options) for name in ("demand", "control")
    }
    assert frozen == [sha256_of(test.folder / name) for name in ("questions.jsonl", "corpus.jsonl")]
    asked = [each.id for each in test.questions() if traits_of(each).relation in relations]
    started = {each.id: before.play(test, each).is_right for each in test.questions()}
    print(f"\nseed {seed}: test set {frozen[0][:12]}; {len(relations)} weak relations, {len(asked)} questions of them")
    print(f"before: {_share(started, asked):.3f} of these right, {_share(started, list(started)):.3f} of all")
    for name, arm in arms.items():
        shares = ", ".join(f"{share:.2f}" for share in arm.weak_share)
        print(f"{name}: weak share by round {shares}; right: {_share(arm.right, asked):.3f}", end="")
        print(f" of the weak, {_share(arm.right, list(arm.right)):.3f} of all", flush=True)
    for what, ids in (("weak", asked), ("all", list(started))):
        low, high = _interval([arms["demand"].right[id] - arms["control"].right[id] for id in ids], seed)
        difference = _share(arms["demand"].right, ids) - _share(arms["control"].right, ids)
        print(f"demand - control, {what}: {difference:+.3f} ({low:+.3f} to {high:+.3f})", flush=True)


def _rounds(
    kg: Path,
    place: Path,
    name: str,
    worlds: tuple[WorldFolder, WorldFolder, WorldFolder],
    weak: set[str],
    seed: int,
    options: argparse.Namespace,
) -> Arm:
    first, seen, test = worlds
    agent, shares = Learner(), [_weak_share(first, weak)]
    agent.learn(first)
    for number in range(options.rounds):
        demand = _quotas(agent, seen, place / f"{name}-{number}-seen") if name == "demand" else NOT_DEMANDED
        made = _world(kg, place / f"{name}-{number}", options.questions, 100 * seed + 10 + number, demand)
        shares.append(_weak_share(made, weak))
        agent.learn(made)
    return Arm(right={each.id: agent.play(test, each).is_right for each in test.questions()}, weak_share=shares)


def _world(kg: Path, out: Path, questions: int, seed: int, demand: Demand = NOT_DEMANDED) -> WorldFolder:
    size = {"questions": questions, "hops": (1, 2), "distractors": 100}
    make_world(kg, out, WorldConfig(**size, names="invented", seed=seed, demand=demand))
    return WorldFolder(out)


def _quotas(agent: Learner, seen: WorldFolder, place: Path) -> Demand:
    """What the agent fails at there, by the command."""
    evaluate([agent.play(seen, each) for each in seen.questions()], place)
    how = ("--by", "relation,failure", "--least", "2", "--most", "15", "--keep", "0.2")
    return run_demand(place, seen.folder / "questions.jsonl", how)


def _weak_share(world: WorldFolder, relations: set[str]) -> float:
    found = [traits_of(each).relation in relations for each in world.questions()]
    return sum(found) / len(found)


def _share(right: dict[str, bool], ids: list[str]) -> float:
    return sum(right[each] for each in ids) / max(1, len(ids))


def _interval(differences: list[int], seed: int) -> tuple[float, float]:
    """95 %, of the mean."""
    dice, count = random.Random(seed), len(differences)
    means = sorted(sum(dice.choices(differences, k=count)) / count for _ in range(_DRAWS))
    return means[int(0.025 * _DRAWS)], means[int(0.975 * _DRAWS)]


if __name__ == "__main__":
    main()
