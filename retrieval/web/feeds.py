"""Read RSS (0.9 to 2.0, also as RDF) and Atom files as publishers write them, entry by entry, as rows.

Entries are yielded while the file is read; the fields of the feed itself must come before them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any
from xml.etree.ElementTree import Element, tostring

from trailforge.retrieval.web.encodings import TooMuchHeld
from trailforge.retrieval.web.http import site_of
from trailforge.retrieval.web.xml_entries import XmlEntries, XmlRefused
from trailforge.rows import InvalidRow, JsonRow, html_to_text
from trailforge.schemas import LONGEST_ROW, InvalidInput

_ENTRIES = {"rss": "item", "RDF": "item", "feed": "entry"}
"""What entries are called, by the outermost element."""
_ATOM = "{http://www.w3.org/2005/Atom}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_CONTENT = "{http://purl.org/rss/1.0/modules/content/}encoded"
_LICENCES = (
    "{http://backend.userland.com/creativeCommonsRssModule}license",
    "{http://cyber.law.harvard.edu/rss/creativeCommonsRssModule.html}license",
)
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_DATES = ("published", "issued", "updated", "modified")
"""Of Atom 1.0 and 0.3."""
_EARLIER = {
    "{http://purl.org/atom/ns#}": _ATOM,
    "{http://purl.org/dc/elements/1.0/}": _DC,
    **dict.fromkeys(
        (
            *("{http://purl.org/rss/1.0/}", "{http://purl.org/net/rss1.1#}", "{http://backend.userland.com/rss2}"),
            *("{http://my.netscape.com/rdf/simple/0.9/}", "{http://channel.netscape.com/rdf/simple/0.9/}"),
            *("{http://blogs.law.harvard.edu/tech/rss}", "{http://backend.userland.com/RSS2}"),
        ),
        "",
    ),
}
"""Namespaces of other versions, and what their names are called here."""


@dataclass(frozen=True, slots=True)
class _About:
    """What a feed says of itself, for entries that do not say it."""

    site: str
    language: str
    licence: str
    authors: tuple[str, ...]


def feed_rows(file: io.BufferedIOBase, path: object) -> Iterator[JsonRow | InvalidRow]:
    """Yield the entries of a feed, each an object with the keys `id, title, text, url, published, authors, language,
    licence` and `source` (the site's host), as far as the entry or the feed says them. HTML is turned to text.

    An entry that cannot be read is an `InvalidRow`. Raises `InvalidInput` for XML that is neither RSS nor Atom, or
    defines entities, and where no entry ends in 16 MiB.
    """
    row = 0
    try:
        entries = XmlEntries(file, _ENTRIES)
        space, _, name = entries.root.tag.rpartition("}")
        own = f"{space}}}" if space and name == "rss" else ""
        about = _about(_current(entries.root, own))
        for row, entry in enumerate(entries, start=1):
            if entry.element is None:
                yield InvalidRow(file=str(path), row=row, field=None, problem=entry.problem, payload=entry.text)
                continue
            element = _current(entry.element, own)
            fields = _atom_fields(element, about) if element.tag == f"{_ATOM}entry" else _rss_fields(element, about)
            yield JsonRow(row=row, value=fields, text=entry.text)
    except TooMuchHeld:
        problem = f"more than {LONGEST_ROW >> 20} MiB in which no entry ends"
        raise InvalidInput(problem, file=path, row=row + 1) from None
    except XmlRefused as refusal:
        raise InvalidInput(str(refusal), file=path) from None


def _current(element: Element, own: str) -> Element:
    """The element, with names of other versions of RSS and Atom as those of RSS 2.0 and Atom 1.0. `own`: a namespace in
    which a feed puts RSS 2.0, which has none."""
    for each in element.iter():
        space, end, name = each.tag.rpartition("}")
        current = "" if own and space + end == own else _EARLIER.get(space + end)
        each.tag = each.tag if current is None else f"{current}{name}"
    return element


def _about(root: Element) -> _About:
    channel = root.find("channel")
    if channel is None:
        site = _link(root) or _text(root, f"{_ATOM}id")
        return _About(site_of(site), root.get(_LANG, ""), _licence(root), _atom_authors(root))
    language = _text(channel, "language") or _text(channel, f"{_DC}language")
    return _About(site_of(_text(channel, "link")), language, _licence(channel), ())


def _atom_fields(entry: Element, about: _About) -> dict[str, Any]:
    content = entry.find(f"{_ATOM}content")
    body = _atom_text(content) or _atom_text(entry.find(f"{_ATOM}summary"))
    return _fields_present(
        id=_text(entry, f"{_ATOM}id"),
        title=_one_line(_atom_text(entry.find(f"{_ATOM}title"))),
        text=body,
        url=_link(entry),
        published=next(filter(None, (_text(entry, f"{_ATOM}{name}") for name in _DATES)), ""),
        authors=_atom_authors(entry) or about.authors,
        language=(content.get(_LANG, "") if content is not None else "") or entry.get(_LANG, "") or about.language,
        licence=_licence(entry) or about.licence,
        source=about.site or site_of(_link(entry)),
    )


def _rss_fields(item: Element, about: _About) -> dict[str, Any]:
    link = _text(item, "link")
    return _fields_present(
        id=_text(item, "guid") or item.get(f"{_RDF}about", "").strip() or link,
        title=_one_line(html_to_text(_markup(item.find("title")))),
        text=html_to_text(_markup(item.find(_CONTENT))) or html_to_text(_markup(item.find("description"))),
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
        return html_to_text(_markup(element))
    text = "".join(element.itertext())
    if kind in ("html", "text/html"):
        return html_to_text(text)
    return text.strip() if kind == "text" or kind.startswith("text/") else ""


def _markup(element: Element | None) -> str:
    """What an element holds as HTML: its text, or elements within it, without their namespaces."""
    if element is None or not len(element):
        return (element.text or "").strip() if element is not None else ""
    for each in element.iter():
        each.tag = each.tag.rpartition("}")[2]
    return escape(element.text or "") + "".join(tostring(child, encoding="unicode") for child in element)


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
