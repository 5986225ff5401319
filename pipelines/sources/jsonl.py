"""Our own form: one `schemas.Question` a row, as `schemas.to_dict` gives it. `id`, `question` and `answer` suffice.

    {"id": "…", "question": "…", "answer": "…", "num_hops": 2,
     "supporting": [{"title": "Title", "id": "0", "facts": ["Sentence."]}, …]}

A supporting document has a title, or the id of a paragraph that has one; `facts` may be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TypeVar

from trailforge.pipelines.sources.checks import check_question, distinct_aliases
from trailforge.rows.fields import Fields
from trailforge.schemas import Document, Hop, InvalidInput, Question, SupportingDocument, from_dict

NAME: str = "jsonl"
KEYS = frozenset({"question"})
R = TypeVar("R", Question, Hop, Document)
_SUPPORTING = {field.name for field in fields(SupportingDocument)}


def read(row: Fields) -> Question:
    """A row as a question. Raises `InvalidInput` naming the field, also for one that `Question` does not have."""
    others = {name: value for name, value in row.values.items() if name != "supporting"}
    question = _trim(from_dict(Question, others))
    titles = {paragraph.id: paragraph.title for paragraph in question.paragraphs}
    if "supporting" in row:
        supporting = tuple(_supporting(each, titles) for each in row.objects("supporting"))
        question = replace(question, supporting=supporting)
    texts = {"id": question.id, "question": question.question, "answer": question.answer}
    for number, hop in enumerate(question.decomposition):
        texts |= {f"decomposition[{number}].question": hop.question, f"decomposition[{number}].answer": hop.answer}
    empty = next((name for name, text in texts.items() if not text), None)
    if empty is not None:
        raise InvalidInput("empty", field=empty)
    return check_question(question)


def _supporting(row: Fields, titles: Mapping[str, str]) -> SupportingDocument:
    """`titles`: of the question's paragraphs, by id."""
    if unknown := sorted(row.values.keys() - _SUPPORTING):
        problem = f"unknown; a supporting document has {', '.join(sorted(_SUPPORTING))}"
        raise InvalidInput(problem, field=row.name(unknown[0]))
    key = row.text_or_empty("id") or None
    title = row.text_or_empty("title") or titles.get(key or "", "")
    if not title:
        raise InvalidInput("expected its title, or the id of a paragraph that has one", field=row.name("title"))
    return SupportingDocument(title=title, id=key, facts=tuple(filter(None, row.texts("facts"))))


def _trim(question: Question) -> Question:
    """Without white space around its texts."""
    question = _strip(question, "id", "question", "answer")
    return replace(
        question,
        answer_aliases=distinct_aliases((alias.strip() for alias in question.answer_aliases), question.answer),
        decomposition=tuple(_strip(hop, "question", "answer") for hop in question.decomposition),
        paragraphs=tuple(_strip(paragraph, "title", "text") for paragraph in question.paragraphs),
    )


def _strip(row: R, *names: str) -> R:
    return replace(row, **{name: getattr(row, name).strip() for name in names})
