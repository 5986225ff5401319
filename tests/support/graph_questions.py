"""A sound question over two facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.support.kg_worlds import DUST
from tests.support.scripted import ScriptedModel
from trailforge.filters.kg.questions import Objections
from trailforge.generators.kg_questions.generate import KgQuestionContext, KgWriterConfig, row_of
from trailforge.generators.kg_questions.wording import compose
from trailforge.inference import Prices
from trailforge.schemas import FactChain, KgQuestion


def context(**changes: Any) -> KgQuestionContext:
    """Of a run whose model says nothing of use, unless told otherwise."""
    fields: dict[str, Any] = {
        "run_id": "r", "model": "scripted", "preset": "test", "seed": 0, "prices": Prices(), "as_of": "2021-05-01",
        "config": KgWriterConfig(kind="templates"), "client": ScriptedModel(lambda request: "UNKNOWN"), "graph": "g",
    }  # fmt: skip
    return KgQuestionContext(**fields | changes)


def question(chain: FactChain = DUST, **changes: Any) -> KgQuestion:
    """Written by rule, then changed."""
    return replace(row_of(compose(chain), chain, context()), **changes)


class FakeReader:
    """Knows the answer at some draws, and says something else at each other."""

    def __init__(
        self,
        *knows: int,
        says: str = "It was Elm City.",
        cut: Sequence[int] = (),
        others: Sequence[str] = (),
        objections: Objections | None = None,
        names: Sequence[str] = (),
    ) -> None:
        """`cut`: draws whose replies are cut; `others`: what it says at first where it does not know; `names`: what it
        names for any description."""
        self.knows, self.says, self.cut, self.others, self.asked = knows, says, cut, others, 0
        self.objections, self.checked = objections or Objections(), 0
        self.names, self.named = tuple(names), list[str]()

    async def answer(self, row: KgQuestion, sample: int) -> str | None:
        """Right where it knows."""
        self.asked += 1
        if sample in self.cut:
            return None
        others = [*self.others, *(f"Firton {number}" for number in range(9))]
        return self.says if sample in self.knows else others[sample]

    async def name(self, question: str) -> tuple[str, ...]:
        """Always the same."""
        self.named.append(question)
        return self.names

    async def check(self, row: KgQuestion) -> Objections:
        """Always the same."""
        self.checked += 1
        return self.objections
