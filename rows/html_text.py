"""HTML to the text that a reader sees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

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
_ENDS_OF_LINES = re.compile(r" ?\n ?")
_GAPS = re.compile(r"\n{3,}")


def html_to_text(html: str) -> str:
    """Text without markup, scripts and styles: blocks become paragraphs, list items and `<br>` lines."""
    reader = _Reader()
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
    def __init__(self) -> None:
        self.parts: list[str] = []
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
            text = _SPACES.sub(" ", data)
            ends_in_space = not self.parts or self.parts[-1][-1:] in (" ", "\n")
            self.parts.append(text.lstrip() if ends_in_space else text)

    def _break(self, tag: str) -> None:
        mark = "\n\n" if tag in _PARAGRAPHS else "\n" if tag in _LINES else " " if tag in _CELLS else ""
        if mark and self.parts:
            self.parts.append(mark)
