"""Read question files, in their published forms (`published/`) and in our own, into `schemas.Question`.

Files of documents are read in `pipelines.sources.documents`, and live sources in `pipelines.sources.fetchers`.
A row that cannot be used comes out as an `InvalidRow` in its place; only a file that cannot be read at all raises.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from trailforge.doors import lazy_names
from trailforge.pipelines.datasets import dataset_names, load_dataset
from trailforge.pipelines.sources import jsonl
from trailforge.rows import Asides, Fields, InvalidRow, JsonRow, check_column_map, check_met, read_rows
from trailforge.schemas import Document, InvalidInput, Question, QuestionKind, SourceDocument

if TYPE_CHECKING:
    from trailforge.pipelines.sources.audited import AUDIT as AUDIT
    from trailforge.pipelines.sources.audited import AUDITED_TABLE as AUDITED_TABLE
    from trailforge.pipelines.sources.audited import NOT_AUDITED as NOT_AUDITED
    from trailforge.pipelines.sources.audited import SETS_ASIDE as SETS_ASIDE
    from trailforge.pipelines.sources.audited import AskedKind as AskedKind
    from trailforge.pipelines.sources.audited import Audited as Audited
    from trailforge.pipelines.sources.audited import AuditedBy as AuditedBy
    from trailforge.pipelines.sources.audited import AuditedDocument as AuditedDocument
    from trailforge.pipelines.sources.audited import AuditedQuestion as AuditedQuestion
    from trailforge.pipelines.sources.audited import AuditedSearch as AuditedSearch
    from trailforge.pipelines.sources.audited import AuditManifest as AuditManifest
    from trailforge.pipelines.sources.audited import AuditReason as AuditReason
    from trailforge.pipelines.sources.audited import audit_key as audit_key
    from trailforge.pipelines.sources.audited import read_audit as read_audit
    from trailforge.pipelines.sources.audited import read_audited as read_audited
    from trailforge.pipelines.sources.audited import split_audited as split_audited
    from trailforge.pipelines.sources.audited import write_set_aside as write_set_aside
    from trailforge.pipelines.sources.demand import NOT_DEMANDED as NOT_DEMANDED
    from trailforge.pipelines.sources.demand import Demand as Demand
    from trailforge.pipelines.sources.demand import Quota as Quota
    from trailforge.pipelines.sources.demand import Traits as Traits
    from trailforge.pipelines.sources.demand import read_demand as read_demand
    from trailforge.pipelines.sources.demand import relation_of as relation_of
    from trailforge.pipelines.sources.demand import tell_shortage as tell_shortage
    from trailforge.pipelines.sources.demand import traits_of as traits_of
    from trailforge.pipelines.sources.demand import write_demand as write_demand
    from trailforge.pipelines.sources.documents import read_documents as read_documents
    from trailforge.pipelines.sources.fetchers import fetch_to_file as fetch_to_file
    from trailforge.pipelines.sources.refused import ANY as ANY
    from trailforge.pipelines.sources.refused import Refusals as Refusals
    from trailforge.pipelines.sources.refused import compile_pattern as compile_pattern
    from trailforge.pipelines.sources.refused import hash_source as hash_source
    from trailforge.pipelines.sources.refused import is_match as is_match
    from trailforge.pipelines.sources.refused import pattern_fields as pattern_fields
    from trailforge.pipelines.sources.refused import refused_sources as refused_sources
else:
    __getattr__, __dir__ = lazy_names(__name__)


__all__ = ["FORMATS", "InvalidRow", "holds_questions", "read_paragraphs", "read_questions"]


class _Reader(Protocol):
    """What a data set's module has."""

    NAME: str
    KEYS: frozenset[str]
    """Fields by which a row of this format is known."""

    def read(self, row: Fields) -> Question:
        """A row as a question. Raises `InvalidInput` naming the field."""
        ...


_PUBLISHED = (
    *("gaia", "musique", "twowiki", "hotpotqa", "morehopqa", "flashrag", "bamboogle", "frames", "fanoutqa"),
    "phantomwiki",
)
"""In the order in which they are tried: what a later one needs, an earlier one may have too."""
_READERS = (
    *(cast(_Reader, import_module(f"{__name__}.published.{name}")) for name in _PUBLISHED),
    cast(_Reader, jsonl),
)

FORMATS = ("auto", *(reader.NAME for reader in _READERS))
"""Names of formats that `read_questions` takes as `format`."""
_DOCUMENT = frozenset({"title", "text", "content", "abstract", "description"})
"""Fields of documents, any of which tells that a row without a question may be one."""
_ASKING = ("question", "query", "prompt", "problem", "instruction", "input")
"""Of a benchmark's rows, the field with the question, in the order in which they are tried."""
_ASKED_BY = tuple(frozenset({name}) for name in _ASKING)


def read_questions(
    path: Path,
    *,
    limit: int | None = None,
    format: str = "auto",
    column_map: Mapping[str, str] | None = None,
    needs_paragraphs: bool = False,
    needs_decomposition: bool = False,
    kinds: Collection[QuestionKind] = ("text",),
) -> Iterator[Question | InvalidRow]:
    """Read the questions of a file in order, until `limit` questions are read, with an `InvalidRow` for each row that
    is none.

    The file is one that `rows.read_rows` takes. The format `auto` is recognised by the keys of the first row with known
    keys. `column_map` says which column holds which field (`jsonl.parse_columns`), and that the rows are of our own
    form. Two questions never have the same id: the second is an invalid row, and so is, with `needs_paragraphs` or
    `needs_decomposition`, a question without them, and one that is none of `kinds`. What is ignored in rows is logged
    once.
    """
    if format not in FORMATS:
        raise InvalidInput(f"unknown format {format!r}; known are {', '.join(FORMATS)}")
    reader = next((reader for reader in _READERS if format == reader.NAME), None)  # none of `auto`
    columns = check_column_map(column_map or {}, jsonl.USUAL, "questions")
    read = partial(jsonl.read, column_map=columns) if columns else None if reader is None else reader.read
    seen, asides, met = set[str](), Asides(path), set[str]()

    def choose(names: Sequence[str]) -> Sequence[str]:
        if read is None and not any(_has_keys(dict.fromkeys(names), each) for each in _READERS):
            raise InvalidInput(f"not JSON, and as a table {_unknown(dict.fromkeys(names))}")
        return names

    for row in read_rows(
        path, is_row=lambda keys: _is_question(keys) or columns.get("question") in keys, choose=choose
    ):
        if limit is not None and len(seen) >= limit:
            return
        if isinstance(row, JsonRow):
            if isinstance(row.value, dict):
                met |= row.value.keys()
                read = read or next((each.read for each in _READERS if _has_keys(row.value, each)), None)
            row = _read(row, read, path, seen, asides, (needs_paragraphs, needs_decomposition, kinds))
        yield row
    if met:
        check_met(columns, met, path)


def _has_keys(row: Mapping[str, Any], reader: _Reader) -> bool:
    """Whether a row is of a format; of our own also where its columns have other usual names."""
    if reader.NAME != jsonl.NAME:
        return row.keys() >= reader.KEYS
    return jsonl.is_question(tuple(row))


def _read(
    row: JsonRow,
    read: Callable[[Fields], Question] | None,
    path: Path,
    seen: set[str],
    asides: Asides,
    needs: tuple[bool, bool, Collection[QuestionKind]],
) -> Question | InvalidRow:
    """The row's question, whose id joins `seen`. The one place where a bad row stops being an exception."""
    try:
        fields = Fields(row.value)
        if read is None:
            raise InvalidInput(_unknown(row.value))
        question = read(fields)
        if question.id in seen:
            raise InvalidInput(f"a question with the id {question.id!r} came before; give each its own", field="id")
        _check_has(question, *needs)
    except InvalidInput as error:
        return InvalidRow(file=str(path), row=row.row, field=error.field, problem=error.problem, payload=row.text)
    asides.say(fields.asides)
    seen.add(question.id)
    return question


def _unknown(fields: Mapping[str, object]) -> str:
    problem = f"its fields are those of no known format ({', '.join(FORMATS[1:])}); {jsonl.FORM}"
    if not _DOCUMENT & fields.keys():
        return problem
    takes = next((each for each in map(load_dataset, dataset_names()) if each.inputs.record is SourceDocument), None)
    mend = f": `trailforge {takes.command} {takes.option}` takes them" if takes else ""
    return f"{problem}; these look like documents{mend}"


def _check_has(
    question: Question, needs_paragraphs: bool, needs_decomposition: bool, kinds: Collection[QuestionKind]
) -> None:
    """Raises `InvalidInput` for what the question has not, or should not have."""
    if question.kind not in kinds:
        names = {"options": "options to choose from", "set": "a set of answers"}
        problem = f"has {names[question.kind]}, which `trailforge evaluate` and `trailforge audit` alone take"
        raise InvalidInput(problem, field="options" if question.kind == "options" else "answer_set")
    if needs_paragraphs and not question.paragraphs:
        problem = (
            "nothing to search: no paragraphs, and each question searches its own; name their column (--columns "
            "paragraphs=COLUMN), or give one corpus for all questions (--documents)"
        )
        raise InvalidInput(problem, field="paragraphs")
    if needs_decomposition and not question.decomposition:
        problem = (
            "no decomposition to be led along (generator.style: guided); name its column (--columns "
            "decomposition=COLUMN), or let a larger model search freely (generator.style: free, --model URL)"
        )
        raise InvalidInput(problem, field="decomposition")


def _is_question(keys: Sequence[str]) -> bool:
    """Whether an object with these keys is a question, and no wrapper around a list of them."""
    return any(keys_of <= set(keys) for keys_of in (*(reader.KEYS for reader in _READERS), *_ASKED_BY))


def read_benchmark(path: Path) -> Iterator[str]:
    """Yield the questions of a benchmark, on which nothing may be trained, from a file that `rows.read_rows` takes.
    Raises `InvalidInput` for the first row without one, since a benchmark that is half read protects nothing.
    """
    for row in read_rows(path, is_row=_is_question):
        if isinstance(row, InvalidRow):
            raise InvalidInput(row.problem, file=path, row=row.row, field=row.field)
        values = {str(key).casefold(): value for key, value in row.value.items()} if isinstance(row.value, dict) else {}
        question = next((values[name] for name in _ASKING if isinstance(values.get(name), str)), "")
        if not question.strip():
            raise InvalidInput(f"no question; expected a text in {', '.join(_ASKING)}", file=path, row=row.row)
        yield question.strip()


_TEXTS = frozenset({".txt", ".md"})
"""Ends of names of files that hold no questions."""


def holds_questions(path: Path) -> bool:
    """Tell whether the first row of a file is a question, rather than a passage; False for a file that cannot be
    read.
    """
    if path.suffix in _TEXTS:
        return False
    try:
        first = next(iter(read_rows(path, is_row=_is_question)), None)
    except InvalidInput:
        return False
    row = first.value if isinstance(first, JsonRow) and isinstance(first.value, dict) else {}
    return "question" in row and "text" not in row


def read_paragraphs(path: Path, column_map: Mapping[str, str] | None = None) -> Iterator[Document]:
    """Read the paragraphs of a file's questions, in their order. `column_map` says which column holds which field.
    Raises `InvalidInput` for a file that cannot be read and for one without any paragraph.
    """
    found = False
    for question in read_questions(path, column_map=column_map):
        if isinstance(question, Question):
            found = found or bool(question.paragraphs)
            yield from question.paragraphs
    if not found:
        raise InvalidInput(
            "no question of it brings paragraphs to search; give a file of passages, or questions that have some",
            file=path,
        )
