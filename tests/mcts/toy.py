"""A toy world for search tests: no model, only tables."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from trailforge.mcts.contrasts import PLAIN, Variation
from trailforge.mcts.inputs import Proposal, Simulation
from trailforge.mcts.plan import resolve
from trailforge.schemas import Hop, Passage, Plan, Question, Step

QUESTION = Question(
    id="toy",
    question="Where was the director of the film of the year born?",
    answer="Vienna",
    decomposition=(
        Hop(question="What is the film of the year?", answer="Metropolis"),
        Hop(question="Who directed #1?", answer="Lang"),
        Hop(question="Where was #2 born?", answer="Vienna"),
    ),
)


class ToyPolicy:
    """Splits by table; everything in the table is decomposable."""

    def __init__(self, splits: dict[str, list[tuple[str, str]]]) -> None:
        self.splits = splits
        self.judged: list[str] = []

    async def judge(self, sub_questions: Sequence[str]) -> Sequence[bool | None]:
        self.judged.extend(sub_questions)
        return [sub_question in self.splits for sub_question in sub_questions]

    async def propose(self, sub_question: str, count: int) -> Proposal:
        return Proposal(splits=tuple(self.splits.get(sub_question, [])[:count]))


GOOD_SPLITS = {
    QUESTION.question: [
        ("Who is the director of the film of the year?", "Where was [E] born?"),
        ("What is the film of the year?", "Where was the director of [E] born?"),
    ],
    "Who is the director of the film of the year?": [("What is the film of the year?", "Who directed [E]?")],
    "Where was the director of #1 born?": [("Who directed #1?", "Where was [E] born?")],
}


def simulation(plan: Plan, answers: list[str], reward: float, variation: Variation = PLAIN) -> Simulation:
    """A rollout with one passage a step."""
    known = {i + 1: answer for i, answer in enumerate(answers)}
    steps = tuple(
        Step(
            index=i,
            sub_question=text,
            query=resolve(text, known),
            passages=(Passage(id=f"p{i}", title="t", text=answers[i], score=1.0),),
            answer=answers[i],
        )
        for i, text in enumerate(plan.sub_questions)
    )
    return Simulation(
        steps=steps, answer=answers[-1], reward=reward, variation=variation.kind, varied_step=variation.step
    )


def coin_roll_out(chance: float, seed: int) -> Callable:
    """Rollouts that are right with a chance, the same for the same plan and number."""

    async def roll_out(plan: Plan, variation: Variation) -> Simulation:
        rng = random.Random(f"{seed}:{plan.sub_questions}:{variation.sample}")
        right = rng.random() < chance
        answers = [f"a{rng.randrange(3)}" for _ in plan.sub_questions[:-1]] + [
            "Vienna" if right else f"no{rng.randrange(9)}"
        ]
        return simulation(plan, answers, float(right), variation)

    return roll_out
