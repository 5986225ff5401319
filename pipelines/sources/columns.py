"""Read documents from rows: those of archives, recognised by their fields, and rows with any columns.

    {"arxiv_id": "2504.00016", "title": "…", "abstract": "…", "authors": ["…"], "listed_date": "2025-04-02", "url": "…"}
    {"id": "wikinews_2019_000", "title": "…", "date": "2019-01-04", "source": "Wikinews", "text": "…", "url": "…"}
    {"id": "dg_2010-10-22-…", "title": "…", "date": "2010-10-22", "source": "Digital.gov (GSA)", "text": "…", …}

A paper's text is its abstract, in rows of a listing and entries of arXiv's feeds alike, and it has the same id wherever
it comes from: that of arXiv without the version. arXiv's metadata, abstracts included, are CC0 by its terms of use. Of
all other rows the column of each field is told by a map or by the usual names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

from trailforge.rows import (
    Fields,
    bare_name,
    check_column_map,
    find_columns,
    iso_date,
    parse_column_map,
    parsed,
    plain_text,
    split_contents,
)
from trailforge.schemas import InvalidInput, SourceDocument, SourceKind

USUAL: dict[str, tuple[str, ...]] = {
    "id": ("id", "guid", "uuid", "docid", "documentid", "articleid", "uri"),
    "title": ("title", "headline", "name", "webtitle"),
    "text": (
        *("text", "body", "content", "contents", "article", "articlebody", "fulltext", "abstract", "facts"),
        *("contenttext", "contenthtml", "fieldsbodytext", "fieldsbody", "leadparagraph"),
        *("description", "summary", "snippet", "fieldstrailtext"),
    ),
    "url": ("url", "link", "permalink", "sourceurl", "weburl"),
    "published": (
        *("published", "date", "publishedat", "publisheddate", "publicationdate", "pubdate"),
        *("datepublished", "publishdate", "webpublicationdate"),
    ),
    "authors": ("authors", "author", "byline", "creator", "authorname", "bylineoriginal", "fieldsbyline"),
    "language": ("language", "lang"),
    "licence": ("licence", "license"),
    "source": ("source", "publisher", "sourcename", "sourcetitle", "publishername", "sourceid"),
    "kind": ("kind",),
}
"""Columns by field, the best first, without capitals and marks: `pubdate` is also `pub_date` and `pubDate`. With them
articles of NewsAPI, GNews, Mediastack, NewsData.io, the Guardian, the New York Times and Event Registry, JSON Feed's
items, posts of WordPress and articles of schema.org are read."""
_SHORT = frozenset({"description", "summary", "snippet", "fieldstrailtext"})
"""Columns of a text where there is no longer one. They do not make a document of an object around a list."""
_CUT = re.compile(r"(?:\.\.\.|…)?+\s{0,9}+\[\+?+\d{1,9}+ chars\]$")
"""How a text ends of which a plan of NewsAPI or GNews gives the beginning only."""
_NOT_GIVEN = re.compile(r"ONLY AVAILABLE IN [A-Z ]{1,60}PLANS?")
"""What NewsData.io writes for a text that a plan does not give."""

_REQUIRED = ("title", "text")
_TITLES = frozenset(USUAL["title"])
_LANGUAGE = re.compile(r"([a-z]{2})(?:[-_].*)?", re.IGNORECASE)
_LABELLED = re.compile(r"(.+?):(\w+=.*)")
EACH = "each"
"""Value in place of a source's name that makes each document of the file a source by itself, as papers are."""
_FORM = f"FILE:kind=KIND,source=NAME (or source={EACH}: each document is a source by itself)"
_KINDS: tuple[str, ...] = get_args(SourceKind)


def parse_columns(text: str) -> dict[str, str]:
    """Parse a column map of documents, such as `title=headline,text=body`, to a map from fields to columns. Raises
    `InvalidInput` for a field that documents do not have.
    """
    return parse_column_map(text, USUAL, "documents")


class FileLabels(NamedTuple):
    """Labels that the user gives to all documents of a file; they replace what the file says."""

    source: str | None = None
    """Name of the source, or `EACH`: each document is a source by itself; None: as the file says."""
    kind: SourceKind | None = None


def parse_document_files(texts: Iterable[str]) -> tuple[tuple[Path, ...], dict[str, FileLabels]]:
    """Read `news.jsonl:kind=news,source=wire` as a path, and its labels by path; `news.jsonl` has no labels.

    Raises `InvalidInput` for a label that files do not have, and for a kind that does not exist.
    """
    paths: list[Path] = []
    labels: dict[str, FileLabels] = {}
    for text in texts:
        match = None if Path(text).exists() else _LABELLED.fullmatch(text)
        path = match[1] if match else text
        paths.append(Path(path))
        if match:
            labels[str(paths[-1])] = _labels(path, match[2])
    return tuple(paths), labels


def read_given(files: Iterable[str], options: Mapping[str, Any]) -> tuple[tuple[Path, ...], dict[str, Any]]:
    """Return the paths of the files, and the options of `documents.read_documents`. `files` may have labels behind them
    (`parse_document_files`), and `options["columns"]` is a column map as text.
    """
    paths, labels = parse_document_files(map(str, files))
    columns = options.get("columns")
    rest = {name: value for name, value in options.items() if name != "columns"}
    return paths, {**rest, "labels": labels, "column_map": parse_columns(columns) if columns else None}


def _labels(path: str, text: str) -> FileLabels:
    given: dict[str, Any] = {}
    for part in text.split(","):
        name, mark, value = (piece.strip() for piece in part.partition("="))
        if name not in FileLabels._fields or not mark or not value or name in given:
            raise InvalidInput(f"expected {_FORM}, each label once; found {part!r}", file=path)
        if name == "kind" and value not in _KINDS:
            raise InvalidInput(f"expected one of {', '.join(_KINDS)}, found {value[:40]!r}", file=path, field="kind")
        given[name] = value
    return FileLabels(**given)


def check_columns(column_map: Mapping[str, str]) -> dict[str, str]:
    """Return the map from fields to columns unchanged when all its fields are fields of documents. Raises
    `InvalidInput` otherwise.
    """
    return check_column_map(column_map, USUAL, "documents")


def columns_of(names: Sequence[str], column_map: Mapping[str, str], *, is_row: bool = False) -> dict[str, str]:
    """Return the column of each field of documents that has one among these names, by the map or by the usual names.
    With `is_row` they are one row's own, not a table's. Raises `InvalidInput` as `rows.tables.find_columns`.
    """
    bare = set(map(bare_name, names))
    has_both = "title" not in column_map and "contents" in bare and not bare & _TITLES
    is_untitled = has_both or column_map.get("title") == ""
    needed = ("text",) if is_untitled else _REQUIRED
    return find_columns(names, USUAL, column_map, needed=needed, is_row=is_row)


def text_columns(names: Sequence[str], column_map: Mapping[str, str]) -> list[str]:
    """Return the columns that may hold a text, the best first."""
    if "text" in column_map:
        return [column_map["text"]]
    places = {usual: place for place, usual in enumerate(USUAL["text"])}
    known = {name: places[bare] for name in names if (bare := bare_name(name)) in places}
    return sorted(known, key=known.__getitem__)


def is_document(names: Sequence[str], column_map: Mapping[str, str]) -> bool:
    """Tell whether an object with these keys is a document itself, rather than a wrapper around a list of them."""
    try:
        return bare_name(columns_of(names, column_map)["text"]) not in _SHORT
    except InvalidInput:
        return False


def read_row(row: Fields, columns: Mapping[str, str], texts: Sequence[str]) -> SourceDocument:
    """Read a row as a document whose `id` is the row's own; `source` is empty when the row names none.

    Without an id, the URL is one; without both, a hash of title and text. Without a kind, what a publisher dates is
    news, all else general. The text is that of the first of the columns `texts` that has one; it may be a list of
    texts. Without a title, the first line of `contents` is one. Raises `InvalidInput` naming the column.
    """
    text = _text(row, next((column for column in texts if _says(row, column)), columns["text"]))
    title = one_line(_title(row, columns["title"])) if "title" in columns else ""
    if "title" not in columns and bare_name(columns["text"]) == "contents":
        title, text = map(str.strip, split_contents(text))
    if not text:
        raise InvalidInput("is empty; a text is needed", field=columns["text"])
    url = _optional_text(row, columns, "url")
    published = _optional_text(row, columns, "published")
    source = _optional_text(row, columns, "source")
    kind = _optional_text(row, columns, "kind") or ("news" if source and published else "general")
    if kind not in _KINDS:
        raise InvalidInput(f"expected one of {', '.join(_KINDS)}, found {kind[:40]!r}", field=columns["kind"])
    return SourceDocument(
        id=_optional_text(row, columns, "id") or url or hashlib.sha256(f"{title}\0{text}".encode()).hexdigest()[:16],
        source=source,
        kind=cast(SourceKind, kind),
        title=title,
        text=text,
        url=url,
        published=iso_date(published, columns["published"]) if published else None,
        language=language_code(_optional_text(row, columns, "language")),
        authors=authors_of(row, columns["authors"]) if "authors" in columns else (),
        licence=_optional_text(row, columns, "licence"),
    )


def as_plain(document: SourceDocument) -> SourceDocument:
    """Return the document with HTML in its title and text turned to text. Raises `InvalidInput` for one that is all
    markup."""
    text = tidy(plain_text(document.text))
    if not text:
        raise InvalidInput("holds nothing but markup, and no words to read", field="text")
    return replace(document, title=one_line(plain_text(document.title)), text=text)


def _says(row: Fields, column: str) -> bool:
    """Whether a column has a text, and no word that there is none."""
    value = row.values.get(column)
    return row.has(column) and not (isinstance(value, str) and _NOT_GIVEN.fullmatch(value.strip()))


def _title(row: Fields, column: str) -> str:
    """The title, be it `None` or `NA`; empty where there is none."""
    value = row.values.get(column)
    return row.text(column) if isinstance(value, str) else row.text_or_empty(column)


def _text(row: Fields, column: str) -> str:
    """The text; a list of texts, as MultiHop-RAG's `facts`, with each on a line."""
    if not isinstance(row.values.get(column), list):
        return tidy(_CUT.sub("", row.filled_text(column)))
    text = "\n".join(filter(None, map(tidy, row.texts(column))))
    if not text:
        raise InvalidInput("is empty; a text is needed", field=row.name(column))
    return text


def with_full_id(document: SourceDocument) -> SourceDocument:
    """Return the document with its id made `source:id`; an id that already begins like this is unchanged."""
    native = document.id.removeprefix(f"{document.source}:")
    return replace(document, id=f"{document.source}:{native}")


def authors_of(row: Fields, name: str) -> tuple[str, ...]:
    """Read names in a list, or in a text with semicolons between them; none when the field is missing."""
    value = row.values.get(name)
    value = parsed(value) if isinstance(value, str) else value
    each = value if isinstance(value, list) else row.text_or_empty(name).split(";")
    names = Fields({str(place): name for place, name in enumerate(each)}, row.name(name), row.asides)
    return tuple(tidied for place in names.values if (tidied := one_line(names.text_or_empty(place))))


def language_code(text: str) -> str | None:
    """Return the language code `en` of `en`, `EN` and `en-US`; None for a text that does not begin with a code of two
    letters.
    """
    match = _LANGUAGE.fullmatch(text)
    return match[1].lower() if match else None


def one_line(text: str) -> str:
    """Replace white space of any kind and length by one space."""
    return " ".join(text.split())


def tidy(text: str) -> str:
    """Replace all line ends by `\\n`, and strip white space around the text."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _optional_text(row: Fields, columns: Mapping[str, str], field: str) -> str:
    """Empty when there is no such column, or nothing in it."""
    return row.text_or_empty(columns[field]) if field in columns else ""


_ARXIV_KEYS = frozenset({"arxiv_id", "title", "abstract"})
_ARXIV_ID = re.compile(
    r"(?:.*arxiv\.org[:/](?:abs/)?)?(\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(?:v\d+)?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A source of documents whose rows are recognised by their fields, without a column map."""

    columns: frozenset[str]
    """Names of all columns that are read."""
    recognises: Callable[[Mapping[str, object]], bool]
    """Whether a row is one of this archive's."""
    read: Callable[[Fields], SourceDocument]
    """Reads a row as a document with the row's own id. Raises `InvalidInput` naming the field."""


def _is_paper(values: Mapping[str, object]) -> bool:
    """Whether a row is one of a listing, or an entry of a feed of arXiv's."""
    is_of_feed = values.get("source") == "arxiv.org" and _ARXIV_ID.fullmatch(str(values.get("id"))) is not None
    return is_of_feed or values.keys() >= _ARXIV_KEYS


def read_paper(row: Fields) -> SourceDocument:
    """Read a row of arXiv as a document. Raises `InvalidInput` naming the field."""
    is_listed = "arxiv_id" in row
    id_field = "arxiv_id" if is_listed else "id"
    native = _ARXIV_ID.fullmatch(row.filled_text(id_field))
    if native is None:
        raise InvalidInput(f"expected an arXiv id as 2504.00016, found {row.text(id_field)[:40]!r}", field=id_field)
    day = next((name for name in ("listed_date", "published") if row.values.get(name)), None)
    return SourceDocument(
        id=native[1],
        source="arxiv",
        kind="academic",
        title=one_line(row.filled_text("title")),
        text=one_line(row.filled_text("abstract" if is_listed else "text")),  # feeds break lines anywhere
        url=f"https://arxiv.org/abs/{native[1]}",
        published=iso_date(row.text(day), day) if day else None,
        language="en",
        authors=authors_of(row, "authors"),
        licence="CC0-1.0",
    )


_PUBLISHERS = {
    "Wikinews": ("wikinews", "wikinews_", "CC-BY-2.5"),
    "Digital.gov (GSA)": ("digitalgov", "dg_", "CC0-1.0"),
}
"""By what their rows call their source: its name, with what its ids begin, its licence."""


def _is_news(values: Mapping[str, object]) -> bool:
    source = values.get("source")
    return isinstance(source, str) and source in _PUBLISHERS and "date" in values


def _read_news(row: Fields) -> SourceDocument:
    name, prefix, licence = _PUBLISHERS[row.text("source")]
    return SourceDocument(
        id=row.filled_text("id").removeprefix(prefix),
        source=name,
        kind="news",
        title=one_line(row.filled_text("title")),
        text=tidy(row.filled_text("text")),
        url=row.text_or_empty("url"),
        published=iso_date(row.filled_text("date"), "date"),
        language="en",
        licence=licence,
    )


ARCHIVES = (
    Archive(
        columns=frozenset({"arxiv_id", "title", "abstract", "authors", "listed_date", "published", "url"}),
        recognises=_is_paper,
        read=read_paper,
    ),
    Archive(columns=frozenset({"id", "title", "date", "source", "text", "url"}), recognises=_is_news, read=_read_news),
)
"""The archives, in the order in which they are tried."""
