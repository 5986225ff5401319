"""Read MoreHopQA (Schnitzler et al., 2024): two-hop questions whose answers need a further step of reasoning.

    {"_id": "…", "question": "…", "answer": "…", "no_of_hops": 3, "context": [["Title", ["Sentence."]], …],
     "question_decomposition": [
        {"sub_id": "1", "question": "…", "answer": "…", "paragraph_support_title": "Title"}, …,
        {"sub_id": "3", "question": "…", "answer": "…", "paragraph_support_title": "", "details": [
            {"sub_id": "3_1", "question": "…", "answer": "…", "paragraph_support_title": ""}, …]}]}

The last step is reasoning: it has no paragraph, and what it is made of stands in for it. `no_of_hops` counts that
reasoning; how many facts have to be looked up is how many steps have a paragraph. Steps that hold what would be read as
the answer of another (`changed his jersey number to #32`) are no decomposition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trailforge.pipelines.sources.checks import check_question
from trailforge.pipelines.sources.published.hotpotqa import paragraphs_of, read_context
from trailforge.rows import Fields
from trailforge.schemas import Hop, InvalidInput, Question, SupportingDocument

NAME: str = "morehopqa"
KEYS = frozenset({"question", "question_decomposition", "no_of_hops"})
_MARK = re.compile(r"#\d")


def read(row: Fields) -> Question:
    """Read a row as a question. Raises `InvalidInput` naming the field."""
    paragraphs = paragraphs_of(read_context(row) if row.has("context") else (), source=NAME)
    ids = {paragraph.title: paragraph.id for paragraph in reversed(paragraphs)}
    hops = tuple(_hop(step, ids) for step in _steps(row, "question_decomposition"))
    found = [hop.support_id for hop in hops if hop.support_id is not None]
    if any(hop.support_id is not None for hop in hops[len(found) :]):
        raise InvalidInput(
            "a step with a paragraph comes after one without, so the steps are no chain", field="question_decomposition"
        )
    titles = {paragraph.id: paragraph.title for paragraph in paragraphs}
    question = Question(
        id=row.filled_text("_id"),
        question=row.filled_text("question"),
        answer=row.filled_text("answer"),
        decomposition=() if any(_MARK.search(hop.question) for hop in hops) else hops,
        paragraphs=paragraphs,
        dataset=NAME,
        num_hops=len(found) or None,
        supporting=tuple(SupportingDocument(title=titles[key], id=key) for key in dict.fromkeys(found)),
    )
    return check_question(question, hops="question_decomposition", paragraphs="context")


def _steps(row: Fields, name: str) -> Iterator[Fields]:
    """The steps, each that has details as these."""
    for step in row.objects(name):
        if step.values.get("details"):
            yield from _steps(step, "details")
        else:
            yield step


def _hop(step: Fields, ids: Mapping[str, str]) -> Hop:
    title = step.text_or_empty("paragraph_support_title")
    if title and title not in ids:
        raise InvalidInput(
            f"no paragraph has the title {title!r}, which this step names", field=step.name("paragraph_support_title")
        )
    return Hop(question=step.filled_text("question"), answer=step.filled_text("answer"), support_id=ids.get(title))
