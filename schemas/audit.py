"""What an audit found of a question: its documents, the searches that find them, and whether it can be answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

AuditReason = Literal[
    "stated",
    "derived",
    "known_from_memory",
    "invalid_row",
    "answer_not_stated",
    "document_missing",
    "hop_not_stated",
    "not_found",
    "not_answered",
]
"""The one reason of a question. The first three can be answered; all others are set aside (`SETS_ASIDE`).

`stated`: the documents say the answer. `derived`: it follows from what they say. `known_from_memory`: a model says it
without them, too. `answer_not_stated`: nothing that is searched says it. `document_missing`: a document that it rests
on is not there. `hop_not_stated`: no document says what an earlier hop finds. `not_found`: no search finds a document
that it rests on. `not_answered`: a model that is given the documents does not answer it.
"""
SETS_ASIDE: frozenset[AuditReason] = frozenset(
    {"invalid_row", "answer_not_stated", "document_missing", "hop_not_stated", "not_found", "not_answered"}
)
QuestionKind = Literal["fact", "yes_no", "comparison", "count", "set", "reckoned"]
"""What a question asks for. Only of a `fact` and of the members of a `set` a text has to say the answer."""
AuditedBy = Literal["question", "sub_question", "best_wording"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedDocument:
    """A document that an answer rests on, looked for in what is searched."""

    title: str
    hops: tuple[int, ...] = ()
    """Those that rest on it, from 1; empty where that is not annotated."""
    is_there: bool
    by_title: bool = False
    """A passage of this title is there."""
    by_id: bool = False
    by_words: float | None = None
    """Share of its own words, as runs of five, that passages of its title or id have; None: its text is not known."""
    passages: tuple[str, ...] = ()
    """Ids of the passages that are taken for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedSearch:
    """A search for the documents of a question."""

    by: AuditedBy
    """`best_wording`: the document's title with the sentence that counts, or sub-question and answer, which no agent
    knows."""
    query: str
    hop: int | None = None
    """That it asks, from 1."""
    ranks: tuple[int | None, ...]
    """Of each document of the question, from 1; None: not among the passages that were looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedQuestion:
    """A row of an audit: one question, and the one reason why it can be answered or cannot."""

    STORED_AS: ClassVar[str] = "AuditedQuestion"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    uid: str
    """`audit_key` of question and gold answer; of an invalid row FILE:ROW."""
    question_id: str
    dataset: str
    question: str
    golds: tuple[str, ...]
    """The gold answer, then its aliases."""
    num_hops: int | None
    kind: QuestionKind
    reason: AuditReason
    detail: str
    can_be_answered: bool
    documents: tuple[AuditedDocument, ...] = ()
    searches: tuple[AuditedSearch, ...] = ()
    quotes: tuple[str | None, ...] = ()
    """Of each hop, the sentence that states its answer; None: none does. Of a set, of each member."""
    answer_with: str | None = None
    """What a model answers from the documents alone; None: none was asked, or it gave no reply that can be read."""
    answer_without: str | None = None
    """The same without them."""
    is_right_with: bool | None = None
    is_right_without: bool | None = None
    schema_version: str = SCHEMA_VERSION
