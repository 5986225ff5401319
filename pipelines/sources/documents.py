"""Read files of documents, whose format is recognised by content, into `schemas.SourceDocument`.

JSON Lines, JSON lists, CSV, Parquet, RSS 2.0 and Atom; all but Parquet also in gzip. Rows of archives are known by
their fields; of all others the columns are found by a map or their names.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trailforge.pipelines.sources.columns import (
    ARCHIVES,
    EACH,
    FileLabels,
    as_plain,
    check_columns,
    columns_of,
    is_document,
    read_row,
    text_columns,
    with_full_id,
)
from trailforge.retrieval import looks_like_paper
from trailforge.retrieval.web import feed_rows, is_markup
from trailforge.rows import Asides, Fields, InvalidRow, JsonRow, check_met, flattened, head_of, open_file, rows_of
from trailforge.schemas import NOTICE, InvalidInput, SourceDocument, SourceKind

_LOG = logging.getLogger(__name__)
_EXPECTED = "JSON, CSV, TSV, RSS, Atom or Parquet"


_KNOWN_COLUMNS = frozenset[str]().union(*(archive.columns for archive in ARCHIVES))


def read_documents(
    paths: Iterable[Path],
    *,
    column_map: Mapping[str, str] | None = None,
    source: str | None = None,
    kind: SourceKind | None = None,
    labels: Mapping[str, FileLabels] | None = None,
    seen: set[str] | None = None,
) -> Iterator[SourceDocument | InvalidRow]:
    """Read the documents of all files in order, with an `InvalidRow` for each row that is none.

    `column_map` says which column holds which field (`columns.parse_columns`), and that the rows are of no known
    source; entries of feeds have no columns. `source` and `kind` replace what the rows say, for all files; `labels`, by
    path, do so for one file, and its source `EACH` makes each document a source by itself. Without them, `source` is
    that of the row, the feed's site or the file's name, and `kind` is news where the row has a publisher and a date,
    else general. Two documents never have the same id: the second is an invalid row. `seen` are ids that were used
    before; those of these documents are added. A notice says how many of a file look like papers but are read as
    something else. Raises `InvalidInput` for a file that is missing, cannot be read to its end, or lacks a column.
    """
    common, seen = check_columns(column_map or {}), set[str]() if seen is None else seen
    for path in paths:
        own = (labels or {}).get(str(path), FileLabels())
        is_each = own.source == EACH
        name = source if is_each else own.source or source
        yield from _Reading(common, name, own.kind or kind, is_each, seen, Asides(path)).documents(path)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was asked for, and the ids that were given."""

    column_map: dict[str, str]
    source: str | None
    kind: SourceKind | None
    is_each: bool
    """Whether each document is a source by itself."""
    seen: set[str]
    asides: Asides
    like_papers: list[str] = field(default_factory=list)
    """Kinds of the documents that look like papers, of which nobody has said that they are none."""

    def documents(self, path: Path) -> Iterator[SourceDocument | InvalidRow]:
        """The documents of one file. What looks like papers is said when they have been read, or no more are wanted."""
        try:
            yield from self._rows(path)
        finally:
            if self.like_papers:
                kinds = " or ".join(sorted(set(self.like_papers)))
                _LOG.log(
                    NOTICE,
                    "%s: %s documents look like papers and are taken as %s: say %s:kind=academic if they are papers",
                    path, len(self.like_papers), kinds, path,
                )  # fmt: skip

    def _rows(self, path: Path) -> Iterator[SourceDocument | InvalidRow]:
        with open_file(path, _EXPECTED) as file:
            if is_markup(head_of(file)):
                yield from self._entries(feed_rows(file, path), path)
            else:
                rows = rows_of(file, path, is_row=lambda keys: is_document(keys, self.column_map), choose=self._choose)
                yield from self._objects(rows, path)

    def _entries(self, entries: Iterator[JsonRow | InvalidRow], path: Path) -> Iterator[SourceDocument | InvalidRow]:
        """Of a feed, whose fields have names of their own."""
        for entry in entries:
            yield self._document(entry, None, path) if isinstance(entry, JsonRow) else entry

    def _objects(self, rows: Iterator[JsonRow | InvalidRow], path: Path) -> Iterator[SourceDocument | InvalidRow]:
        """Raises `InvalidInput` at the end when there were rows, and none had a column that the map names."""
        met: set[str] | None = None
        for row in rows:
            if isinstance(row, JsonRow) and isinstance(row.value, dict):
                row = replace(row, value=flattened(row.value))
                met = (met or set()) | row.value.keys()
            yield self._document(row, self.column_map, path) if isinstance(row, JsonRow) else row
        if met is not None:
            check_met(self.column_map, met, path)

    def _choose(self, names: Sequence[str]) -> list[str]:
        """The columns of a table that are read. Raises `InvalidInput` when one that is needed is not there."""
        known = frozenset() if self.column_map else _KNOWN_COLUMNS
        asked = self._asked(self.column_map)
        read = {*columns_of(names, asked).values(), *text_columns(names, asked), *known}
        return [name for name in names if name in read]

    def _asked(self, column_map: dict[str, str]) -> dict[str, str]:
        """The map; what replaces a field makes its column needless."""
        needless = {name: "" for name in ("source", "kind") if getattr(self, name) is not None}
        return {**column_map, **needless}

    def _document(self, row: JsonRow, column_map: dict[str, str] | None, path: Path) -> SourceDocument | InvalidRow:
        """The row's document, whose id joins `seen`. The one place where a bad row stops being an exception.

        Without a column map the row is a feed's entry, whose HTML is text already.
        """
        try:
            fields = Fields(row.value)
            document = self._read(fields, column_map or {})
            document = self._labelled(document if column_map is None else as_plain(document), path)
            if document.id in self.seen:
                raise InvalidInput(f"a document with the id {document.id!r} came before; give each its own", field="id")
        except InvalidInput as error:
            return InvalidRow(file=str(path), row=row.row, field=error.field, problem=error.problem, payload=row.text)
        self.asides.say(fields.asides)
        self.seen.add(document.id)
        is_told = self.kind is not None or (column_map is not None and self._tells_kind(fields, column_map))
        if document.kind != "academic" and not is_told and looks_like_paper(document.text):
            self.like_papers.append(document.kind)
        return document

    def _tells_kind(self, row: Fields, column_map: dict[str, str]) -> bool:
        column = column_map.get("kind", "kind")
        return bool(column) and row.has(column)

    def _read(self, row: Fields, column_map: dict[str, str]) -> SourceDocument:
        if not column_map:
            archive = next((archive for archive in ARCHIVES if archive.recognises(row.values)), None)
            if archive is not None:
                return archive.read(row)
        names, asked = tuple(row.values), self._asked(column_map)
        return read_row(row, columns_of(names, asked, is_row=True), text_columns(names, asked))

    def _labelled(self, document: SourceDocument, path: Path) -> SourceDocument:
        """With source, kind and full id."""
        source = self.source or document.source or path.name.partition(".")[0]
        kind = self.kind or document.kind
        return with_full_id(replace(document, source=source, kind=kind, is_own_source=self.is_each))
