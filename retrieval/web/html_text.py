"""HTML to the text that a reader sees."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_HIDDEN = frozenset({"script", "style", "template", "noscript", "head", "svg", "iframe"})
_PARAGRAPHS = frozenset(
    "address article aside blockquote div dl fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr main "
    "nav ol p pre section table ul".split()
)
_LINES = frozenset({"br", "dd", "dt", "li", "tr"})
_CELLS = frozenset({"td", "th"})
_SPACES = re.compile(r"\s+")
_ENDS_OF_LINES = re.compile(r" ?\n ?")
_GAPS = re.compile(r"\n{3,}")


def html_to_text(html: str) -> str:
    """Text without markup, scripts and styles: blocks become paragraphs, list items and `<br>` lines."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return _GAPS.sub("\n\n", _ENDS_OF_LINES.sub("\n", "".join(reader.parts))).strip()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._hidden = ""
        """The element that hides what comes until its end; empty outside of one."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not self._hidden and tag in _HIDDEN:
            self._hidden = tag
        self._break(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._break(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == self._hidden:
            self._hidden = ""
        if tag not in _LINES | _CELLS:
            self._break(tag)

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            text = _SPACES.sub(" ", data)
            self.parts.append(text.lstrip() if self._ends_in_space else text)

    @property
    def _ends_in_space(self) -> bool:
        return not self.parts or self.parts[-1][-1:] in (" ", "\n")

    def _break(self, tag: str) -> None:
        mark = "\n\n" if tag in _PARAGRAPHS else "\n" if tag in _LINES else " " if tag in _CELLS else ""
        if mark and self.parts:
            self.parts.append(mark)
