"""Read 2WikiMultiHopQA (Ho et al., 2020): HotpotQA's form with evidence triples.

    {"_id": "…", "question": "…", "answer": "…", "evidences": [["head", "relation", "tail"], …],
     "supporting_facts": [["Title", 0], …], "context": [["Title", ["Sentence."]], …]}

A hop is what is looked up of one head, be it in several triples ("Who lived longer?"): as many as supporting documents.
Where each triple begins with what the one before ends in, and the last one ends in the answer, they are the
decomposition, put into words here. A comparison has two branches, of one triple each or (bridge comparisons) of two;
its decomposition ends with the comparison itself, which is not searched for. Other triples are no decomposition.
Files without the `context` field exist: their questions are asked over a corpus. Some have no supporting facts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from trailforge.pipelines.sources.published.hotpotqa import paragraphs_of, read_context, read_supporting_facts
from trailforge.rewards import normalize_answer
from trailforge.rows import Fields, expect
from trailforge.schemas import Hop, InvalidInput, Question, word_comparison

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
    "country of origin": "Which country is {} from?",
    "publication date": "When did {} come out?",
    "inception": "When was {} founded?",
    "founded by": "Who founded {}?",
    "has part": "Who is part of {}?",
    "student of": "Who was the teacher of {}?",
}


Triple = tuple[str, str, str]
"""An evidence triple: head, relation and tail."""
_BRACKETS = re.compile(r" \([^()]*\)$")


def read(row: Fields) -> Question:
    """Read a row as a question. Raises `InvalidInput` naming the field."""
    asked, answer = row.filled_text("question"), row.filled_text("answer")
    context = read_context(row) if row.has("context") else ()
    supporting, triples = read_supporting_facts(row, context), _triples(row)
    return Question(
        id=row.filled_text("_id" if "_id" in row else "id"),
        question=asked,
        answer=answer,
        decomposition=_decompose(asked, answer, triples, [document.id for document in supporting]),
        paragraphs=paragraphs_of(context, source=NAME),
        dataset=NAME,
        answer_id=row.text_or_empty("answer_id") or None,
        num_hops=len(supporting) or len({head for head, _, _ in triples}) or None,
        supporting=supporting,
    )


def _triples(row: Fields) -> list[Triple]:
    triples: list[Triple] = []
    for position, item in enumerate(row.items("evidences")):
        name = f"evidences[{position}]"
        if len(expect(item, list, name)) != 3:
            raise InvalidInput(f"expected [head, relation, tail], found {len(item)} items", field=name)
        head, relation, tail = (expect(text, str, f"{name}[{i}]").strip() for i, text in enumerate(item))
        triples.append((head, relation, tail))
    return triples


def _decompose(asked: str, answer: str, triples: Sequence[Triple], supporting: Sequence[str | None]) -> tuple[Hop, ...]:
    """The hops of a chain, or of a comparison and its branches; empty when the triples are neither."""
    if not triples or not all(map(all, triples)):
        return ()
    known = supporting if len(supporting) == len(triples) else [None] * len(triples)
    if _is_chain(triples, answer):
        subjects = [triples[0][0], *(f"#{number}" for number in range(1, len(triples)))]
        return _word_hops(triples, subjects, known)
    return _compare(asked, answer, triples, known)


def _is_chain(triples: Sequence[Triple], answer: str) -> bool:
    is_linked = all(before[2] == after[0] for before, after in pairwise(triples))
    return is_linked and normalize_answer(triples[-1][2]) == normalize_answer(answer)


def _compare(asked: str, answer: str, triples: Sequence[Triple], supporting: Sequence[str | None]) -> tuple[Hop, ...]:
    """The hops of two branches, then the comparison of what they found; empty when the triples are no two branches."""
    firsts, seconds = triples[:2], triples[2:]
    heads = [head for head, _, _ in firsts]
    outcomes = {"yes", "no", *map(normalize_answer, heads)}
    is_compared = len(triples) in (2, 4) and len(set(heads)) == 2 and normalize_answer(answer) in outcomes
    is_parallel = all(len({relation for _, relation, _ in step}) <= 1 for step in (firsts, seconds))
    has_marks = any("#" in text for text in (asked, *heads))  # which would be read as the answer of a hop
    branches = _branches_of(seconds, firsts) if is_compared and is_parallel and not has_marks else None
    if branches is None:
        return ()
    found = {head: [number] for number, head in enumerate(heads, start=1)}
    for number, branch in enumerate(branches, start=3):
        found[heads[branch - 1]].append(number)
    hops = _word_hops(triples, [*heads, *(f"#{branch}" for branch in branches)], supporting)
    return (*hops, Hop(question=word_comparison(asked, found), answer=answer))


def _branches_of(seconds: Sequence[Triple], firsts: Sequence[Triple]) -> tuple[int, ...] | None:
    """Which branch, 1 or 2, each second triple goes on with; None when neither begins with what a first one ends in.

    A name may differ in its bracket, and one of the two wholly: then the order tells.
    """
    if not seconds:
        return ()
    ends, heads = ([_plain_name(name) for name in names] for names in ([t[2] for t in firsts], [t[0] for t in seconds]))
    if heads == ends[::-1]:
        return (2, 1)
    return (1, 2) if any(head == end for head, end in zip(heads, ends, strict=True)) else None


def _plain_name(name: str) -> str:
    return normalize_answer(_BRACKETS.sub("", name))


def _word_hops(triples: Sequence[Triple], subjects: Sequence[str], supporting: Sequence[str | None]) -> tuple[Hop, ...]:
    asked = zip(triples, subjects, supporting, strict=True)
    return tuple(Hop(question=_word_question(t[1], of), answer=t[2], support_id=key) for t, of, key in asked)


def _word_question(relation: str, of: str) -> str:
    if wording := _WORDINGS.get(relation):
        return wording.format(of)
    return f"{'Who' if relation in _PERSONS else 'What'} is the {relation} of {of}?"
