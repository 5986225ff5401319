"""RSS 2.0 and Atom (RFC 4287) files, entry by entry, as fields.

A document type declaration is refused, so no entity can be defined: neither one that reads other files nor one that
grows without end. Entries are handed on while the file is read; what the feed says of itself has to stand before them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder, tostring
from xml.parsers import expat

from trailforge.retrieval.web.html_text import html_to_text
from trailforge.retrieval.web.http import site_of
from trailforge.schemas import InvalidInput
from trailforge.schemas.files import LONGEST_ROW

_CHUNK = 1 << 20
"""Bytes. Expat looks at an unfinished tag from its start again with each of them."""
_DEEPEST = 200
"""Elements within each other; no entry comes near it, and what is written back to text must not go deeper."""
_ATOM = "{http://www.w3.org/2005/Atom}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_CONTENT = "{http://purl.org/rss/1.0/modules/content/}encoded"
_LICENCES = (
    "{http://backend.userland.com/creativeCommonsRssModule}license",
    "{http://cyber.law.harvard.edu/rss/creativeCommonsRssModule.html}license",
)
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEntry:
    """An entry as an object with the fields that `feed_rows` names."""

    row: int
    """1-based position in the feed."""
    value: dict[str, Any]
    text: str
    """The entry's XML."""


@dataclass(frozen=True, slots=True)
class _About:
    """What a feed says of itself, for entries that do not say it."""

    site: str
    language: str
    licence: str
    authors: tuple[str, ...]


def feed_rows(file: io.BufferedIOBase, path: object) -> Iterator[FeedEntry]:
    """The entries of a feed, each an object with the keys `id, title, text, url, published, authors, language, licence`
    and `source` (the site's host), as far as the entry or the feed says them. HTML is turned to text.

    Raises `InvalidInput` for broken XML, a document type declaration, and XML that is neither RSS nor Atom.
    """
    parser, row = _Parser(), 0
    about: _About | None = None
    try:
        for entry in parser.entries(file):
            row += 1
            about = about or _about(parser.root)
            entry.tail = None
            text = tostring(entry, encoding="unicode")
            fields = _atom_fields(entry, about) if entry.tag == f"{_ATOM}entry" else _rss_fields(entry, about)
            yield FeedEntry(row=row, value=fields, text=text)
            entry.clear()
    except expat.ExpatError as error:
        problem = f"broken XML at line {error.lineno} ({expat.ErrorString(error.code)})"
        raise InvalidInput(problem, file=path, row=row + 1) from error
    except _Refused as refusal:
        raise InvalidInput(str(refusal), file=path) from None


class _Refused(Exception):
    """XML that is well-formed, and none that is read here."""


class _Parser:
    """Builds the tree of a feed and tells of each entry that is complete."""

    def __init__(self) -> None:
        self._expat = expat.ParserCreate(namespace_separator="}")
        self._expat.buffer_text = True
        self._expat.StartDoctypeDeclHandler = _refuse_doctype
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._tree = TreeBuilder()
        self._expat.CharacterDataHandler = self._tree.data
        self._ready: list[Element] = []
        self._depth = 0
        self.root = Element("none")

    def entries(self, file: io.BufferedIOBase) -> Iterator[Element]:
        """Entries as they become complete. Raises `expat.ExpatError` and `_Refused`."""
        is_first, held = True, 0
        while chunk := file.read(_CHUNK):
            chunk, is_first = chunk.lstrip() if is_first else chunk, False
            self._parse(chunk)
            taken = self._taken()
            held = 0 if taken else held + len(chunk)
            if held > LONGEST_ROW:
                raise _Refused(f"more than {LONGEST_ROW >> 20} MiB in which no entry ends")
            yield from taken
        self._parse(b"", is_last=True)
        yield from self._taken()

    def _parse(self, chunk: bytes, *, is_last: bool = False) -> None:
        try:
            self._expat.Parse(chunk, is_last)
        except (LookupError, ValueError) as error:
            raise _Refused(f"XML in an encoding that cannot be read ({error})") from None

    def _taken(self) -> list[Element]:
        taken, self._ready = self._ready, []
        return taken

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        element = self._tree.start(_tag(name), {_tag(key): value for key, value in attributes.items()})
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Refused(f"XML nested deeper than {_DEEPEST} elements")
        if self._depth == 1:
            if element.tag not in ("rss", f"{_ATOM}feed"):
                raise _Refused(f"neither RSS 2.0 nor Atom: the outermost element is {element.tag!r}")
            self.root = element

    def _end(self, name: str) -> None:
        element = self._tree.end(_tag(name))
        self._depth -= 1
        if (element.tag, self._depth) in ((f"{_ATOM}entry", 1), ("item", 2)):
            self._ready.append(element)


def _tag(name: str) -> str:
    return f"{{{name}" if "}" in name else name


def _refuse_doctype(*_: object) -> None:
    raise _Refused("holds a document type declaration (<!DOCTYPE …>), which feeds do not need; refused for safety")


def _about(root: Element) -> _About:
    channel = root.find("channel")
    if channel is None:
        site = _link(root) or _text(root, f"{_ATOM}id")
        return _About(site_of(site), root.get(_LANG, ""), _licence(root), _atom_authors(root))
    return _About(site_of(_text(channel, "link")), _text(channel, "language"), _licence(channel), ())


def _atom_fields(entry: Element, about: _About) -> dict[str, Any]:
    content = entry.find(f"{_ATOM}content")
    body = _atom_text(content) or _atom_text(entry.find(f"{_ATOM}summary"))
    return _fields_present(
        id=_text(entry, f"{_ATOM}id"),
        title=_one_line(_atom_text(entry.find(f"{_ATOM}title"))),
        text=body,
        url=_link(entry),
        published=_text(entry, f"{_ATOM}published") or _text(entry, f"{_ATOM}updated"),
        authors=_atom_authors(entry) or about.authors,
        language=(content.get(_LANG, "") if content is not None else "") or entry.get(_LANG, "") or about.language,
        licence=_licence(entry) or about.licence,
        source=about.site or site_of(_link(entry)),
    )


def _rss_fields(item: Element, about: _About) -> dict[str, Any]:
    link = _text(item, "link")
    return _fields_present(
        id=_text(item, "guid") or link,
        title=_one_line(html_to_text(_text(item, "title"))),
        text=html_to_text(_text(item, _CONTENT)) or html_to_text(_text(item, "description")),
        url=link or _permalink(item),
        published=_text(item, "pubDate") or _text(item, f"{_DC}date"),
        authors=_rss_authors(item),
        language=about.language,
        licence=_licence(item) or about.licence,
        source=about.site or site_of(link),
    )


def _fields_present(*, title: str, text: str, authors: tuple[str, ...], **others: str) -> dict[str, Any]:
    """Title and text always, the others when there is something."""
    named = {name: value for name, value in others.items() if value}
    return {**named, "title": title, "text": text, **({"authors": list(authors)} if authors else {})}


def _text(parent: Element, tag: str) -> str:
    return (parent.findtext(tag) or "").strip()


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _atom_text(element: Element | None) -> str:
    """A text construct of type text, html or xhtml; empty for content that stands elsewhere or is no text."""
    kind = element.get("type", "text") if element is not None else ""
    if element is None or element.get("src"):
        return ""
    if kind in ("xhtml", "application/xhtml+xml"):
        return html_to_text("".join(tostring(_plain(child), encoding="unicode") for child in element))
    text = "".join(element.itertext())
    if kind in ("html", "text/html"):
        return html_to_text(text)
    return text.strip() if kind == "text" or kind.startswith("text/") else ""


def _plain(element: Element) -> Element:
    """The element, its tags and those within without their namespaces, so that they are written as in HTML."""
    for each in element.iter():
        each.tag = each.tag.rpartition("}")[2]
    return element


def _link(parent: Element) -> str:
    """Address of the page that an Atom feed or entry is about."""
    links = parent.findall(f"{_ATOM}link")
    return next((link.get("href", "").strip() for link in links if link.get("rel", "alternate") == "alternate"), "")


def _permalink(item: Element) -> str:
    guid = item.find("guid")
    is_address = guid is not None and guid.get("isPermaLink", "true") == "true"
    return _text(item, "guid") if is_address and site_of(_text(item, "guid")) else ""


def _atom_authors(parent: Element) -> tuple[str, ...]:
    names = (_one_line(author.findtext(f"{_ATOM}name") or "") for author in parent.findall(f"{_ATOM}author"))
    return tuple(name for name in names if name)


def _rss_authors(item: Element) -> tuple[str, ...]:
    """Of `dc:creator`, else of `author`, which holds an e-mail address and mostly a name."""
    creators = [_one_line(creator.text or "") for creator in item.findall(f"{_DC}creator")]
    author = _text(item, "author")
    if "@" in author:
        address, _, name = author.partition("(")
        author = name[:-1] if "@" in address and name.endswith(")") else ""
    return tuple(name for name in creators or [author] if name)


def _licence(parent: Element) -> str:
    """Address of the licence. A line of copyright is none."""
    links = (link.get("href", "") for link in parent.findall(f"{_ATOM}link") if link.get("rel") == "license")
    return next((found.strip() for found in (*(_text(parent, tag) for tag in _LICENCES), *links) if found), "")
