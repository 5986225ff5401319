"""Whether a model answers a question from its documents alone, and whether it needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trailforge.filters.answers import is_same_list
from trailforge.inference import Sampling
from trailforge.inference.asker import Asker, fill
from trailforge.inference.prompts import Prompts
from trailforge.inference.structured import object_schema
from trailforge.pipelines.audited import AuditedQuestion
from trailforge.rewards import is_near_miss, mcts_reward
from trailforge.schemas import ITEM_ERRORS, Document, Question
from trailforge.schemas.text import count_tokens

PROMPTS = Prompts("trailforge.audit")
SCHEMA = object_schema(answer={"type": "string"})
REPLY_TOKENS = 4096
"""Of an answer, with the thoughts of a model that has any."""
EXPECTED_TOKENS = 20
"""Of an answer, where a model does not think; for estimates."""
_MOST_TEXTS = 10


async def read_question(row: AuditedQuestion, texts: Sequence[Document], asker: Asker) -> AuditedQuestion:
    """The row with what a model answers from the documents, and without them, and the reason that follows from it.

    A near miss decides nothing: it may be right in other words. Nor does a reply that cannot be had or read.
    """
    given = await _ask(asker, "with_documents", row.question, texts)
    memory = await _ask(asker, "from_memory", row.question, ())
    is_right, is_known = _is_right(given, row), _is_right(memory, row)
    row = replace(row, answer_with=given, answer_without=memory, is_right_with=is_right, is_right_without=is_known)
    if is_right is False:
        detail = f"a model that is given its documents answers {given!r}"
        return replace(row, reason="not_answered", detail=detail, can_be_answered=False)
    if is_known:
        return replace(row, reason="known_from_memory", detail=f"a model answers {memory!r} without its documents")
    return row


def prompt_tokens(question: Question) -> int:
    """Of both prompts of a question, by the texts of its documents, as far as they are known."""
    texts = [question.support_text(each) for each in question.supporting_documents]
    documents = [Document(id="", title=each.title, text=text) for each, text in
                 zip(question.supporting_documents, texts, strict=True)]  # fmt: skip
    with_documents = _prompt("with_documents", question.question, documents)
    return count_tokens(with_documents) + count_tokens(_prompt("from_memory", question.question, ()))


async def _ask(asker: Asker, name: str, question: str, texts: Sequence[Document]) -> str | None:
    sampling = Sampling(temperature=0.0, max_tokens=REPLY_TOKENS)
    try:
        reply = await asker.json(_prompt(name, question, texts), SCHEMA, purpose=f"audit_{name}", sampling=sampling)
    except ITEM_ERRORS:
        return None
    return str(reply["answer"]).strip()


def _prompt(name: str, question: str, texts: Sequence[Document]) -> str:
    shown = "\n\n".join(f"[{n}] {each.title}\n{each.text}" for n, each in enumerate(texts[:_MOST_TEXTS], start=1))
    given = {"documents": shown} if name == "with_documents" else {}
    return fill(PROMPTS.text(name), question=question, **given)


def _is_right(answer: str | None, row: AuditedQuestion) -> bool | None:
    """None where it cannot be told."""
    if answer is None:
        return None
    if mcts_reward(answer, row.golds) or any(is_same_list(answer, gold, row.question) for gold in row.golds):
        return True
    return None if is_near_miss(answer, row.golds) else False
