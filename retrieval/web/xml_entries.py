"""Read the entries of an XML file that may be broken: each is cut out of the text, repaired, and parsed by itself.

No document type is ever parsed, and one that defines entities is refused: no entity can read other files or grow
without end. A broken entry is lost, and no other one.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape, unescape
from xml.etree.ElementTree import Element, ParseError, TreeBuilder
from xml.parsers import expat

from trailforge.retrieval.web.encodings import HeldText

_DEEPEST = 200
"""Elements within each other; no entry comes near it, and what is written back to text must not go deeper."""
_ROOT = re.compile(
    r"\s*+(?:<!--(?s:.*?)-->|<\?(?s:.*?)\?>|<(?P<name>[\w.:-]++)(?=[\s/>])"
    r"""|<!DOCTYPE(?:[^\[\]>"']|"[^"]*+"|'[^']*+')*+(?:>|\[\s*+(?:\]\s*+>|(?P<defines>[^\s\]]))))""",
    re.IGNORECASE,
)
_ENDS = {"<![CDATA[": "]]>", "<!--": "-->", "<?": "?>"}
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_BROKEN_BYTES = re.compile("[\ud800-\udfff]")
_SLIP = re.compile(
    r"(?P<kept><!\[CDATA\[(?s:.*?)(?:\]\]>|\Z))|<!--(?s:.*?)(?:-->|\Z)"
    r"|&(?P<reference>#\d{1,9}|#[xX][0-9a-fA-F]{1,8}|[A-Za-z][A-Za-z0-9]{0,31});|&|<(?![A-Za-z_:/!?])|\]\]>"
)
_OF_XML = frozenset({"amp", "lt", "gt", "quot", "apos"})
_PREFIX = re.compile(r"[\s</]([A-Za-z_][\w.-]{0,60}):[A-Za-z_]")
_USUAL = {
    "atom": "http://www.w3.org/2005/Atom",
    "content": "http://purl.org/rss/1.0/modules/content/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
}
_UNBOUND = 27
"""Expat's number for a prefix that is not declared."""


_Namespaces = Mapping[str | None, str]
"""By prefix; None is that of names without one."""


def is_markup(head: bytes) -> bool:
    """Tell whether a file that begins like this is XML or HTML, in UTF-16 too."""
    return head.startswith((b"<", b"\0<", codecs.BOM_UTF16_LE + b"<\0", codecs.BOM_UTF16_BE + b"\0<"))


class XmlRefused(Exception):
    """The error for XML in which no entry can be read, with the reason."""


@dataclass(frozen=True, slots=True)
class XmlEntry:
    """An entry of an XML file, or the text of one that cannot be read."""

    text: str
    """Text of the entry in the file."""
    element: Element | None
    problem: str = ""
    """Reason why there is no element; empty when there is one."""


class XmlEntries:
    """The root of an XML file, as far as it comes before the first entry, and the entries."""

    root: Element

    def __init__(self, file: io.BufferedIOBase, names: Mapping[str, str]) -> None:
        """`names`: what the entries' elements are called, by the name of the root, without their prefixes.

        Raises `XmlRefused`, and `TooMuchHeld` where no entry ends.
        """
        self._text = HeldText(file)
        name = self._find_root()
        entry = names.get(name.rpartition(":")[2])
        if entry is None:
            raise XmlRefused(f"neither RSS nor Atom: the outermost element is {name!r}")
        self._closing = re.compile(rf"</{re.escape(name)}\s*>")
        self._marks = re.compile(rf"<!\[CDATA\[|<!--|<\?|<(?P<slash>/?)(?:[\w.-]{{1,40}}:)?{entry}(?=[\s/>])")
        first = self._next_mark(self._text.start)
        before = self._text.take(first.start() if first else len(self._text.held))
        self._is_closed = not first and bool(self._closing.search(before) or before.rstrip().endswith("/>"))
        tree = _parse(_BROKEN_BYTES.sub("\ufffd", before), {}, is_whole=False)
        if tree.element is None:
            raise XmlRefused(tree.problem)
        self.root, self._namespaces = tree.element, dict(tree.namespaces)

    def __iter__(self) -> Iterator[XmlEntry]:
        """The entries in order. Raises `TooMuchHeld` for one that is too long."""
        text, at, is_inside = self._text, self._text.start, False
        while mark := self._next_mark(at):
            if not mark["slash"]:
                at = len(mark[0])
                skipped = text.take(mark.start())
                if is_inside:
                    yield XmlEntry(skipped, None, "broken XML: the next entry begins before this one ends")
                at, is_inside = text.start + at, True
            elif is_inside:
                yield self._entry(text.take(text.find(">", mark.end())))
                at, is_inside = text.start, False
            else:
                at = mark.end()
        rest = text.take(len(text.held))
        if is_inside or not (self._is_closed or self._closing.search(rest)):
            where = "inside this entry" if is_inside else "before its last tag"
            yield XmlEntry(_BROKEN_BYTES.sub("\ufffd", rest), None, f"the file is cut short: it ends {where}")

    def _entry(self, text: str) -> XmlEntry:
        if _BROKEN_BYTES.search(text):
            problem = f"holds bytes that are no text in the feed's encoding, {self._text.encoding}"
            return XmlEntry(_BROKEN_BYTES.sub("\ufffd", text), None, problem)
        tree = _parse(text, self._namespaces)
        return XmlEntry(text, None if tree.problem else tree.element, tree.problem)

    def _find_root(self) -> str:
        """Its name; what stands before it is let go."""
        text, at = self._text, self._text.start
        while found := text.match(_ROOT, at):
            if found["defines"]:
                raise XmlRefused(
                    "holds a document type declaration that defines something (<!DOCTYPE … [ … ]>), which feeds do not "
                    "need; refused for safety"
                )
            if found["name"]:
                text.take(found.start("name") - 1)
                return found["name"]
            at = found.end()
        raise XmlRefused("broken XML: no element begins")

    def _next_mark(self, at: int) -> re.Match[str] | None:
        """The next tag of an entry, outside of comments and the like."""
        while mark := self._text.search(self._marks, at):
            closing = _ENDS.get(mark[0])
            if closing is None:
                return mark
            at = self._text.find(closing, mark.end())
        return None


def _parse(text: str, namespaces: _Namespaces, *, is_whole: bool = True) -> _Tree:
    """The element that a text is, or, of one that is not whole, the one with which it begins."""
    mended = _SLIP.sub(_mend, _CONTROLS.sub("", text))
    tree = _Tree(mended, namespaces, is_whole)
    if tree.is_unbound:
        prefixes = dict.fromkeys(prefix for prefix in _PREFIX.findall(mended) if not prefix.startswith("xml"))
        declared = {prefix: _USUAL.get(prefix, f"urn:undeclared:{prefix}") for prefix in prefixes}
        tree = _Tree(mended, {**declared, **namespaces}, is_whole)
    return tree


def _mend(slip: re.Match[str]) -> str:
    if slip["kept"] is not None:
        return slip[0]
    if not (name := slip["reference"]):
        return "" if slip[0].startswith("<!--") else escape(slip[0])
    if name in _OF_XML:
        return slip[0]
    letter = unescape(slip[0])  # U+FFFD for a number that is no character's
    return escape(_CONTROLS.sub("", letter.strip("\ufffd"))) if letter != slip[0] else f"&amp;{name};"


class _Tree:
    """A text parsed as what stands within these namespaces."""

    def __init__(self, text: str, namespaces: _Namespaces, is_whole: bool) -> None:
        self.element: Element | None = None
        self.namespaces: list[tuple[str | None, str]] = []
        """In scope at the end."""
        self.problem, self.is_unbound = "", False
        self._depth, self._builder = 0, TreeBuilder()
        parser = expat.ParserCreate(namespace_separator="}")
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._begin, self._end
        parser.CharacterDataHandler = self._builder.data
        parser.StartNamespaceDeclHandler = lambda prefix, uri: self.namespaces.append((prefix, uri or ""))
        parser.EndNamespaceDeclHandler = self._leave
        declared = (
            f' xmlns{":" if prefix else ""}{prefix or ""}="{escape(uri)}"' for prefix, uri in namespaces.items()
        )
        try:
            parser.Parse(f"<_{''.join(declared)}>")
            parser.Parse(text)
            if is_whole:
                parser.Parse("</_>", True)
        except expat.ExpatError as error:
            self.problem = f"broken XML in its line {error.lineno} ({expat.ErrorString(error.code)})"
            self.is_unbound = error.code == _UNBOUND
        except ParseError as error:
            self.problem = f"broken XML ({error})"
        except _TooDeep:
            self.problem = f"XML nested deeper than {_DEEPEST} elements"

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _TooDeep
        if self._depth > 1:
            element = self._builder.start(_tag(name), {_tag(key): value for key, value in attributes.items()})
            self.element = element if self.element is None else self.element

    def _end(self, name: str) -> None:
        if self._depth > 1:
            self._builder.end(_tag(name))
        self._depth -= 1

    def _leave(self, prefix: str | None) -> None:
        at = max(at for at, (each, _) in enumerate(self.namespaces) if each == prefix)
        del self.namespaces[at]


class _TooDeep(Exception):
    """Elements within each other, too many."""


def _tag(name: str) -> str:
    return f"{{{name}" if "}" in name else name
