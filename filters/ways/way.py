"""How an agent came to its answer, in the one form in which filters and choices of all data sets read it."""

from __future__ import annotations

from dataclasses import dataclass

from trailforge.protocols import REACT
from trailforge.schemas import Hop, Passage, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSearch:
    """A search, the thought that led to it, and what it brought."""

    thought: str
    """What the agent wrote before its request."""
    query: str
    """In words."""
    entities: tuple[str, ...] = ()
    """To look up in a graph, as the agent wrote them."""
    relations: tuple[str, ...] = ()
    """To ask a graph for, as the agent wrote them."""
    passages: tuple[Passage, ...] = ()
    """What it was given to read; a triple under the name of its head."""
    unused: int = 0
    """How many of its relations no triple that it was given has."""
    is_needless: bool = False
    """Whether it brought nothing that the answer rests on and that was not there before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """An episode from question to answer."""

    question: str
    """As it was asked."""
    answer: str
    """As the agent gave it."""
    hops: tuple[Hop, ...] = ()
    """The gold decomposition, as far as there is one."""
    searches: tuple[AskedSearch, ...] = ()
    """In the order in which they were made."""
    last_thought: str = ""
    """What it wrote before its answer."""
    told: str = ""
    """What it was told beside the question: the rules of its protocol."""


def way_of_trajectory(row: Trajectory) -> Way:
    """A trajectory, told in its turns, as a way. Its thoughts are those of its turns, in their order."""
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
