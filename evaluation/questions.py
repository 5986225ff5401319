"""The questions of an evaluation: read from a file, without those that an audit sets aside."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from trailforge.pipelines.sources import read_audited, read_questions, split_audited
from trailforge.retrieval.indexes import file_hash
from trailforge.rows import InvalidRow
from trailforge.schemas import InvalidInput, Question, QuestionKind, RejectedRow


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSet:
    """The questions of an evaluation, with the file that they come from and its hash."""

    name: str
    """The name of the questions' file."""
    sha256: str
    questions: list[Question]
    problem: str = ""
    """What is wrong with rows that are no questions; empty: nothing."""


def read_asked(
    path: Path, format: str = "auto", limit: int | None = None, column_map: Mapping[str, str] | None = None
) -> QuestionSet:
    """Read the first `limit` valid questions of a file. Raises what `read_questions` raises, and `InvalidInput` for a
    file without any.
    """
    if not path.is_file():
        raise InvalidInput("no such file", file=path)
    kinds = get_args(QuestionKind)
    rows = list(read_questions(path, format=format, limit=limit, column_map=column_map, kinds=kinds))
    invalid = [row for row in rows if isinstance(row, InvalidRow)]
    questions = [row for row in rows if not isinstance(row, InvalidRow)]
    problem = f"{path}: {len(invalid):,} rows are no questions" if invalid else ""
    if invalid:
        problem += f", the first in row {invalid[0].row}: {invalid[0].problem}"
    if not questions:
        raise InvalidInput(problem or "holds no questions", file=None if problem else path)
    return QuestionSet(name=path.name, sha256=file_hash(path), questions=questions, problem=problem)


def set_aside(asked: QuestionSet, folder: Path | None) -> tuple[QuestionSet, list[RejectedRow]]:
    """Split off the questions that an audit found unanswerable; they are returned with the audit's reasons.

    Without an audit (`folder` is None) all are kept. The kept questions have another hash than all. Raises what
    `read_audited` and `split_audited` raise.
    """
    audited = read_audited(folder)
    if not audited.known:
        return asked, []
    kept, aside = split_audited(asked.questions, audited, audited.key_of)
    sha256 = hashlib.sha256(f"{asked.sha256}\0{audited.hash}".encode()).hexdigest()
    return replace(asked, questions=kept, sha256=sha256), aside
