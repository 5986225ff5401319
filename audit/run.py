"""Run an audit from the question file to its folder: find the documents, search, judge each question, ask a model,
write.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from trailforge.audit.documents import FoundDocument, Shelf, WantedDocument, wanted_documents
from trailforge.audit.reading import hash_prompts, prompt_tokens, read_question
from trailforge.audit.report import write_report
from trailforge.audit.verdicts import Evidence, judge_question, settle_documents
from trailforge.inference import Asker
from trailforge.mcts import gold_plan, resolve
from trailforge.pipelines.engine import file_entry, output_errors, sha256_of, write_atomically, write_text
from trailforge.pipelines.sources import (
    AUDIT,
    AUDITED_TABLE,
    SETS_ASIDE,
    AuditedBy,
    AuditedQuestion,
    AuditedSearch,
    AuditManifest,
    audit_key,
    read_audit,
    read_questions,
)
from trailforge.retrieval import Retrieval, Retriever, RetrieverConfig, corpus_hash, open_retrieval
from trailforge.retrieval.indexes import SEAL, open_index, read_corpus, read_manifest, seal
from trailforge.rows import InvalidRow
from trailforge.schemas import (
    Count,
    Document,
    FileEntry,
    InvalidInput,
    OutputError,
    Passage,
    Question,
    QuestionKind,
    to_dict,
    write_parquet,
)

_ROWS_PER_FILE = 5000
_AT_ONCE = 64
"""Questions under way."""
_ESTIMATED_BY = 200
"""Questions that an estimate looks at, at most."""
PARAGRAPHS = "paragraphs"
Report = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """Inputs and settings of an audit."""

    questions: Path
    searched: Path | None
    """An index, or a file of passages; None: each question's own paragraphs."""
    kind: str = "bm25"
    """Back end to search with where there is no index."""
    depth: int = 20
    """Number of passages that are looked through for each search."""
    question_format: str = "auto"
    column_map: dict[str, str] | None = None
    limit: int | None = None
    model: str = ""
    """Name of the model that is asked; empty: none."""
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that affect the model's answers, beside its name."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for files that are not there."""
        if not self.questions.is_file():
            raise InvalidInput("no such file", file=self.questions)
        if self.searched is not None and not self.searched.exists():
            raise InvalidInput(
                "no such file or folder: give an index (`trailforge index build`), a file of passages, or --paragraphs",
                file=self.searched,
            )

    def read(self) -> list[Question | InvalidRow]:
        """Return the questions of the file, and its invalid rows. Raises `InvalidInput` for a file without rows."""
        rows = read_questions(
            self.questions, format=self.question_format, column_map=self.column_map, kinds=get_args(QuestionKind)
        )
        found = list(islice(rows, self.limit))
        if not found:
            raise InvalidInput("holds no questions to audit; give a file of questions, one a row", file=self.questions)
        return found


@dataclass(frozen=True, slots=True)
class _Searched:
    """What is searched: one retriever and what its passages are, or a question's own."""

    retrieval: Retrieval
    shelf: Shelf | None
    """None: own paragraphs."""

    async def documents_of(self, question: Question) -> tuple[tuple[FoundDocument, ...], Retriever | None]:
        is_own = self.shelf is None
        wanted = wanted_documents(question)
        shelf = self.shelf or Shelf.of_paragraphs(question, wanted)
        found = [shelf.find(each, ids_are_its_own=is_own) for each in wanted]
        has_something = not is_own or question.paragraphs
        retriever = await self.retrieval.for_question(question) if has_something else None
        return settle_documents(question, found), retriever


def describe_request(request: AuditRequest) -> AuditManifest:
    """Return the manifest of an audit before anything was found. Raises what `corpus_hash` raises."""
    searched, name = request.searched, f"{PARAGRAPHS} {request.kind}"
    if searched is not None:
        backend = read_manifest(searched).backend if searched.is_dir() else request.kind
        name = f"{backend} {corpus_hash(searched)[:12]}"
    return AuditManifest(
        questions=request.questions.name,
        questions_sha256=sha256_of(request.questions),
        question_format=request.question_format,
        columns=", ".join(f"{name}={column}" for name, column in sorted((request.column_map or {}).items())),
        searched=name,
        passages=None,
        depth=request.depth,
        model=request.model,
        model_settings=json.dumps({**request.model_settings, "prompts": hash_prompts()}) if request.model else "",
        counts=(),
        files=(),
        limit=request.limit,
    )


def refuse_other_audit(out: Path, wanted: AuditManifest) -> AuditManifest | None:
    """Return the manifest of the audit in a folder where it has the same inputs and settings as `wanted`; None for an
    empty folder. Raises `OutputError` when the folder holds another audit.
    """
    if not (out / AUDIT).exists():
        with output_errors(out):
            strange = sorted(p.name for p in out.iterdir() if p.name not in _OWN) if out.is_dir() else []
        if strange:
            raise OutputError(f"{out} holds no audit but other things, such as {strange[0]}; give another --out")
        return None
    held = read_audit(out)
    bare = replace(held, passages=None, counts=(), files=(), seal="")
    if bare != wanted:
        names = [name for name, value in to_dict(wanted).items() if to_dict(bare)[name] != value]
        raise OutputError(f"{out} holds an audit with other {', '.join(names)}; give another --out")
    return held


_OWN = frozenset({".lock", "ledger", AUDITED_TABLE, "plots", "report.md"})
"""What a killed audit may have left."""


async def audit_questions(
    request: AuditRequest, out: Path, wanted: AuditManifest, asker: Asker | None, report: Report
) -> AuditManifest:
    """Audit the questions, write table, report and manifest to `out`, and return the manifest. Raises what the
    retriever and the model client raise.
    """
    rows = request.read()
    questions = [row for row in rows if isinstance(row, Question)]
    searched = _open(request, [each for question in questions for each in wanted_documents(question)])
    room, done = asyncio.Semaphore(_AT_ONCE if asker else 8), 0

    async def one(row: Question | InvalidRow) -> AuditedQuestion:
        nonlocal done
        async with room:
            found = await _audit_row(row, searched, request.depth, asker)
        done += 1
        report("auditing questions", done, len(rows))
        return found

    audited: list[AuditedQuestion] = []
    rest = iter(rows)
    while some := list(islice(rest, _ROWS_PER_FILE)):
        audited += await asyncio.gather(*map(one, some))
    files = tuple(_write_rows(out, audited))
    counts = Counter(row.reason for row in audited)
    manifest = replace(
        wanted,
        passages=searched.shelf.passages if searched.shelf else None,
        counts=tuple(Count(reason=reason, count=count) for reason, count in counts.most_common()),
        files=files,
    )
    write_report(out, manifest, audited)
    content = to_dict(manifest)
    del content[SEAL]
    write_text(out / AUDIT, json.dumps(seal(content), indent=1, ensure_ascii=False))
    return read_audit(out)


@dataclass(frozen=True, slots=True)
class ReadingEstimate:
    """Estimated calls and tokens of asking a model about the questions, projected from a sample."""

    questions: int
    looked_at: int
    """Number of questions in the sample."""
    calls: int
    prompt_tokens: int


async def estimate_reading(request: AuditRequest) -> ReadingEstimate:
    """Audit a sample of the questions without a model, and estimate for how many of all a model would be asked, and how
    long the prompts are.

    Raises what `audit_questions` raises.
    """
    questions = [row for row in request.read() if isinstance(row, Question)]
    looked_at = questions[:: -(-len(questions) // _ESTIMATED_BY)] if questions else []
    searched = _open(request, [each for question in looked_at for each in wanted_documents(question)])
    found = [await _audit(question, searched, request.depth) for question in looked_at]
    lengths = [prompt_tokens(row, texts) for row, texts in found if row.can_be_answered]
    share = len(questions) / max(1, len(looked_at))
    return ReadingEstimate(
        questions=len(questions),
        looked_at=len(looked_at),
        calls=round(2 * len(lengths) * share),
        prompt_tokens=round(sum(lengths) * share),
    )


def _open(request: AuditRequest, wanted: Sequence[WantedDocument]) -> _Searched:
    if request.searched is None:
        return _Searched(open_retrieval(RetrieverConfig(kind=request.kind)), None)
    if request.searched.is_dir():
        index = open_index(request.searched)
        return _Searched(Retrieval(None, index), Shelf.over(index.documents, wanted))
    documents = list(read_corpus(request.searched))
    if not documents:
        raise InvalidInput(
            "holds no passages to search; give an index (`trailforge index build`), or a file of passages",
            file=request.searched,
        )
    retrieval = open_retrieval(RetrieverConfig(kind=request.kind), documents)
    return _Searched(retrieval, Shelf.over(documents, wanted))


async def _audit_row(
    row: Question | InvalidRow, searched: _Searched, depth: int, asker: Asker | None
) -> AuditedQuestion:
    if isinstance(row, InvalidRow):
        return _invalid(row)
    found, texts = await _audit(row, searched, depth)
    return found if asker is None or not found.can_be_answered else await read_question(found, row, texts, asker)


async def _audit(question: Question, searched: _Searched, depth: int) -> tuple[AuditedQuestion, list[Document]]:
    """What is found without a model, and the texts that one is to answer from: the documents, or what may be some."""
    documents, retriever = await searched.documents_of(question)
    searches, brought = (), ()
    if retriever is not None:
        queries = plan_searches(question, documents)
        searches, brought = await search_for(queries, documents, retriever, depth)
    own = {id for each in documents for id in each.audited.passages}
    texts = question.paragraphs if searched.shelf is None else brought
    others = tuple(each for each in texts if each.id not in own)
    verdict = judge_question(Evidence(question=question, documents=documents, others=others, searches=searches))
    row = AuditedQuestion(
        uid=audit_key(question),
        question_id=question.id,
        dataset=question.dataset,
        question=question.question,
        golds=question.golds,
        num_hops=question.hop_count,
        kind=verdict.kind,
        reason=verdict.reason,
        detail=verdict.detail,
        can_be_answered=verdict.reason not in SETS_ASIDE,
        documents=tuple(each.audited for each in verdict.documents),
        searches=searches,
        quotes=verdict.quotes,
    )
    return row, [text for each in verdict.documents for text in each.texts] or list(others)


# Searches


_READ = 5
"""Passages of a search that are read for what is stated beside the documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQuery:
    """A search that an audit makes for a question: its text, and the kind of query that it is."""

    by: AuditedBy
    query: str
    hop: int | None = None
    """Number, from 1, of the hop that the search is for; None where it is for the question or for several hops."""


def plan_searches(question: Question, documents: Sequence[FoundDocument]) -> tuple[PlannedQuery, ...]:
    """Plan the searches of a question: the question as it is, each sub-question with the answers before it filled in,
    and for each document its title with the sentence that counts in it, else with sub-question and answer, which finds
    it if anything does. Where no document is known, each question is searched together with its answer."""
    answers = {number: hop.answer for number, hop in enumerate(question.decomposition, start=1)}
    plan = gold_plan(question.decomposition).sub_questions[: question.num_hops or None]
    asked = {number: resolve(text, answers) for number, text in enumerate(plan, start=1)}
    found = [PlannedQuery(by="question", query=question.question)]
    found += [
        PlannedQuery(by="sub_question", query=text, hop=number)
        for number, text in asked.items()
        if text != question.question
    ]
    if not documents:
        found.append(PlannedQuery(by="best_wording", query=f"{question.question} {question.answer}"))
        found += [PlannedQuery(by="best_wording", query=f"{text} {answers[n]}", hop=n) for n, text in asked.items()]
    for each in documents:
        hops = [number for number in each.audited.hops if number in asked]
        words = each.wanted.document.facts[:1] or tuple(f"{asked[n]} {answers[n]}" for n in hops)
        query = " ".join((each.audited.title, *words)).strip()
        if query:
            found.append(PlannedQuery(by="best_wording", query=query, hop=hops[0] if len(hops) == 1 else None))
    return tuple({each.query: each for each in reversed(found)}.values())[::-1]


async def search_for(
    queries: Sequence[PlannedQuery], documents: Sequence[FoundDocument], retriever: Retriever, depth: int
) -> tuple[tuple[AuditedSearch, ...], tuple[Document, ...]]:
    """Return at what rank each search has each document among its first `depth` passages; and the first few passages,
    each once, or all where nothing says what the question rests on.

    A document that none of them finds is searched for by its title alone.
    """
    searches, brought = list[AuditedSearch](), dict[str, Document]()
    read = _READ if documents else depth

    async def search(each: PlannedQuery) -> None:
        passages = await retriever.retrieve(each.query, depth)
        ranks = tuple(_rank_of(document, passages) for document in documents)
        searches.append(AuditedSearch(by=each.by, query=each.query, hop=each.hop, ranks=ranks))
        brought.update((p.id, Document(id=p.id, title=p.title, text=p.text)) for p in passages[:read])

    for each in queries:
        await search(each)
    for number, document in enumerate(documents):
        is_found = any(each.ranks[number] is not None for each in searches)
        if document.audited.is_there and document.audited.title and not is_found:
            await search(PlannedQuery(by="best_wording", query=document.audited.title))
    return tuple(searches), tuple(brought.values())


def _rank_of(document: FoundDocument, passages: Sequence[Passage]) -> int | None:
    own = set(document.audited.passages)
    return next((rank for rank, passage in enumerate(passages, start=1) if passage.id in own), None)


# Rows


def _invalid(row: InvalidRow) -> AuditedQuestion:
    where = f"field {row.field!r}: " if row.field else ""
    return AuditedQuestion(
        uid=f"{Path(row.file).name}:{row.row}",
        question_id="",
        dataset="",
        question="",
        golds=(),
        num_hops=None,
        kind="fact",
        reason="invalid_row",
        detail=f"row {row.row}, {where}{row.problem}",
        can_be_answered=False,
    )


def _write_rows(out: Path, rows: Sequence[AuditedQuestion]) -> Iterable[FileEntry]:
    for first in range(0, len(rows), _ROWS_PER_FILE):
        part = rows[first : first + _ROWS_PER_FILE]
        path = out / AUDITED_TABLE / f"part-{first // _ROWS_PER_FILE:05d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)

        def write(temporary: Path, part: Sequence[AuditedQuestion] = part) -> None:
            write_parquet(temporary, AuditedQuestion, part)

        write_atomically(path, write)
        yield file_entry(out, path, len(part))
