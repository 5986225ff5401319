"""2WikiMultiHopQA (Ho et al., 2020): HotpotQA's shape with evidence triples.

    {"_id": "…", "question": "…", "answer": "…", "evidences": [["head", "relation", "tail"], …],
     "supporting_facts": [["Title", 0], …], "context": [["Title", ["Sentence."]], …]}

Triples are no sub-questions, so the decomposition stays empty. Files without the `context` field exist: their
questions are asked over a corpus.
"""

from __future__ import annotations

from pipelines.sources.fields import Fields
from pipelines.sources.hotpotqa import context_paragraphs
from schemas import Question

NAME: str = "2wikimultihopqa"
KEYS = frozenset({"question", "evidences"})


def read(row: Fields) -> Question:
    """A row as a question. Raises `InvalidInput` naming the field."""
    return Question(
        id=row.filled_text("_id" if "_id" in row else "id"),
        question=row.filled_text("question"),
        answer=row.filled_text("answer"),
        paragraphs=context_paragraphs(row, source=NAME) if "context" in row else (),
        dataset=NAME,
    )
