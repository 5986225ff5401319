"""Read which questions an audit found unanswerable, so that runs, evaluations and trainings leave them out before they
cost anything.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from trailforge.pipelines.engine.files import sha256_of, write_atomically
from trailforge.retrieval.indexes import SEAL, is_as_sealed
from trailforge.schemas import (
    NOTICE,
    Count,
    Earlier,
    FileEntry,
    InvalidInput,
    Question,
    RejectedRow,
    from_stored,
    parse_json,
    read_rows,
    to_dict,
    write_parquet,
)

_LOG = logging.getLogger(__name__)
AUDIT = "audit.json"
AUDITED_TABLE = "audited"
SET_ASIDE = "rejected"
"""Name of the table, in the folder of an evaluation or a training, of the questions that it does not ask."""
T = TypeVar("T")


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
"""The one reason that an audit gives for a question. With the first three it can be answered; all others set it aside
(`SETS_ASIDE`).

`stated`: the documents say the answer. `derived`: it follows from what they say. `known_from_memory`: a model says it
without them, too. `answer_not_stated`: nothing that is searched says it. `document_missing`: a document that it rests
on is not there. `hop_not_stated`: no document says what an earlier hop finds. `not_found`: no search finds a document
that it rests on. `not_answered`: a model that is given the documents does not answer it.
"""
SETS_ASIDE: frozenset[AuditReason] = frozenset(
    {"invalid_row", "answer_not_stated", "document_missing", "hop_not_stated", "not_found", "not_answered"}
)
AskedKind = Literal["fact", "yes_no", "comparison", "count", "set", "reckoned"]
"""What a question asks for; a choice among options is a `comparison`. Of a `fact` alone, and of the members of a `set`,
a text has to say the answer."""
AuditedBy = Literal["question", "sub_question", "best_wording"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedDocument:
    """A document behind an answer, and whether the searched corpus has it."""

    title: str
    hops: tuple[int, ...] = ()
    """Numbers of the hops that rest on this document, from 1; empty where that is not annotated."""
    is_there: bool
    by_title: bool = False
    """Whether a passage has this document's title."""
    by_id: bool = False
    by_words: float | None = None
    """Share of the document's own words, as runs of five, that passages of its title or id have; None: its text is
    not known."""
    passages: tuple[str, ...] = ()
    """Ids of the passages that are taken for this document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedSearch:
    """A search for the documents of a question, and the ranks at which it found them."""

    by: AuditedBy
    """What the query was made from. `best_wording`: the document's title with the sentence that counts, or
    sub-question and answer, which no agent knows."""
    query: str
    hop: int | None = None
    """Number of the hop that the search asks, from 1; None: it asks for no single hop."""
    ranks: tuple[int | None, ...]
    """Rank of each document of the question, from 1; None: it was not among the passages that were looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedQuestion:
    """A row of an audit: one question, and the one reason why it can be answered or cannot."""

    STORED_AS: ClassVar[str] = "AuditedQuestion"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    uid: str
    """The question's `audit_key`; for an invalid row `FILE:ROW`."""
    question_id: str
    dataset: str
    question: str
    golds: tuple[str, ...]
    """The gold answer, then its aliases."""
    num_hops: int | None
    kind: AskedKind
    reason: AuditReason
    detail: str
    can_be_answered: bool
    documents: tuple[AuditedDocument, ...] = ()
    searches: tuple[AuditedSearch, ...] = ()
    quotes: tuple[str | None, ...] = ()
    """The sentence that states the answer of each hop, or of each member of a set; None: no sentence does."""
    answer_with: str | None = None
    """What a model answers from the documents alone; None: none was asked, or it gave no reply that can be read."""
    answer_without: str | None = None
    """What the model answers without any documents; None as in `answer_with`."""
    is_right_with: bool | None = None
    is_right_without: bool | None = None
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditManifest:
    """A finished audit: the content of its file audit.json, which is written last, with its own hash."""

    STORED_AS: ClassVar[str] = "AuditManifest"
    SCHEMA_VERSION: ClassVar[str] = "1.1"
    EARLIER: ClassVar[Earlier] = {}

    questions: str
    """Name of the file of questions."""
    questions_sha256: str
    question_format: str
    columns: str
    """Which column of the file holds which field, as the command was given it."""
    searched: str
    """Back end and hash of what is searched; `paragraphs`: each question's own paragraphs."""
    passages: int | None
    """Number of passages in the index or file that is searched; None: each question brings its own paragraphs."""
    depth: int
    model: str
    """Name of the model that was asked; empty: none was."""
    model_settings: str
    """All that decides the model's answers, as JSON: seed, where its thoughts are, parameters that are not sent,
    prompts."""
    counts: tuple[Count, ...]
    """Number of questions for each reason."""
    files: tuple[FileEntry, ...]
    limit: int | None = None
    schema_version: str = SCHEMA_VERSION
    seal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """The result of an audit for each of its questions, found by its `audit_key`."""

    reasons: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Reason and detail of each question that is set aside."""
    known: frozenset[str] = frozenset()
    """Keys of all questions that were audited."""
    alike: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Keys of the questions that share their words, by question id; the outer key is their `words_key`."""

    @property
    def hash(self) -> str:
        """Return a hash of 12 hex digits over which questions are set aside and why; empty where no audit is used."""
        if not self.known:
            return ""
        content = json.dumps([sorted((key, reason) for key, (reason, _) in self.reasons.items()), sorted(self.known)])
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    def key_of(self, question: Question) -> str | None:
        """Return the audit's key of a question; None for one that was not audited.

        A question without paragraphs is also recognised by its words. The same words with other paragraphs are another
        question.
        """
        key = audit_key(question)
        if key in self.known:
            return key
        return None if question.paragraphs else self.key_by_words(question.question, question.answer, question.id)

    def key_by_words(self, question: str, answer: str, id: str) -> str | None:
        """Return the audit's key of a question recognised by its words and gold answer. The id decides where several
        questions have these words and only some of them are set aside.
        """
        found = self.alike.get(words_key(question, answer), {})
        is_clear = len({key in self.reasons for key in found.values()}) == 1
        return found.get(id) or (next(iter(found.values())) if is_clear else None)

    def knows(self, source: Any) -> bool:
        """Tell whether a source was audited; True also where no audit is used, and for a source that is no question."""
        is_asked = bool(self.known) and isinstance(source, Question)
        return not is_asked or self.key_of(source) is not None

    def row_of(self, source: Any) -> RejectedRow | None:
        """Return the row for `rejected/` of a question that the audit sets aside; None for any other question, and for
        what is no question.
        """
        return self.row(source, self.key_of(source)) if self.reasons and isinstance(source, Question) else None

    def row(self, asked: Any, key: str | None) -> RejectedRow | None:
        """Return the row for `rejected/` of `asked`, a record with an id or a uid, when `key` is the key of a question
        that is set aside; None for other keys, and for the key None.
        """
        if key is None or (found := self.reasons.get(key)) is None:
            return None
        return RejectedRow(
            uid=getattr(asked, "uid", "") or asked.id,
            stage="read",
            reason=found[0],
            score=0.0,
            detail=found[1],
            payload=json.dumps(to_dict(asked), ensure_ascii=False),
        )


NOT_AUDITED = Audited()


def audit_key(question: Question) -> str:
    """Return the key by which an audit finds a question: a hash of its words, its gold answer and its documents,
    ignoring white space and case.
    """
    texts = [text for each in question.paragraphs for text in (each.title, each.text)]
    return _hash(question.question, question.answer, *(each.title for each in question.supporting), "", *texts)


def words_key(question: str, answer: str) -> str:
    """Return a hash of a question's words and its gold answer alone, whatever documents it has."""
    return _hash(question, answer)


def _hash(*texts: str) -> str:
    text = "\0".join(" ".join(each.casefold().split()) for each in texts)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_audit(folder: Path) -> AuditManifest:
    """Return the manifest of a finished audit. Raises `InvalidInput` where there is none, or it was changed."""
    path = folder / AUDIT
    try:
        content = parse_json(path.read_bytes())
    except OSError as error:
        raise InvalidInput(
            f"holds no audit (no {AUDIT}); `trailforge audit` makes one of questions and an index", file=folder
        ) from error
    except ValueError as error:
        raise InvalidInput(f"{AUDIT} is damaged: audit into a new folder", file=folder) from error
    if not isinstance(content, dict) or SEAL not in content or not is_as_sealed(content):
        raise InvalidInput(f"{AUDIT} is damaged: audit into a new folder", file=folder)
    return from_stored(AuditManifest, content, source=path)


def read_audited(folder: Path | None) -> Audited:
    """Read which questions an audit sets aside; None gives an audit that sets nothing aside. Raises `InvalidInput` as
    `read_audit` does, and for a changed file.
    """
    if folder is None:
        return NOT_AUDITED
    manifest = read_audit(folder)
    for entry in manifest.files:
        path = folder / entry.path
        if not path.is_file() or sha256_of(path) != entry.sha256:
            raise InvalidInput("is missing or was changed: audit into a new folder", file=path)
    reasons, known, alike = {}, set[str](), dict[str, dict[str, str]]()
    for row in read_rows((folder / entry.path for entry in manifest.files), AuditedQuestion):
        known.add(row.uid)
        if row.golds:
            alike.setdefault(words_key(row.question, row.golds[0]), {})[row.question_id] = row.uid
        if not row.can_be_answered:
            reasons[row.uid] = row.reason, row.detail
    return Audited(reasons=reasons, known=frozenset(known), alike=alike)


def split_audited(
    asked: Sequence[T], audited: Audited, key_of: Callable[[T], str | None]
) -> tuple[list[T], list[RejectedRow]]:
    """Split questions into those that can be answered, and rows with reasons for the others; their numbers are logged.

    `key_of` returns a question's key as `Audited.key_of` does. Raises `InvalidInput` where the audit knows none of the
    questions, or leaves none.
    """
    if not audited.known:
        return list(asked), []
    keys = [key_of(each) for each in asked]
    check_known(sum(key is None for key in keys), len(keys))
    kept, aside = [], []
    for each, key in zip(asked, keys, strict=True):
        row = audited.row(each, key)
        kept.append(each) if row is None else aside.append(row)
    if aside:
        _LOG.log(NOTICE, "%d of %d questions are set aside: %s", len(aside), len(keys), count_reasons(aside))
    if not kept:
        raise InvalidInput(
            "no question is left that can be answered; give other questions, or leave it out", field="--audited"
        )
    return kept, aside


def check_known(unknown: int, total: int, source: Path | None = None) -> None:
    """Log how many questions are used although an audit does not know them: `unknown` of `total`. Raises
    `InvalidInput`, naming the file `source`, where the audit knows none of them.
    """
    if unknown and unknown == total:
        raise InvalidInput("none of these questions was audited: audit this file", file=source, field="--audited")
    if unknown:
        _LOG.log(NOTICE, "%d of %d questions were not audited, and are asked", unknown, total)


def count_reasons(rows: Iterable[RejectedRow]) -> str:
    """Return the reasons of rejected rows with the number of rows for each, the most frequent first, as text."""
    counts = Counter(row.reason for row in rows)
    return ", ".join(f"{reason} {count:,}" for reason, count in counts.most_common())


def write_set_aside(folder: Path, rows: Sequence[RejectedRow], split: str = "audited") -> None:
    """Write the questions that are not used, with their reasons, into a folder; nothing where there are none."""
    if rows:
        path = folder / SET_ASIDE / f"part-{split}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda temporary: write_parquet(temporary, RejectedRow, rows))
