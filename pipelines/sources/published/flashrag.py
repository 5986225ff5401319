"""Read question sets in FlashRAG's form (Jin et al., 2024): NQ, TriviaQA, PopQA, HotpotQA, 2WikiMultiHopQA, MuSiQue.

    {"id": "test_0", "question": "…", "golden_answers": ["…", "…"], "metadata": {…}}

The first golden answer is the answer, the others are aliases. `metadata` is missing or holds what the set gives:

    HotpotQA    "supporting_facts": {"title": […], "sent_id": […]}, "context": {"title": […], "sentences": [[…], …]}
    2Wiki       the same, with `content` for `sentences`; "evidences": [["head", "relation", "tail"], …] in some files
    MuSiQue     "question_decomposition": [{"question": "…", "answer": "…", "support_paragraph": {"title": "…",
                "paragraph_text": "…"}}, …], "answerable": true
    PopQA       "subj": "…", "s_wiki_title": "…", "o_uri": "http://www.wikidata.org/entity/Q142", …

MuSiQue gives the supporting paragraphs alone: they are annotations, and its questions are asked over a corpus, as those
of NQ, TriviaQA and PopQA are. A question of PopQA has one hop, the page of its subject. Contexts may be empty.
"""

from __future__ import annotations

import re
from dataclasses import replace

from trailforge.pipelines.sources.checks import check_question, distinct_aliases
from trailforge.pipelines.sources.published import twowiki
from trailforge.pipelines.sources.published.hotpotqa import paragraphs_of, read_context, read_supporting_facts
from trailforge.rows import Fields
from trailforge.schemas import Hop, InvalidInput, Question, SupportingDocument

NAME: str = "flashrag"
KEYS = frozenset({"question", "golden_answers"})
_ENTITY = re.compile(r"Q[1-9]\d*$")


def read(row: Fields) -> Question:
    """Read a row as a question. Raises `InvalidInput` naming the field."""
    answers = [answer for answer in row.texts("golden_answers") if answer]
    if not answers:
        raise InvalidInput("holds no golden answer, so nothing can be compared", field="golden_answers")
    question = Question(
        id=row.filled_text("id"),
        question=row.filled_text("question"),
        answer=answers[0],
        answer_aliases=distinct_aliases(answers[1:], answers[0]),
        dataset=NAME,
    )
    if not row.has("metadata"):
        return question
    try:
        return _annotate(question, Fields(row.values["metadata"]))
    except InvalidInput as error:
        field = f"metadata.{error.field}" if error.field else "metadata"
        raise InvalidInput(error.problem, field=field) from error


def _annotate(question: Question, metadata: Fields) -> Question:
    if "question_decomposition" in metadata:
        return _musique(question, metadata)
    if metadata.has("supporting_facts") or "context" in metadata:
        return _multi_hop(question, metadata)
    if "subj" in metadata or "s_wiki_title" in metadata:
        return _popqa(question, metadata)
    return question


def _musique(question: Question, metadata: Fields) -> Question:
    if not metadata.flag("answerable", default=True):
        raise InvalidInput("unanswerable question (MuSiQue-Full row), so no answer is right", field="answerable")
    steps = metadata.objects("question_decomposition")
    hops = tuple(Hop(question=step.filled_text("question"), answer=step.filled_text("answer")) for step in steps)
    supporting = dict.fromkeys(_paragraph(step) for step in steps if step.has("support_paragraph"))
    found = replace(question, decomposition=hops, supporting=tuple(supporting), dataset="musique")
    return check_question(found, hops="question_decomposition")


def _paragraph(step: Fields) -> SupportingDocument:
    paragraph = Fields(step.value("support_paragraph"), step.name("support_paragraph"))
    text = paragraph.text_or_empty("paragraph_text")
    return SupportingDocument(title=paragraph.filled_text("title"), facts=(text,) if text else ())


def _multi_hop(question: Question, metadata: Fields) -> Question:
    """HotpotQA, or 2WikiMultiHopQA, which writes `content` or has evidences."""
    values = {name: value for name, value in metadata.values.items() if value is not None}
    context = values.get("context")
    is_twowiki = "evidences" in values or (isinstance(context, dict) and "content" in context)
    if isinstance(context, dict) and "content" in context:
        values["context"] = {"title": context.get("title"), "sentences": context["content"]}
    if not context or (isinstance(context, dict) and not context.get("title")):
        values.pop("context", None)
    if is_twowiki:
        named = {"id": question.id, "question": question.question, "answer": question.answer}
        read = twowiki.read(Fields({"evidences": [], **values, **named}))
        return replace(read, answer_aliases=question.answer_aliases)
    fields = Fields(values)
    paragraphs = read_context(fields) if "context" in fields else ()
    supporting = read_supporting_facts(fields, paragraphs)
    return replace(
        question,
        paragraphs=paragraphs_of(paragraphs, source="hotpotqa"),
        dataset="hotpotqa",
        num_hops=len(supporting) or None,
        supporting=supporting,
    )


def _popqa(question: Question, metadata: Fields) -> Question:
    title = metadata.text_or_empty("s_wiki_title") or metadata.text_or_empty("subj")
    answer = _ENTITY.search(metadata.text_or_empty("o_uri"))
    supporting = (SupportingDocument(title=title),) if title else ()
    return replace(question, answer_id=answer and answer[0], dataset="popqa", num_hops=1, supporting=supporting)
