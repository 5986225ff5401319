"""Searches of made-up questions by a run's own configuration, and what comes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.generate import Context, generate, reword, sift
from trailforge.generators.mcts_trajectories.rehearsal.counted import (
    Behaviour,
    Counted,
    add_behaviours,
    read_counted,
)
from trailforge.generators.mcts_trajectories.rehearsal.world import ChainModel, Engines
from trailforge.inference import Prices
from trailforge.pipelines.runs.config import EMBEDDED
from trailforge.schemas import Question, Trajectory


@dataclass(slots=True)
class Yield:
    """Sums over searched questions."""

    questions: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    """By purpose."""
    rows: Counter[str] = field(default_factory=Counter)
    """Accepted ones by kind."""
    origins: Counter[str] = field(default_factory=Counter)
    """… by whose plan they follow."""
    provoked: int = 0
    """Accepted rows whose error was provoked."""
    stops: Counter[str] = field(default_factory=Counter)

    @property
    def calls_a_row(self) -> float:
        """Calls of all purposes for each accepted row."""
        return self.calls.total() / max(1, self.rows.total())

    def add(self, rows: list[Trajectory], calls: Mapping[str, int], stop: str) -> None:
        """One question's."""
        self.questions += 1
        self.calls.update(calls)
        self.rows.update(row.reflection_error or "correct" for row in rows)
        self.origins.update(row.origin for row in rows)
        self.provoked += sum(row.error_source == "provoked" for row in rows)
        self.stops[stop] += 1


def counted_of(config: MctsRunConfig) -> Counted:
    """The recorded runs that a run by this configuration is likened to: the packaged model's, or a strong one's."""
    if config.model.url == EMBEDDED:
        return read_counted("embedded")
    return read_counted("strong_corpus" if config.retrieval.scope == "corpus" else "strong")


def behaviour_of(config: MctsRunConfig) -> Behaviour:
    """What was counted of them. What a strong model said of the rows that it told, which were few, is counted in all
    its runs: it does not depend on where the passages were found."""
    behaviour = counted_of(config).behaviour()
    if config.model.url == EMBEDDED:
        return behaviour
    strong, in_corpus = (read_counted(name).behaviour() for name in ("strong", "strong_corpus"))
    told = add_behaviours(strong, in_corpus)
    return replace(behaviour, unsupported=told.unsupported, stated_mistakes=told.stated_mistakes)


def context_of(config: MctsRunConfig, behaviour: Behaviour, model: ChainModel, words: int = 0) -> Context:
    """Of a search by this configuration in the made-up world."""
    return Context(
        run_id="rehearsal",
        model="chains",
        seed=config.seed,
        prices=Prices(),
        config=config.generator,
        client=model,
        retrieval=Engines(behaviour, words),
    )


async def search_one(question: Question, context: Context, config: MctsRunConfig, total: Yield) -> int:
    """Search a question as a run does, and count it in `total`. Returns the calls of the search itself, without those
    that tell its rows. The context's model is a `ChainModel` that was asked nothing yet."""
    caps, filters = config.generator.reflection, config.filters
    made = await generate(question, context, accept=lambda rows: sift(question, rows, filters, caps)[0])
    accepted, _ = sift(question, made.candidates, filters, caps)
    kept, _, _ = await reword(question, accepted, context, filters)
    client = context.client
    assert isinstance(client, ChainModel), "it counts its calls"
    total.add(kept, Counter(client.purposes), made.tree.stop_reason)
    return made.tree.calls
