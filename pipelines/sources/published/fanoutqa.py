"""Read FanOutQA (Zhu et al., 2024), its development set: questions that fan out over many articles of Wikipedia.

    {"id": "…", "question": "…", "answer": {"Oslo": 1048, …} | ["…", …] | "…" | 7, "categories": ["…"],
     "decomposition": [{"question": "…", "answer": …, "depends_on": ["…"], "decomposition": [],
                        "evidence": {"title": "Oslo", "url": "…", "pageid": 1, "revid": 2}}, …]}

Where the answer has several parts it is a set of answers, each with its name before it where it has one. Articles are
named, not given. The steps of a decomposition say which they need, and not where in them its answer goes: they are not
taken as hops.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trailforge.rows import Fields
from trailforge.schemas import InvalidInput, Question, SupportingDocument

NAME: str = "fanoutqa"
KEYS = frozenset({"question", "answer", "decomposition", "categories"})
_DEEPEST = 20


def read(row: Fields) -> Question:
    """Read a row as a question. Raises `InvalidInput` naming the field."""
    answers = tuple(dict.fromkeys(_answers(row.value("answer"))))
    if not answers:
        raise InvalidInput("holds no answer, so nothing can be compared", field="answer")
    titles = tuple(dict.fromkeys(_titles(row.objects("decomposition"), _DEEPEST)))
    return Question(
        id=row.filled_text("id"),
        question=row.filled_text("question"),
        answer="; ".join(answers),
        answer_set=answers if len(answers) > 1 else (),
        dataset=NAME,
        num_hops=len(titles) or None,
        supporting=tuple(SupportingDocument(title=title) for title in titles),
    )


def _answers(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield f"{name}: {', '.join(_answers(part))}"
    elif isinstance(value, list):
        for part in value:
            yield from _answers(part)
    elif isinstance(value, bool):
        yield "yes" if value else "no"
    elif isinstance(value, str | int | float) and (text := str(value).strip()):
        yield text


def _titles(steps: list[Fields], depth: int) -> Iterator[str]:
    """Of the articles that steps and their own steps rest on, in order."""
    for step in steps:
        evidence = step.values.get("evidence")
        if isinstance(evidence, dict):
            yield from filter(None, [Fields(evidence).text_or_empty("title")])
        if depth and "decomposition" in step:
            yield from _titles(step.objects("decomposition"), depth - 1)
