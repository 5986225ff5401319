"""Decides the one reason of a question: what its documents state, by the rules of `filters.questions`, and what is
missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trailforge.audit.documents import FoundDocument, take_for
from trailforge.filters import golds_of_hops, names_of_answer, supports
from trailforge.filters.grounding import CHOICE, list_items, says, says_in_other_form, speaks_of
from trailforge.filters.questions import counted_noun, follows_from_hops, quote_of, stated_count, stated_hops
from trailforge.mcts import gold_plan, references, resolve
from trailforge.pipelines.sources import AskedKind, AuditedSearch, AuditReason
from trailforge.rewards import is_never_quoted, mentions
from trailforge.rewards.reading import date_of, fold
from trailforge.schemas import Document, Question

MEANINGS: dict[AuditReason, str] = {
    "stated": "the documents say the answer",
    "derived": "it follows from what the documents say: yes or no, a comparison, a count, something reckoned",
    "known_from_memory": "can be answered, but a model says it without the documents, too",
    "invalid_row": "no question that can be read",
    "answer_not_stated": "nothing that is searched says the answer",
    "document_missing": "a document that the answer rests on is not there",
    "hop_not_stated": "no document says what an earlier hop finds",
    "not_found": "no search finds a document that the answer rests on",
    "not_answered": "a model that is given the documents does not answer it",
}
"""What each reason means in words; those of answerable questions come first."""
_SHOWN = 3
"""Names in a detail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The inputs from which `judge_question` decides: the question, its documents and what the searches found."""

    question: Question
    documents: tuple[FoundDocument, ...]
    """Documents that the question rests on, settled; empty where nothing says which."""
    others: tuple[Document, ...] = ()
    """Further texts: the other paragraphs, or passages that searches found."""
    searches: tuple[AuditedSearch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditVerdict:
    """The one reason that `judge_question` gave a question, with the details that led to it."""

    kind: AskedKind
    reason: AuditReason
    detail: str
    documents: tuple[FoundDocument, ...]
    quotes: tuple[str | None, ...]
    """Sentences that state the answers of the hops, or the members of the answer; None for one that nothing states."""


def judge_question(evidence: Evidence) -> AuditVerdict:
    """Return the first reason that holds, beginning with faults of the question that nobody can mend; `stated` or
    `derived` where the documents answer it.
    """
    question = evidence.question
    documents = evidence.documents
    there = _texts(documents)
    hops = _hops_stated(question, documents, there, evidence.others)
    kind = kind_of(question)
    follows = _has_to_follow(question, kind, documents)
    stated, quotes = hops[-1] is not None and not follows, hops
    may_have_members = bool(question.correct_options) or (kind in ("fact", "set") and not stated)
    if may_have_members and (members := _members_stated(question, there or evidence.others)):
        kind = "comparison" if question.correct_options else "set"
        stated, follows, quotes = True, False, members
    if kind == "count" and not question.decomposition:
        found = stated_count(question.question, question.golds, there or evidence.others)
        stated, quotes = found is not None, (found,)

    def give(reason: AuditReason, detail: str) -> AuditVerdict:
        return AuditVerdict(kind=kind, reason=reason, detail=detail, documents=documents, quotes=quotes)

    missing = [each for each in documents if not each.audited.is_there]
    is_derived = follows or (not stated and kind == "count" and _may_be_counted(question, documents))
    anywhere = stated or is_derived or _is_stated_elsewhere(question, evidence.others)
    if not anywhere:
        also = f"; {_name_missing(missing)}" if missing else ""
        return give("answer_not_stated", f"no text of {len(there) + len(evidence.others)} states it{also}")
    if missing:
        return give("document_missing", _name_missing(missing))
    if not (stated or is_derived):
        return give("answer_not_stated", f"none of its {len(documents)} documents states it, though another text does")
    if unstated := _unstated_hops(question, hops, evidence):
        return give("hop_not_stated", _name_hops(question, unstated))
    if unfound := [n for n in range(len(documents)) if evidence.searches and not _ranks(evidence.searches, n)]:
        titles = ", ".join(repr(documents[n].audited.title) for n in unfound[:_SHOWN])
        return give("not_found", f"no search finds {titles}")
    return give("derived", _name_derived(question, kind)) if is_derived else give("stated", "")


def kind_of(question: Question) -> AskedKind:
    """Return what kind of answer a question asks for (such as yes/no, a choice, or a name), judged by its answer, hops
    and words.
    """
    hops = question.decomposition
    counts = counted_noun(question.question)
    if question.answer_set and not (counts and all(map(str.isdigit, question.answer_set))):
        return "set"  # and none of numbers, one for each of those who are counted for
    if question.correct_options:
        return "comparison"
    compares = _works_out(question)
    if any(map(is_never_quoted, question.golds)):
        return "yes_no"
    if compares and len(references(hops[-1].question)) < 2 and not mentions(question.question, question.answer):
        return "reckoned"
    if compares or (CHOICE.search(question.question) and mentions(question.question, question.answer)):
        return "comparison"
    if counts and any(any(map(str.isdigit, gold)) for gold in question.golds):
        return "count"
    return "reckoned" if hops and follows_from_hops(question) and not CHOICE.search(question.question) else "fact"


def _has_to_follow(question: Question, kind: AskedKind, documents: Sequence[FoundDocument]) -> bool:
    """Does the answer follow from what documents say, so that its words in one of them are no statement of it?

    Not where the data set has the last hop looked up in a document of its own, but for yes and no.
    """
    return kind == "yes_no" or (kind in ("comparison", "reckoned") and not _is_looked_up(question, documents))


def _may_be_counted(question: Question, documents: Sequence[FoundDocument]) -> bool:
    """May a number be the count of what documents name?"""
    if not question.decomposition:
        return True
    return not _is_looked_up(question, documents) and follows_from_hops(question)


def _is_looked_up(question: Question, documents: Sequence[FoundDocument]) -> bool:
    """Has the last hop a document of its own?"""
    return any(len(question.decomposition) in each.audited.hops for each in documents)


def settle_documents(question: Question, documents: Sequence[FoundDocument]) -> tuple[FoundDocument, ...]:
    """Return the documents with each one whose own text was not found replaced by a passage of its title that states
    the answer.
    """
    return tuple(
        take_for(each) if not each.audited.is_there and _states_answer(question, each) else each for each in documents
    )


def _states_answer(question: Question, found: FoundDocument) -> bool:
    """Does a text that may be a document say the answer of its hops, or else of the question?"""
    golds = golds_of_hops(question)
    names = [golds[number - 1] for number in found.audited.hops if number <= len(golds)] or [question.golds]
    return any(says(text, name) for text in found.texts for each in names for name in names_of_answer(each[0], each))


def _texts(documents: Sequence[FoundDocument]) -> tuple[Document, ...]:
    """The texts of documents that are there, by the ids that hops know them by."""
    return tuple(
        replace(text, id=each.wanted.document.id or text.id)
        for each in documents
        if each.audited.is_there
        for text in each.texts
    )


def _hops_stated(
    question: Question, documents: Sequence[FoundDocument], there: Sequence[Document], others: Sequence[Document]
) -> tuple[str | None, ...]:
    """Of each hop the sentence that states its answer.

    A document that the question rests on has to have it. Where none is annotated, a text that speaks of what is asked.
    """
    if not documents:
        if question.decomposition:
            return stated_hops(question, others)
        names = names_of_answer(question.answer, question.golds)
        found = (quote_of(each, n) for n in names for each in others if supports(each, question.question, n))
        return (next(found, None),)
    hops = stated_hops(question, there)
    if not question.decomposition or not question.supporting:
        return hops
    return tuple(
        quote if quote is not None else _said_by_any(there, golds)
        for quote, golds in zip(hops, golds_of_hops(question), strict=True)
    )


def _said_by_any(texts: Sequence[Document], golds: Sequence[str]) -> str | None:
    names = names_of_answer(golds[0], golds)
    return next((quote_of(text, name) for text in texts for name in names if says(text, name)), None)


def _members_stated(question: Question, texts: Sequence[Document]) -> tuple[str | None, ...]:
    """Of correct options, or an answer that lists several things, the sentence of each; empty where one is missing, or
    the answer is one thing."""
    options = tuple(question.options[ord(letter) - ord("A")] for letter in question.correct_options)
    items = options or question.answer_set or list_items(question.answer)
    found = tuple(_said_by_any(texts, (item,)) for item in items)
    is_set = bool(options or question.answer_set) or len(items) > 1
    return found if is_set and all(each is not None for each in found) else ()


def _is_stated_elsewhere(question: Question, others: Sequence[Document]) -> bool:
    """Does another text speak of what the last hop asks, and say its answer?"""
    hops = question.decomposition
    if not hops:
        names = names_of_answer(question.answer, question.golds)
        return any(supports(each, question.question, name) for each in others for name in names)
    asked, answers = gold_plan(hops).sub_questions[-1], {n: hop.answer for n, hop in enumerate(hops, start=1)}
    given = [answers[number] for number in references(asked) if number in answers]
    query = resolve(asked, answers)
    names = names_of_answer(question.answer, question.golds)
    return any(supports(each, query, name, given) for each in others for name in names)


def _unstated_hops(question: Question, hops: Sequence[str | None], evidence: Evidence) -> list[int]:
    """Of those that are looked up, but for the one that has the answer, where nothing that may say it does."""
    looked_up = hops[: question.num_hops] if _works_out(question) else hops[:-1]
    return [
        number for number, quote in enumerate(looked_up, start=1) if quote is None and not _may_say(evidence, number)
    ]


def _may_say(evidence: Evidence, number: int) -> bool:
    """Has a text that may be a hop's own its answer, in some form, whatever else it says? Of a date its year is enough.

    Where no document is annotated, a text that speaks of what the hop asks may be one, and any that has the answer as
    it stands, but those on the answer itself, by which the next hop goes on.
    """
    query, answer = resolved_hops(evidence.question)[number - 1]
    date = date_of(fold(answer))
    part = str(date[0]) if date and date[0] else answer
    own = _texts([each for each in evidence.documents if number in each.audited.hops])
    if own:
        return any(says(text, part) or says_in_other_form(text, answer) for text in own)
    texts = (*_texts(evidence.documents), *evidence.others)
    return any(
        (says(text, answer) and not mentions(text.title, answer))
        or ((says(text, part) or says_in_other_form(text, answer)) and speaks_of(text, query))
        for text in texts
    )


def _works_out(question: Question) -> bool:
    """Has the question hops after those that are looked up, which compare or reckon?"""
    return question.num_hops is not None and 0 < question.num_hops < len(question.decomposition)


def _ranks(searches: Sequence[AuditedSearch], document: int) -> list[int]:
    return [rank for each in searches if (rank := each.ranks[document]) is not None]


def _name_missing(missing: Sequence[FoundDocument]) -> str:
    known = [each.audited.title for each in missing if not each.wanted.is_unknown]
    hops = [str(number) for each in missing if each.wanted.is_unknown for number in each.audited.hops]
    parts = [f"not there: {', '.join(map(repr, known[:_SHOWN]))}"] if known else []
    parts += [f"no document for hop {', '.join(hops)}"] if hops else []
    return "; ".join(parts)


def resolved_hops(question: Question) -> list[tuple[str, str]]:
    """Return for each gold hop its sub-question, with earlier answers filled in, and its answer."""
    plan = gold_plan(question.decomposition).sub_questions
    answers = {number: hop.answer for number, hop in enumerate(question.decomposition, start=1)}
    return [(resolve(text, answers), answers[number]) for number, text in enumerate(plan, start=1)]


def _name_hops(question: Question, numbers: Sequence[int]) -> str:
    hops = resolved_hops(question)
    asked = [f"{hops[n - 1][0]} ({hops[n - 1][1]})" for n in numbers[:_SHOWN]]
    return f"no document states: {'; '.join(asked)}"


def _name_derived(question: Question, kind: AskedKind) -> str:
    if question.correct_options:
        return "a choice among options, which no text has to say"
    return {
        "yes_no": "yes or no, which no text has to say",
        "comparison": "compares what its documents say",
        "count": "counts what its documents say",
        "reckoned": "is worked out from what its documents say",
    }.get(kind, "")
