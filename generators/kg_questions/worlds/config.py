"""Settings of how many documents and questions a world has, and of which kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trailforge.generators.kg_questions.paths.config import MOST_HOPS
from trailforge.pipelines.sources import NOT_DEMANDED, Demand
from trailforge.schemas import InvalidInput, check_least

NameStyle = Literal["real", "invented"]
"""Whether entities have the graph's own names, or made-up ones that no model has read of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldConfig:
    """Sizes of a world, and the shares of its kinds of questions. Raises `InvalidInput`."""

    questions: int = 1000
    test_questions: int = 0
    """Number of further questions, about entities that the others have nothing to do with; years aside."""
    hops: tuple[int, ...] = (1, 2)
    """Numbers of facts of a question, 1 to 4; all are equally frequent."""
    comparisons: float = 0.0
    """Share of questions that compare the years of two things. Their answers stand in the question itself."""
    intersections: float = 0.1
    """Share of paths in which two chains meet, among those of two hops or more: one search answers such a meeting."""
    blurred: float = 0.0
    """Share of the questions of two hops or more, comparisons aside, that describe what they start from by two or three
    facts and do not name it: one hop of them is to find it."""
    look_alikes: float = 0.5
    """Share of questions for which a search in the words of one sub-question has the document of a look-alike first,
    and another wording the right one. For all others the right document is first at every hop."""
    found_at_once: float = 0.25
    """Share of the questions of two hops or more, comparisons aside, that one search in their own words may answer."""
    distractors: int = 500
    """Fewest documents of entities that no question needs, as far as the graph has them."""
    max_facts: int = 4
    """Most facts of a document, unless questions need more of it."""
    passages: int = 5
    """Number of passages of a search, wherever searches are measured."""
    names: NameStyle = "real"
    seed: int = 0
    demand: Demand = NOT_DEMANDED
    """Quotas of the questions, in the place of `hops`, `comparisons` and, where a quota says so, `look_alikes`; test
    questions are as these say all the same."""

    def __post_init__(self) -> None:
        if not self.hops or not all(1 <= hops <= MOST_HOPS for hops in self.hops):
            raise InvalidInput(f"must be numbers from 1 to {MOST_HOPS}", field="hops")
        for name in ("comparisons", "intersections", "blurred", "look_alikes", "found_at_once"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidInput("must be from 0 to 1", field=name)
        check_least(self, 1, "questions", "max_facts", "passages", must="must be")
        check_least(self, 0, "test_questions", "distractors", must="must be")
        if self.names not in ("real", "invented"):
            raise InvalidInput("must be real or invented", field="names")
