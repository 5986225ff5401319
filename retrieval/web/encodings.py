"""Detect the encoding of bytes, whose declared one may be wrong, and read text piece by piece."""

from __future__ import annotations

import codecs
import io
import re

from trailforge.schemas import LONGEST_ROW

CHUNK = 1 << 20
"""Number of bytes that are read at once; the encoding is detected from the first of them."""
LONGEST_MARK = 200
"""Largest number of characters of a match of `HeldText.search`."""

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16's, with which it begins
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WIDE = {b"<\0": "utf-16-le", b"\0<": "utf-16-be"}
"""How markup begins in UTF-16 without a mark."""
_SUPERSETS = {
    **{"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "big5": "big5hkscs"},
    **{"iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "tis-620": "cp874", "windows-874": "cp874"},
}
"""What those who say the one write, as browsers read it (the WHATWG's Encoding Standard)."""
_KNOWN = re.compile(r"utf-(?:8|16|32)|iso8859|iso2022|cp\d|koi8|kz1048|ptcp|mac|gb|big5|cp932|shift|euc|johab|hz$")
"""Codecs of texts: others are ciphers, escapes, or take more than linear time."""
_MULTI_BYTE = re.compile(r"gb|big5|cp9[345]|shift|euc|johab|iso2022|hz$")
_ENOUGH = 4
"""Characters beyond ASCII that are UTF-8 by chance in one text of a thousand."""
_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([\w.:-]{1,40})["']""")
_RUNS = re.compile(rb"[\x80-\xff]+")
_NOT_WESTERN = re.compile(rb"[a-z][\xa1-\xbf][a-z]|[\xd0\xdd\xde\xf0\xfd\xfe]")
"""A sign within a word, and letters that stand for others in Turkey and in the east of Europe."""
_ALONE = 1.5
"""Bytes beyond ASCII in a row, on average at most, where letters with marks stand among others."""


def encoding_of(head: bytes, said: str) -> str:
    """Return Python's name of a text's encoding, from its beginning and its declared encoding `said`, which may be
    empty.

    A byte order mark decides; what is valid UTF-8 beyond chance is UTF-8; else the declared one, if the text can be
    read with it. If not, accented letters among plain ones are Windows-1252. Bytes that are no text in the encoding may
    remain.
    """
    mark = next((name for mark, name in _MARKS if head.startswith(mark)), _WIDE.get(head[:2]))
    if mark:
        return mark
    named = _codec_of(said)
    decoded = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(head)
    beyond = [letter for letter in decoded if letter > "\x7f"]
    broken = sum("\udc80" <= letter <= "\udcff" for letter in beyond)
    if not beyond:
        return named or "utf-8"
    fits = bool(named) and _is_in(head, named)
    is_multi_byte = fits and _MULTI_BYTE.match(named) is not None
    if not broken and not (is_multi_byte and len(beyond) < _ENOUGH):
        return "utf-8"
    if fits and named != "utf-8":
        return named
    if 2 * broken > len(beyond) and _is_western(head):
        return "cp1252"
    return "utf-8"


def _codec_of(said: str) -> str:
    """Empty for what is none, and for encodings of two or four bytes a letter, which would have been seen."""
    label = said.strip().lower().removeprefix("x-")
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        name = label
    name = _SUPERSETS.get(name, name)
    try:
        return name if _KNOWN.match(name) and not name.startswith(("utf-16", "utf-32")) and codecs.lookup(name) else ""
    except LookupError:
        return ""


def _is_in(head: bytes, name: str) -> bool:
    """Whether all of it can be read so; its last character may be cut."""
    try:
        codecs.getincrementaldecoder(name)().decode(head)
    except (UnicodeError, ValueError):
        return False
    return True


def _is_western(head: bytes) -> bool:
    runs = _RUNS.findall(head)
    return sum(map(len, runs)) <= _ALONE * len(runs) and not _NOT_WESTERN.search(head)


class TooMuchHeld(Exception):
    """The error for a row of a file that is longer than a row may be."""


class HeldText:
    """The text of an XML file, of which only the part that was not consumed yet is in memory. Raises `TooMuchHeld`
    where that is too much.

    Bytes that are no text in its encoding become the characters from U+DC80 on, as `surrogateescape` makes them.
    """

    def __init__(self, file: io.BufferedIOBase) -> None:
        self._file = file
        first = file.read(CHUNK).lstrip(b" \t\r\n")
        said = _DECLARED.match(first.removeprefix(codecs.BOM_UTF8))
        self.encoding = encoding_of(first, said[1].decode() if said else "")
        self._decoder = codecs.getincrementaldecoder(self.encoding)("surrogateescape")
        self.held, self.start = self._decoder.decode(first), 0
        """What is held, and where in it that begins which was not taken."""
        self._is_read = False

    def take(self, end: int) -> str:
        """Return the text up to position `end` and remove it."""
        taken, self.start = self.held[self.start : end], end
        if self.start > CHUNK:
            self.held, self.start = self.held[self.start :], 0
        return taken

    def search(self, pattern: re.Pattern[str], at: int) -> re.Match[str] | None:
        """Return the first match from position `at` on that is no longer than `LONGEST_MARK`; None if there is none."""
        while not (found := pattern.search(self.held, at)):
            at = max(at, len(self.held) - LONGEST_MARK)
            if not self._read_more():
                return None
        return found

    def match(self, pattern: re.Pattern[str], at: int) -> re.Match[str] | None:
        """Return the match that begins at position `at`; None where none does."""
        while not (found := pattern.match(self.held, at)):
            if not self._read_more():
                return None
        return found

    def find(self, text: str, at: int) -> int:
        """Return the position behind the next occurrence of a text from position `at` on, else the end of the file."""
        while (found := self.held.find(text, at)) < 0:
            at = max(at, len(self.held) - len(text) + 1)
            if not self._read_more():
                return len(self.held)
        return found + len(text)

    def _read_more(self) -> bool:
        if len(self.held) - self.start > LONGEST_ROW:
            raise TooMuchHeld
        while not self._is_read:
            content = self._file.read(CHUNK)
            self._is_read = not content
            if more := self._decoder.decode(content, self._is_read):
                self.held += more
                return True
        return False
