"""Read PhantomWiki (Gong et al., 2025): questions of many steps over the short articles of an invented world.

    {"id": "…", "question": "Who is the niece of the person whose hobby is chess?", "answers": ["Ada Roth", "Bo Roth"],
     "hops": 7, "aggregation": false, "supporting_titles": ["Ada Roth", …], "query": ["niece(Y_4, Y_2)", …],
     "answer_variable": "Y_2"}

The world is closed and `answers` has all that are right: several are a set. Of an `aggregation` ("How many …?") they
are numbers, several where it is asked of several persons. `hops` is PhantomWiki's difficulty. The articles are a
corpus of their own.
"""

from __future__ import annotations

from trailforge.rows import Fields
from trailforge.schemas import InvalidInput, Question, SupportingDocument

NAME: str = "phantomwiki"
KEYS = frozenset({"question", "answers", "query", "answer_variable"})


def read(row: Fields) -> Question:
    """Read a row as a question. Raises `InvalidInput` naming the field."""
    answers = tuple(dict.fromkeys(str(each).strip() for each in row.items("answers")))
    if not answers or not all(answers):
        raise InvalidInput("holds no answer, or an empty one", field="answers")
    titles = row.texts("supporting_titles") if "supporting_titles" in row else []
    return Question(
        id=row.filled_text("id"),
        question=row.filled_text("question"),
        answer="; ".join(answers),
        answer_set=answers if len(answers) > 1 else (),
        dataset=NAME,
        num_hops=row.integer("hops") if "hops" in row else None,
        supporting=tuple(SupportingDocument(title=title) for title in dict.fromkeys(titles)),
    )
