"""Convert HTML to the text that a reader sees, and detect which texts are HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from html.entities import html5

_HIDDEN = frozenset({"script", "style", "template", "noscript", "head", "svg", "iframe"})
_PARAGRAPHS = frozenset(
    "address article aside blockquote div dl fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr main "
    "nav ol p pre section table ul".split()
)
_LINES = frozenset({"br", "dd", "dt", "li", "tr"})
_CELLS = frozenset({"td", "th"})
_RAW = frozenset({"script", "style"})
"""Hold no markup but their own end."""
_OPENING = re.compile(r"<(?=[!?/a-zA-Z])")
_TAG = re.compile(r"<(?P<slash>/?)(?P<name>[a-zA-Z][^\s/>]*+)(?P<rest>(?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+')|=)*+)>")
_DECLARATION = re.compile(r"<(?:[!?]|/(?![a-zA-Z]))[^>]*+>")
_LONG_REFERENCE = re.compile(r"&(?=#\d{20})")
_SPACES = re.compile(r"\s+")
_SPACES_IN_LINES = re.compile(r"[^\S\n]+")
_ENDS_OF_LINES = re.compile(r" ?\n ?")
_GAPS = re.compile(r"\n{3,}")


_INLINE = frozenset(
    "a abbr acronym b big body caption center cite code col del details em embed font html i img input ins kbd label "
    "link mark meta option picture q s section select small source span strike strong sub summary sup tbody tfoot "
    "thead time title tt u var video wbr".split()
)
_ELEMENTS = _PARAGRAPHS | _LINES | _CELLS | _HIDDEN | _INLINE
_OFTEN_OPEN = frozenset({"br", "hr", "p", "li", "wbr"})
"""Elements that stand without an end, too."""
_BARE = frozenset(
    {"allowfullscreen", "async", "checked", "controls", "defer", "disabled", "hidden", "nowrap", "selected"}
)
"""Attributes without a value."""
_WHOLE_TAG = re.compile(
    r"<(?P<slash>/?)(?P<name>[a-z][a-z0-9]*+|[A-Z][A-Z0-9]*+)"
    r"(?P<attributes>(?:\s++[A-Za-z_:@][\w:.-]*+(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'<>=`]++))?+)*+)\s*+"
    r"(?P<empty>/?)>"
)
_WITH_VALUE = re.compile(r"[^\s=]++\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|\S++)")
_COMMENT = re.compile(r"<!--|<!doctype html", re.IGNORECASE)
_CODE = re.compile(r"```(?s:.*?)```|`[^`\n]++`")
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|(?P<name>[A-Za-z][A-Za-z0-9]{1,31}));")
_AFTER_CODE = ("= ", "return ")
"""What stands before the address of a variable, as `&sum;` is one."""
_OF_MARKUP = frozenset({"amp", "lt", "gt", "quot", "apos", "nbsp"})
_PASSES = 8
"""References to references within each other that are followed."""


def plain_text(text: str) -> str:
    """Return the text that a reader sees of HTML; any other text stays as it is. A second call changes nothing.

    HTML has elements that begin and end, attributes with values, or `<br>` and `<p>` between words. `List<T>`, `a < b`,
    a tag that is only mentioned and code between backticks are not HTML. References (`&amp;`, `&#8217;`) are also
    resolved where there is no tag.
    """
    found = text
    for _ in range(_PASSES):
        if "<" not in found and "&" not in found:
            return found
        outside = _CODE.sub(" ", found) if "`" in found else found
        if _has_elements(outside):
            found = html_to_text(found, keep_lines=not _has_blocks(found))
        elif any(map(_is_reference, _REFERENCE.finditer(outside))):
            found = _REFERENCE.sub(_letter, found)
        else:
            return found
    return text


def _has_elements(text: str) -> bool:
    """Whether a text is HTML by its tags."""
    if _COMMENT.search(text):
        return True
    begun: set[str] = set()
    for tag in _WHOLE_TAG.finditer(text):
        name, attributes = tag["name"].lower(), tag["attributes"]
        unknown = set(_WITH_VALUE.sub("", attributes).lower().split()) - _BARE
        if name not in _ELEMENTS or unknown:
            continue
        if tag["slash"]:
            if name in begun:
                return True
        elif tag["empty"] or "=" in attributes or (tag["name"] in _OFTEN_OPEN and _is_between_words(text, tag)):
            return True
        else:
            begun.add(name)
    return False


def _is_between_words(text: str, tag: re.Match[str]) -> bool:
    """Whether a tag touches what stands before or behind it, as one that is only spoken of does not."""
    before, behind = text[tag.start() - 1 : tag.start()], text[tag.end() : tag.end() + 1]
    return before.isalnum() or behind.isalnum() or before in (".", "!", "?", ">", "\n") or behind == "<"


def _has_blocks(text: str) -> bool:
    """Whether tags say where its lines and paragraphs end."""
    return any(tag["name"].lower() in _PARAGRAPHS | _LINES for tag in _WHOLE_TAG.finditer(text))


def _is_reference(found: re.Match[str]) -> bool:
    name = found["name"]
    if name is None or name in _OF_MARKUP:
        return True
    return f"{name};" in html5 and not found.string.endswith(_AFTER_CODE, 0, found.start())


def _letter(found: re.Match[str]) -> str:
    letter = unescape(found[0])
    return " " if letter == "\xa0" else letter


def html_to_text(html: str, *, keep_lines: bool = False) -> str:
    """Remove markup, scripts and styles: blocks become paragraphs, list items and `<br>` lines.

    `keep_lines`: keep line ends, which HTML treats as spaces.
    """
    reader = _Reader(_SPACES_IN_LINES if keep_lines else _SPACES)
    for piece in _pieces(html):
        if isinstance(piece, str):
            reader.take_text(_unescaped(piece))
        else:
            reader.take_tag(piece)
    return _GAPS.sub("\n\n", _ENDS_OF_LINES.sub("\n", "".join(reader.parts))).strip()


def _pieces(html: str) -> Iterator[str | re.Match[str]]:
    """Texts and tags in order, in linear time, which the standard library's parser does not keep for what is broken.

    As in a browser a comment or script that is never closed hides the rest. A tag that is never closed is text, and so
    is what follows it.
    """
    done = 0
    while opening := _OPENING.search(html, done):
        tag = _TAG.match(html, opening.start())
        end = tag.end() if tag else _end_of_comment(html, opening.start())
        if not end:
            break
        yield html[done : opening.start()]
        if tag:
            yield tag
            if tag["name"].lower() in _RAW and not tag["slash"] and not tag["rest"].endswith("/"):
                closing = re.compile(rf"</(?={tag['name']}[\s/>])", re.IGNORECASE).search(html, end)
                end = closing.start() if closing else len(html)
        done = end
    yield html[done:]


def _end_of_comment(html: str, start: int) -> int:
    """Behind the comment or declaration that begins here; 0 for neither."""
    if html.startswith("<!--", start):
        end = html.find("-->", start + 2)
        return len(html) if end < 0 else end + len("-->")
    declaration = _DECLARATION.match(html, start)
    return declaration.end() if declaration else 0


def _unescaped(text: str) -> str:
    try:
        return unescape(text)
    except ValueError:  # a number of more digits than `int` reads, which is no character
        return unescape(_LONG_REFERENCE.sub("&amp;", text))


class _Reader:
    def __init__(self, spaces: re.Pattern[str]) -> None:
        self.parts: list[str] = []
        self._spaces = spaces
        self._hidden = ""
        """The element that hides what comes until its end; empty outside of one."""

    def take_tag(self, tag: re.Match[str]) -> None:
        name = tag["name"].lower()
        if tag["slash"]:
            if name == self._hidden:
                self._hidden = ""
            if name in _LINES | _CELLS:
                return
        elif not self._hidden and name in _HIDDEN and not tag["rest"].endswith("/"):
            self._hidden = name
        self._break(name)

    def take_text(self, data: str) -> None:
        if not self._hidden:
            text = self._spaces.sub(" ", data)
            ends_in_space = not self.parts or self.parts[-1][-1:] in (" ", "\n")
            self.parts.append(text.lstrip() if ends_in_space else text)

    def _break(self, tag: str) -> None:
        mark = "\n\n" if tag in _PARAGRAPHS else "\n" if tag in _LINES else " " if tag in _CELLS else ""
        if mark and self.parts:
            self.parts.append(mark)
