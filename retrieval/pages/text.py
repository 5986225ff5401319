"""The text of a page, in parts of whole sentences, searched by words."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from trailforge.retrieval.english import AUXILIARIES, PREPOSITIONS, stem_of
from trailforge.retrieval.page_tools import PagePart
from trailforge.retrieval.sentences import sentence_spans
from trailforge.retrieval.words import fold_text, strip_accents, words_of, written_words
from trailforge.schemas import NoSuchPage

PART_WORDS = 1000
_MOST_SPOTS = 5
_AROUND = 200
"""Characters on either side of what was found."""
_LONGEST_SPOT = 800
"""Characters of what is shown in one piece, before what is found further on begins another."""
_SAYS_NOTHING = frozenset(
    (*PREPOSITIONS, *AUXILIARIES, *"a an the and or it its he his she her they their who".split())
)
"""Words that are not looked for where others are."""
_LONGEST_NAME = 200
"""Characters of a page's name in a message."""
_TOKEN = re.compile(r"\S+")
_HYPHEN = re.compile(r"(?<=\w)[-‐‑](?=\w)")
_UNSPACED = "\u0e00"
"""The first letter of Thai: from there on most scripts have no spaces between words."""
_UNSPACED_MARKS = "。！？｡"
"""After these a sentence, and with it a word of a part, begins without a space, too."""
_PLAIN = str.maketrans("‘’“”‐‑–—", "''\"\"----")
"""Quotes and hyphens as a keyboard has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A place in a page where words were found."""

    part: int
    """Number of the part in the page, from 1."""
    text: str
    """The words with what is around them; places that lie close together stand in one text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundWords:
    """The result of finding words in a page, as the server's `/find` returns it."""

    id: str
    title: str
    parts: int
    count: int
    """Number of places in the page."""
    matches: tuple[Spot, ...]
    """Places in the page's order: the first of each part that has any, and of the others the first ones."""
    left: int = 0
    """Number of places that `matches` does not show."""
    left_parts: tuple[int, ...] = ()
    """The parts in which those places stand."""
    missing: tuple[str, ...] = ()
    """Words that do not stand beside the others in any sentence; empty where all of them do."""


def part_starts(text: str, words: int) -> list[int]:
    """Return the position, in characters, where each part begins; the first is 0. A part has at most `words` words and
    ends with a sentence; a sentence that is longer by itself is cut between words.
    """
    if len(text) < 2 * words or len(text.split()) + sum(map(text.count, _UNSPACED_MARKS)) <= words:
        return [0]  # the commonest page, and quickly told
    starts, room = list[int](), 0
    for first, last in sentence_spans(text):
        tokens = [token.start() for token in _TOKEN.finditer(text, first, last)]
        if len(tokens) > room:
            starts += tokens[::words]
            room = words - (len(tokens) - 1) % words - 1
        else:
            room -= len(tokens)
    return [0, *starts[1:]]


@dataclass(frozen=True)
class OpenedPage:
    """A page that was opened: its text and its title."""

    id: str
    title: str
    text: str
    words: int = PART_WORDS
    """Largest number of words of a part."""
    start: int = 0
    """Where the passage begins that it was opened by, in characters."""

    @cached_property
    def starts(self) -> list[int]:
        """Return the position, in characters, where each part begins."""
        return part_starts(self.text, self.words)

    @property
    def parts(self) -> int:
        """Return the number of parts, at least one."""
        return len(self.starts)

    def part_at(self, place: int) -> int:
        """Return the part, counted from 1, that contains a character."""
        return max(1, bisect_right(self.starts, place))

    def part(self, number: int | None = None) -> PagePart:
        """Return one of the parts, counted from 1; None returns the one in which the passage begins. Raises
        `NoSuchPage`.
        """
        number = self.part_at(self.start) if number is None else number
        if not 1 <= number <= self.parts:
            have = f"has {self.parts} parts" if self.parts > 1 else "has one part"
            raise NoSuchPage(f"there is no part {number}: the page {self.name!r} {have}")
        bounds = [*self.starts, len(self.text)]
        text = self.text[bounds[number - 1] : bounds[number]].strip()
        return PagePart(id=self.id, title=self.title, part=number, parts=self.parts, text=text)

    @property
    def name(self) -> str:
        """Return the title, or else the id, for messages."""
        return (self.title or self.id)[:_LONGEST_NAME]

    def find(self, words: str) -> FoundWords:
        """Return where these words stand one behind the other, from the beginning of a word on, ignoring capitals,
        accents, kinds of quotes and hyphens, and white space.

        Where they stand so nowhere, the sentences with most of the words are returned, at least half of them, also in
        other forms (`english.stem_of`); names and numbers have to be there.
        """
        spans, missing = self._in_a_row(words), ()
        pieces = [_Piece(self.part_at(first), first, last) for first, last in spans]
        if not pieces:
            spans, missing = self._in_forms(words)
            pieces = [_Piece(self.part_at(first), first, last, around=0) for first, last in spans]
        joined = self._joined(pieces)
        shown = _chosen(joined)
        left = [piece for piece in joined if piece not in shown]
        return FoundWords(
            id=self.id,
            title=self.title,
            parts=self.parts,
            count=len(spans),
            matches=tuple(Spot(part=piece.part, text=self._shown(piece)) for piece in shown),
            left=sum(piece.count for piece in left),
            left_parts=tuple(sorted({piece.part for piece in left})),
            missing=missing,
        )

    def _in_a_row(self, words: str) -> list[tuple[int, int]]:
        """Where each place begins and ends at which the words stand as they are, from the beginning of a word on."""
        wanted, tokens = folded(words), list(_TOKEN.finditer(self.text))
        plain = [_fold(token.group()) for token in tokens]
        starts = [0, *accumulate(len(token) + 1 for token in plain)]
        text, places = " ".join(plain), list[int]()
        at = text.find(wanted) if wanted else -1
        while at >= 0:
            begins = at == 0 or not (_is_in_word(text[at - 1]) and _is_in_word(wanted[0]))
            if begins:
                places.append(at)
            at = text.find(wanted, at + (len(wanted) if begins else 1))

        def place(folded_at: int) -> int:
            """In the text as it is."""
            number = bisect_right(starts, folded_at, hi=len(tokens)) - 1
            return tokens[number].start() + _unfolded(tokens[number].group(), folded_at - starts[number])

        return [(place(at), place(at + len(wanted) - 1) + 1) for at in places]

    def _in_forms(self, words: str) -> tuple[list[tuple[int, int]], tuple[str, ...]]:
        """The sentences with most of the words, in whatever form, and the words that the first of them lacks.

        The page's own name is not looked for where something else is. Names and numbers have to be there, or nothing
        is found; what hyphens join is one word ("present-day").
        """
        said = list(dict.fromkeys(_plain_words(_hyphenated(words))))
        said = [word for word in said if word not in _SAYS_NOTHING] or said
        title = set(_plain_words(self.title))
        wanted = {word: stem_of(word) for word in [word for word in said if word not in title] or said}
        stems, best, found = set(wanted.values()), 0, list[tuple[int, int, frozenset[str]]]()
        named = {
            word.lower()
            for word in written_words(strip_accents(_hyphenated(words)))
            if word[0].isupper() or word[0].isdigit()
        }
        needed = {stem for word, stem in wanted.items() if word in named}
        for first, last in sentence_spans(self.text):
            has = frozenset(stems.intersection(map(stem_of, _all_words(self.text[first:last]))))
            if has >= needed and len(has) >= max(1, best):
                best = len(has)
                found.append((first, last, has))
        if not best or 2 * best < len(stems):
            return [], ()
        fullest = [each for each in found if len(each[2]) == best]
        whole = set(_plain_words(words))
        lacking = (word for word, stem in wanted.items() if stem not in fullest[0][2])
        missing = tuple(word if word in whole else word.replace("_", "-") for word in lacking)
        return [self._cut(first, last, has) for first, last, has in fullest], missing

    def _cut(self, first: int, last: int, stems: frozenset[str]) -> tuple[int, int]:
        """A sentence, or of a very long one what is around the first of the words."""
        if last - first <= _LONGEST_SPOT:
            return first, last
        tokens = _TOKEN.finditer(self.text, first, last)
        word = next(each for each in tokens if stems.intersection(map(stem_of, _all_words(each.group()))))
        return max(first, word.start() - _AROUND), min(last, word.start() + _AROUND)

    def _joined(self, pieces: Sequence[_Piece]) -> list[_Piece]:
        """What is shown around each place, within its part; places that lie close together as one piece."""
        bounds, joined = [*self.starts, len(self.text)], list[_Piece]()
        for piece in pieces:
            low, high = bounds[piece.part - 1], bounds[piece.part]
            first, last = max(low, piece.first - piece.around), max(piece.last, min(high, piece.last + piece.around))
            before = joined[-1] if joined and joined[-1].part == piece.part else None
            if before is not None and first <= before.last + 2:  # a line break, or two
                if piece.last <= before.last or last - before.first <= _LONGEST_SPOT:
                    last = last if last - before.first <= _LONGEST_SPOT else before.last
                    joined[-1] = replace(before, last=max(before.last, last), count=before.count + 1)
                    continue
                first = min(max(first, before.last), piece.first)
            joined.append(replace(piece, first=first, last=last))
        return joined

    def _shown(self, piece: _Piece) -> str:
        """The text of a piece, from word to word."""
        start, end = piece.first, piece.last
        while start < end and start and not self.text[start - 1].isspace() and not self.text[start].isspace():
            start += 1
        while start < end < len(self.text) and not self.text[end].isspace() and not self.text[end - 1].isspace():
            end -= 1
        return " ".join(self.text[start:end].split() or self.text[piece.first : piece.last].split())


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of a page, in characters, with one or several places that were found."""

    part: int
    first: int
    last: int
    around: int = _AROUND
    count: int = 1


def _chosen(pieces: Sequence[_Piece]) -> list[_Piece]:
    """The pieces that are shown, rising: the first of each part, then the first ones."""
    firsts = {piece.part: piece for piece in reversed(pieces)}
    chosen = dict.fromkeys((*sorted(firsts.values(), key=lambda piece: piece.first), *pieces))
    return sorted(list(chosen)[:_MOST_SPOTS], key=lambda piece: piece.first)


def _plain_words(text: str) -> list[str]:
    return words_of(strip_accents(text))


def _hyphenated(text: str) -> str:
    """A text in which words that hyphens join are one word each."""
    return _HYPHEN.sub("_", text)


def _all_words(text: str) -> list[str]:
    """The words of a text, and those that hyphens join as one word, too."""
    found = _plain_words(text)
    return [*found, *_plain_words(_hyphenated(text))] if _HYPHEN.search(text) else found


def folded(text: str) -> str:
    """Return a text in the form in which texts are compared: on one line, without capitals and accents, and with plain
    quotes and hyphens.
    """
    return " ".join(map(_fold, text.split()))


def _fold(word: str) -> str:
    return fold_text(strip_accents(word.translate(_PLAIN)))


def _unfolded(word: str, place: int) -> int:
    """The place in a word of the character that stands at a place of it when it is folded."""
    if len(_fold(word)) == len(word):
        return min(place, len(word))
    ends = list(accumulate(len(_fold(character)) for character in word))
    return min(bisect_right(ends, place), len(word))


def _is_in_word(letter: str) -> bool:
    return letter.isalnum() and letter < _UNSPACED
