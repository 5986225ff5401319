"""2WikiMultiHopQA (Ho et al., 2020): HotpotQA's shape with evidence triples.

    {"_id": "…", "question": "…", "answer": "…", "evidences": [["head", "relation", "tail"], …],
     "supporting_facts": [["Title", 0], …], "context": [["Title", ["Sentence."]], …]}

Where each triple begins with what the one before ends in, and the last one ends in the answer, they are the hops of the
decomposition, put into words here. Comparisons have no such chain, and no decomposition.
Files without the `context` field exist: their questions are asked over a corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from trailforge.pipelines.sources.fields import Fields, expect
from trailforge.pipelines.sources.hotpotqa import context_paragraphs
from trailforge.rewards import normalize_answer
from trailforge.schemas import Document, Hop, InvalidInput, Question

NAME: str = "2wikimultihopqa"
KEYS = frozenset({"question", "evidences"})

_PERSONS = frozenset({"father", "mother", "spouse", "child", "sibling", "director", "performer", "composer", "employer",
                      "founded by", "presenter", "editor", "producer", "creator", "publisher", "doctoral advisor",
                      "screenwriter", "author", "student of", "manufacturer"})  # fmt: skip
"""Relations whose tail one asks for by "who"."""
_WORDINGS = {
    "place of birth": "Where was {} born?",
    "place of death": "Where did {} die?",
    "place of burial": "Where was {} buried?",
    "date of birth": "When was {} born?",
    "date of death": "When did {} die?",
    "cause of death": "What did {} die of?",
    "educated at": "Where was {} educated?",
    "award received": "Which award did {} receive?",
    "country of citizenship": "Which country was {} a citizen of?",
    "country": "In which country is {}?",
    "inception": "When was {} founded?",
    "founded by": "Who founded {}?",
    "has part": "Who is part of {}?",
    "student of": "Who was the teacher of {}?",
}


def read(row: Fields) -> Question:
    """A row as a question. Raises `InvalidInput` naming the field."""
    answer = row.filled_text("answer")
    paragraphs = context_paragraphs(row, source=NAME) if "context" in row else ()
    return Question(
        id=row.filled_text("_id" if "_id" in row else "id"),
        question=row.filled_text("question"),
        answer=answer,
        decomposition=_hops(_triples(row), answer, _supporting(row, paragraphs)),
        paragraphs=paragraphs,
        dataset=NAME,
        answer_id=row.text_or_empty("answer_id") or None,
    )


def _triples(row: Fields) -> list[tuple[str, str, str]]:
    triples: list[tuple[str, str, str]] = []
    for position, item in enumerate(row.items("evidences")):
        name = f"evidences[{position}]"
        if len(expect(item, list, name)) != 3:
            raise InvalidInput(f"expected [head, relation, tail], found {len(item)} items", field=name)
        head, relation, tail = (expect(text, str, f"{name}[{i}]").strip() for i, text in enumerate(item))
        triples.append((head, relation, tail))
    return triples


def _supporting(row: Fields, paragraphs: Sequence[Document]) -> list[str | None]:
    """Paragraph ids of the supporting facts, in their order, each once; None for one that is not there."""
    if not row.values.get("supporting_facts"):
        return []
    ids = {paragraph.title: paragraph.id for paragraph in reversed(paragraphs)}
    titles = [_fact_title(fact, f"supporting_facts[{n}]") for n, fact in enumerate(row.items("supporting_facts"))]
    return [ids.get(title) for title in dict.fromkeys(titles)]


def _fact_title(fact: Any, name: str) -> str:
    if not expect(fact, list, name):
        raise InvalidInput("expected [title, sentence], found 0 items", field=name)
    return expect(fact[0], str, f"{name}[0]").strip()


def _hops(triples: Sequence[tuple[str, str, str]], answer: str, supporting: Sequence[str | None]) -> tuple[Hop, ...]:
    """The chain of the triples; empty when they are none."""
    is_chain = all(map(all, triples)) and all(before[2] == after[0] for before, after in pairwise(triples))
    if not triples or not is_chain or normalize_answer(triples[-1][2]) != normalize_answer(answer):
        return ()
    known = supporting if len(supporting) == len(triples) else [None] * len(triples)
    return tuple(
        Hop(question=_word_question(relation, f"#{number}" if number else head), answer=tail, support_id=known[number])
        for number, (head, relation, tail) in enumerate(triples)
    )


def _word_question(relation: str, of: str) -> str:
    if wording := _WORDINGS.get(relation):
        return wording.format(of)
    return f"{'Who' if relation in _PERSONS else 'What'} is the {relation} of {of}?"
