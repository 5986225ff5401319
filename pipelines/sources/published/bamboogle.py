"""Read Bamboogle (Press et al., 2023) with the two steps of each question written out by hand.

    {"id": "…", "question": "…", "answer": "…", "q1": "…", "a1": ["…", …], "q2": "…", "a2": ["…", …]}

A step's further answers are spellings, or other ways to look at it, some of which contradict the answer: the first one
of the first step and the answer itself are taken. There is nothing to search: it is asked over a corpus or the web.
"""

from __future__ import annotations

from trailforge.rows import Fields
from trailforge.schemas import Hop, InvalidInput, Question

NAME: str = "bamboogle"
KEYS = frozenset({"question", "q1", "a1", "q2"})


def read(row: Fields) -> Question:
    """Read a row as a question. Raises `InvalidInput` naming the field."""
    answer = row.filled_text("answer")
    first = next(filter(None, row.texts("a1")), "")
    if not first:
        raise InvalidInput("no answer of the first step", field="a1")
    return Question(
        id=row.filled_text("id"),
        question=row.filled_text("question"),
        answer=answer,
        decomposition=(
            Hop(question=row.filled_text("q1"), answer=first),
            Hop(question=row.filled_text("q2"), answer=answer),
        ),
        dataset=NAME,
    )
