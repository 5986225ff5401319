"""Define what counts as a word, in search and in comparisons, and which words are no names.

A text's words are runs of letters, marks, digits and underscores of its case-folded, normalised form (`_Folded`).
Scripts that put no space between words, and Korean, whose particles are written onto words, give pairs of
neighbouring characters instead, each with its marks (黄山市 as 黄山, 山市); a run of one is that one. So does Lucene's
analyser for Chinese, Japanese and Korean. Tibetan has its mark between syllables, and these are its words.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib.resources import files
from operator import add
from typing import NamedTuple

WORDS_VERSION = 2
"""Version of the definition of words: an index of another version does not hold the words that it would be asked
for."""
_WORD = re.compile(r"\w+")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"  # Thai to Burmese
    "\u3005-\u3007\u3021-\u3029\u303b\u3040-\u30fa\u30fc-\u312f\u31a0-\u31bf\u31f0-\u31ff"  # kana, bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul
)
_RARE_UNSPACED = "\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
"""More kana and Han."""
_SAYS_NOTHING = re.compile(
    "[\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u0652\u0656-\u065f\u0670\u06d6-\u06ed"  # vowels
    "\u0640\u034f\ufe00-\ufe0f\U000e0100-\U000e01ef]"  # the stretch of an Arabic word, joiner, variants
)
"""The points for vowels of Hebrew and Arabic, which most texts leave out (hamza and madda are part of a letter and
stay), and what only says how a letter is drawn."""
_ACCENTS = re.compile("[\u0300-\u036f]+")
_BREAK = "\u200b"
"""The space of no width, which some texts put between Thai and Khmer words."""
COMMON_WORDS = frozenset((files("trailforge.retrieval") / "common_words.txt").read_text(encoding="utf-8").split())
"""English words that have a capital where a sentence begins, and are no names."""


def words_of(text: str) -> list[str]:
    """Return the words of a text in order, in the form in which they are compared. Words of ASCII text are runs of
    letters, digits and `_` in lower case."""
    return _WORD.findall(text.lower()) if text.isascii() else _split_text(fold_text(text))


def written_words(text: str) -> list[str]:
    """Return the words of a text with their capitals."""
    return _WORD.findall(text) if text.isascii() else _split_text(_normalise(text))


def _split_text(text: str) -> list[str]:
    patterns = _patterns()
    if not patterns.special.search(text):
        return _WORD.findall(text)
    words: list[str] = []
    for word in patterns.word.findall(text):
        words += [word] if word.isascii() else _split(word, patterns)
    return words


def _split(word: str, patterns: _Patterns) -> list[str]:
    """A word of one script or several: what stands in scripts without spaces as its pairs."""
    words: list[str] = []
    # What is between runs stands at the even places.
    for place, part in enumerate(patterns.run.split(word)):
        if place % 2:
            characters = patterns.character.findall(part) if patterns.mark.search(part) else part
            words += map(add, characters, characters[1:]) if len(characters) > 1 else characters
        elif part:
            words.append(part)
    return words


def ngrams_of(text: str, n: int) -> set[str]:
    """Return the runs of n words, as `words_of` has them; a shorter text is one run."""
    words = words_of(text)
    return {" ".join(words[i : i + n]) for i in range(max(1, len(words) - n + 1))} if words else set()


def fold_text(text: str) -> str:
    """Return a text in the form in which its words are compared: one for all spellings that Unicode holds to be the
    same, for all widths and cases, without invisible characters. Separators of words stay."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", _normalise(text).casefold()).replace("i\u0307", "i")


def _normalise(text: str) -> str:
    text = unicodedata.normalize("NFC", text)
    return unicodedata.normalize("NFC", _NOT_ASCII.sub(lambda found: found[0].translate(_FOLDED), text))


def strip_accents(text: str) -> str:
    """Remove the marks of Latin, Greek and Cyrillic letters; in other scripts marks distinguish words, and stay."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


class _Folded(dict[int, str]):
    """What becomes of characters before cases are folded, found out once for each.

    Letters are normalised by NFKC: full and half width, ligatures, and the forms that PDF files have for Arabic letters
    and Chinese radicals are the same letter. Signs are not (NFKC makes "Kodak™" kodaktm), nor are ½ and ². Digits of
    all scripts are one. İ and ı are i, as no case folding brings I, i, İ and ı together otherwise.
    """

    def __missing__(self, code: int) -> str:
        self[code] = folded = _fold_character(chr(code))
        return folded


_FOLDED = _Folded({ord("İ"): "i", ord("ı"): "i"})


def _fold_character(character: str) -> str:
    category, plain = unicodedata.category(character), unicodedata.normalize("NFKC", character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if _SAYS_NOTHING.match(character) or (category == "Cf" and character != _BREAK):
        return ""
    if category[0] == "L" or category in ("Nl", "Mn", "Mc"):
        return plain
    # Radicals and circled characters.
    return plain if category == "So" and len(plain) == 1 and unicodedata.category(plain) == "Lo" else character


class _Patterns(NamedTuple):
    mark: re.Pattern[str]
    special: re.Pattern[str]
    """A mark, or a character of a script without spaces: `\\w+` would not do."""
    word: re.Pattern[str]
    run: re.Pattern[str]
    """In scripts without spaces."""
    character: re.Pattern[str]
    """Of such a run, with its marks."""


@cache
def _patterns() -> _Patterns:
    """Made at the first text that needs them, as all characters are looked at for marks.

    Characters beyond the first 65,536 have sets of their own: `re` looks up a set of the first ones in one step.
    """
    marks, rare_marks = (
        "".join(chr(code) for code in plane if unicodedata.category(chr(code)) in ("Mn", "Mc"))
        for plane in (range(0x300, 0x10000), range(0x10000, 0x20000))
    )
    start = f"(?:[{_UNSPACED}]|[{_RARE_UNSPACED}])"
    return _Patterns(
        mark=re.compile(f"[{marks}]"),
        special=re.compile(f"[{_UNSPACED}{marks}]|[\U00010000-\U0010ffff]"),
        word=re.compile(rf"\w[\w{marks}]*(?:[{rare_marks}]+[\w{marks}]*)*"),
        run=re.compile(f"({start}[{_UNSPACED}{marks}]*(?:[{_RARE_UNSPACED}]+[{_UNSPACED}{marks}]*)*)"),
        character=re.compile(f"{start}[{marks}]*"),
    )
