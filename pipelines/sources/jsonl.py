"""Our own form: one `schemas.Question` a row, as `schemas.to_dict` gives it. `id`, `question` and `answer` suffice."""

from __future__ import annotations

from dataclasses import replace

from trailforge.pipelines.sources.fields import Fields
from trailforge.pipelines.sources.rows import check_question, distinct_aliases
from trailforge.schemas import Document, Hop, InvalidInput, Question, from_dict

NAME: str = "jsonl"
KEYS = frozenset({"question"})


def read(row: Fields) -> Question:
    """A row as a question. Raises `InvalidInput` naming the field, also for one that `Question` does not have."""
    question = _trim(from_dict(Question, row.values))
    texts = {"id": question.id, "question": question.question, "answer": question.answer}
    for number, hop in enumerate(question.decomposition):
        texts |= {f"decomposition[{number}].question": hop.question, f"decomposition[{number}].answer": hop.answer}
    empty = next((name for name, text in texts.items() if not text), None)
    if empty is not None:
        raise InvalidInput("empty", field=empty)
    return check_question(question)


def _trim(question: Question) -> Question:
    answer = question.answer.strip()
    return replace(
        question,
        id=question.id.strip(),
        question=question.question.strip(),
        answer=answer,
        answer_aliases=distinct_aliases((alias.strip() for alias in question.answer_aliases), answer),
        decomposition=tuple(_trim_hop(hop) for hop in question.decomposition),
        paragraphs=tuple(_trim_paragraph(paragraph) for paragraph in question.paragraphs),
    )


def _trim_hop(hop: Hop) -> Hop:
    return replace(hop, question=hop.question.strip(), answer=hop.answer.strip())


def _trim_paragraph(paragraph: Document) -> Document:
    return replace(paragraph, title=paragraph.title.strip(), text=paragraph.text.strip())
