"""Our own JSONL: `schemas.Question` as it is, a line each."""

from __future__ import annotations

import re
from typing import Any

from schemas import InvalidInput, Question, from_dict

_REFERENCE = re.compile(r"#(\d+)")


def recognises(row: dict[str, Any]) -> bool:
    """Does the row look like ours? Anything with a question and no other format's marks."""
    return "question" in row


def parse(row: dict[str, Any]) -> Question:
    """A row as a question. Raises `InvalidInput` naming the field."""
    question = from_dict(Question, row)
    for field in ("id", "question", "answer"):
        if not getattr(question, field).strip():
            raise InvalidInput("must be a text that is not empty", field=field)
    ids = [document.id for document in question.paragraphs]
    if "paragraphs" in row and not ids:
        raise InvalidInput("has no paragraph (leave the field out to search a corpus)", field="paragraphs")
    if len(set(ids)) < len(ids):
        raise InvalidInput("two paragraphs have the same id", field="paragraphs")
    for position, hop in enumerate(question.decomposition, start=1):
        for target in map(int, _REFERENCE.findall(hop.question)):
            if not 1 <= target < position:
                raise InvalidInput(
                    f"refers to #{target}, which is not an earlier hop", field=f"decomposition[{position - 1}].question"
                )
    return question
