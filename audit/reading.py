"""Asks a model whether it can answer a question from its documents alone, and whether it needs them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from trailforge.filters import is_same_list
from trailforge.inference import Asker, Prompts, Sampling, fill, object_schema
from trailforge.pipelines.sources import AuditedQuestion
from trailforge.rewards import choose_options, is_near_miss, mcts_reward
from trailforge.schemas import ITEM_ERRORS, Document, Question, count_tokens

PROMPTS = Prompts("trailforge.audit")
SCHEMA = object_schema(answer={"type": "string"})
REPLY_TOKENS = 4096
"""Largest number of tokens of an answer, thoughts included."""
EXPECTED_TOKENS = 20
"""Expected number of tokens of an answer without thoughts, for estimates."""
_MOST_SHOWN = 64_000
"""Characters of texts that a model is shown: some 120 paragraphs, 16,000 tokens of English."""


def hash_prompts() -> str:
    """Return 12 hex digits of a hash over the prompts."""
    texts = "\0".join(map(PROMPTS.text, ("with_documents", "from_memory")))
    return hashlib.sha256(texts.encode()).hexdigest()[:12]


async def read_question(
    row: AuditedQuestion, question: Question, texts: Sequence[Document], asker: Asker
) -> AuditedQuestion:
    """Return the row with the model's answers from the documents and without them, and the reason that follows.

    A near miss decides nothing, since it may be right in other words. Neither does a reply that is missing or
    unreadable, or a wrong one where not all texts could be shown.
    """
    shown, are_all = choose_texts(texts, row.quotes)
    given = await _ask(asker, "with_documents", row.question, shown)
    memory = await _ask(asker, "from_memory", row.question, ())
    is_right, is_known = _is_right(given, question), _is_right(memory, question)
    is_right = is_right or (False if is_right is False and are_all else None)
    row = replace(row, answer_with=given, answer_without=memory, is_right_with=is_right, is_right_without=is_known)
    if is_right is False:
        detail = f"a model that is given its documents answers {given!r}"
        return replace(row, reason="not_answered", detail=detail, can_be_answered=False)
    if is_known:
        return replace(row, reason="known_from_memory", detail=f"a model answers {memory!r} without its documents")
    return row


def choose_texts(texts: Sequence[Document], quotes: Sequence[str | None]) -> tuple[list[Document], bool]:
    """Choose the texts that a model is shown, each once; also return whether these are all.

    Of too many, those that are quoted come first, then the others in their order; the last one is cut. They are shown
    in their original order, so that the order gives no hint.
    """
    different = list({each.id: each for each in texts}.values())
    said = {quote for quote in quotes if quote}

    def is_quoted(text: Document) -> bool:
        return any(quote == text.title or quote in text.text for quote in said)

    room, kept = _MOST_SHOWN, dict[str, Document]()
    for each in sorted(different, key=is_quoted, reverse=True):
        if room > 0:
            kept[each.id] = replace(each, text=each.text[:room])
            room -= len(each.text)
    return [kept[each.id] for each in different if each.id in kept], room >= 0 and len(kept) == len(different)


def prompt_tokens(row: AuditedQuestion, texts: Sequence[Document]) -> int:
    """Return the estimated number of tokens of both prompts of a question."""
    with_documents = _prompt("with_documents", row.question, choose_texts(texts, row.quotes)[0])
    return count_tokens(with_documents) + count_tokens(_prompt("from_memory", row.question, ()))


async def _ask(asker: Asker, name: str, question: str, texts: Sequence[Document]) -> str | None:
    sampling = Sampling(temperature=0.0, max_tokens=REPLY_TOKENS)
    try:
        reply = await asker.json(_prompt(name, question, texts), SCHEMA, purpose=f"audit_{name}", sampling=sampling)
    except ITEM_ERRORS:
        return None
    return str(reply["answer"]).strip()


def _prompt(name: str, question: str, texts: Sequence[Document]) -> str:
    shown = "\n\n".join(f"[{n}] {each.title}\n{each.text}" for n, each in enumerate(texts, start=1))
    given = {"documents": shown} if name == "with_documents" else {}
    return fill(PROMPTS.text(name), question=question, **given)


def _is_right(answer: str | None, question: Question) -> bool | None:
    """None where it cannot be told."""
    if answer is None:
        return None
    if question.options:
        return choose_options(answer, question.options) == set(question.correct_options)
    golds = question.golds
    if mcts_reward(answer, golds) or any(is_same_list(answer, gold, question.question) for gold in golds):
        return True
    return None if is_near_miss(answer, golds) else False
