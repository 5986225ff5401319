"""The steps by which an agent came to its answer, in the one form in which filters and choices of all data sets read
them.
"""

from __future__ import annotations

from dataclasses import dataclass

from trailforge.protocols import REACT
from trailforge.schemas import Hop, Passage, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSearch:
    """A search, with the thought before it and the results it found."""

    thought: str
    """What the agent wrote before its request."""
    query: str
    """The query in words."""
    entities: tuple[str, ...] = ()
    """Names of entities to look up in a graph, as the agent wrote them."""
    relations: tuple[str, ...] = ()
    """Relations to ask a graph for, as the agent wrote them."""
    passages: tuple[Passage, ...] = ()
    """The passages that the agent was given to read; a triple stands under the name of its head."""
    unused: int = 0
    """Number of the search's relations that no triple which it brought has."""
    is_needless: bool = False
    """Whether the search brought nothing that the answer rests on and that was not there before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The path of an episode from its question to its answer: searches with thoughts and results, then the answer."""

    question: str
    """The question as it was asked."""
    answer: str
    """The answer as the agent gave it."""
    hops: tuple[Hop, ...] = ()
    """The gold decomposition, as far as there is one."""
    searches: tuple[AskedSearch, ...] = ()
    """The searches in the order in which they were made."""
    last_thought: str = ""
    """What the agent wrote before its answer."""
    told: str = ""
    """What the agent was told besides the question: the rules of its protocol."""


def way_of_trajectory(row: Trajectory) -> Way:
    """Return a trajectory as a `Way`. Its thoughts are those of its turns, in order."""
    turns = [REACT.read_turn(message) for message in row.messages if message.role == "assistant"]
    thoughts = [turn.thought for turn in turns[:-1] if turn is not None]
    thoughts = [*thoughts, *[""] * (len(row.steps) - len(thoughts))]
    searches = (
        AskedSearch(thought=thought, query=f"{step.sub_question} {step.query}", passages=step.passages)
        for thought, step in zip(thoughts, row.steps, strict=False)
    )
    last = turns[-1] if turns else None
    return Way(
        question=row.question,
        answer=row.final_answer,
        searches=tuple(searches),
        last_thought=" ".join([*(thoughts[len(row.steps) :]), last.thought if last is not None else ""]),
    )
