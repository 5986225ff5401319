"""Read MuSiQue (Trivedi et al., 2022): questions with gold decompositions and their own paragraphs.

A row as published, shortened:

    {"id": "2hop__1_2", "question": "…", "answer": "…", "answer_aliases": ["…"], "answerable": true,
     "paragraphs": [{"idx": 0, "title": "…", "paragraph_text": "…", "is_supporting": true}, …],
     "question_decomposition": [{"id": 1, "question": "…", "answer": "…", "paragraph_support_idx": 0},
                                {"id": 2, "question": "… #1 …", "answer": "…", "paragraph_support_idx": 5}]}

`paragraph_support_idx` may be null where the paragraph of a hop is not known.
"""

from __future__ import annotations

from trailforge.pipelines.sources.checks import check_question, distinct_aliases
from trailforge.rows import Fields
from trailforge.schemas import Document, Hop, InvalidInput, Question

NAME: str = "musique"
KEYS = frozenset({"question", "question_decomposition", "paragraphs"})


def read(row: Fields) -> Question:
    """Read a row as a question. Raises `InvalidInput` naming the field."""
    if not row.flag("answerable", default=True):
        raise InvalidInput("unanswerable question (MuSiQue-Full row), so no answer is right", field="answerable")
    answer = row.filled_text("answer")
    question = Question(
        id=row.filled_text("id"),
        question=row.filled_text("question"),
        answer=answer,
        answer_aliases=distinct_aliases(row.texts("answer_aliases"), answer),
        decomposition=tuple(map(_hop, row.objects("question_decomposition"))),
        paragraphs=tuple(_paragraph(paragraph) for paragraph in row.objects("paragraphs")),
        dataset=NAME,
    )
    if not question.paragraphs:
        raise InvalidInput("empty list; expected the paragraphs of the question", field="paragraphs")
    return check_question(question, hops="question_decomposition")


def _hop(hop: Fields) -> Hop:
    support = hop.integer_or_none("paragraph_support_idx")
    return Hop(
        question=hop.filled_text("question"),
        answer=hop.filled_text("answer"),
        support_id=None if support is None else str(support),
    )


def _paragraph(paragraph: Fields) -> Document:
    return Document(
        id=str(paragraph.integer("idx")),
        title=paragraph.text("title"),
        text=paragraph.text("paragraph_text"),
        source=NAME,
    )
