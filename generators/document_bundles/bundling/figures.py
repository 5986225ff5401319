"""Figures of a document by the name that they stand beside: what a question can choose among, and what it can compare.

A reader of a document that has one sum has the answer to any question that leads to a sum. Where it has several, only
what another document tells of one of their names says which is meant (`choices`). Where each of two documents has sums
beside one name, neither says alone which is the larger (`comparisons`). All is told by rule: a figure belongs to the
name that stands in its sentence, and of several figures there the nearest does.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trailforge.retrieval import COMMON_WORDS, split_sentences, words_of

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_SUM = re.compile(r"[$€£]\s?\d[\d,.]*\d?(?:\s?(?:thousand|million|billion|trillion)\b)?", re.IGNORECASE)
_SHARE = re.compile(r"(?<!\w)(?<!\d\.)\d(?:\.?\d)*+\s?(?:%|percent\b|per cent\b)", re.IGNORECASE)
_DAY = re.compile(rf"\b(?:{_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s\d{{4}})?|\d{{1,2}}\s{_MONTH}(?:\s\d{{4}})?)\b")
_NUMBER = r"\d[\d,]*+(?:\.\d++)?(?: (?:thousand|million|billion))?|two|three|four|five|six|seven|eight|nine|ten"
_COUNT = re.compile(rf"(?<![\w$€£.,/-])(?P<number>{_NUMBER}) (?:[a-z-]++ )?(?P<noun>[a-z]{{3,}}s)\b")
_KINDS = (("sums", _SUM), ("shares", _SHARE), ("dates", _DAY))
_NO_SIDES = frozenset({"dates"})
"""Of two dates nobody asks for the larger one, and every report has some."""


class Figure(NamedTuple):
    """A figure that a sentence states."""

    kind: str
    """The kind of figure: `sums`, `shares`, `dates`, or the things that are counted."""
    at: int
    """Position in the sentence at which the figure begins."""
    text: str
    """The figure's text, case-folded; for a count its number and what is counted."""


class FigureChoice(NamedTuple):
    """One of several figures of a document: the one that stands beside a name."""

    name: str
    kind: str
    figure: str
    others: tuple[str, ...]


class FigureSides(NamedTuple):
    """Figures of one kind that two documents have beside one name, where each has its own."""

    name: str
    kind: str
    first: tuple[str, ...]
    second: tuple[str, ...]


def figures_of(sentence: str) -> list[Figure]:
    """Return the sums, shares, dates and counts of things in a sentence. A number after a capital counts nothing:
    Section 4, Table 2, H.R. 4."""
    found: list[Figure] = []
    for kind, pattern in _KINDS:
        found += [
            Figure(kind, match.start(), match[0].casefold().rstrip(",. ")) for match in pattern.finditer(sentence)
        ]
        sentence = pattern.sub(lambda match: " " * len(match[0]), sentence)
    for match in _COUNT.finditer(sentence):
        at, number, noun = match.start(), match["number"], match["noun"]
        if noun not in COMMON_WORDS and not (number[0].isdigit() and _is_label(sentence, at)):
            found.append(Figure(noun, at, f"{number} {noun}".casefold()))
    return found


def _is_label(sentence: str, at: int) -> bool:
    """Is the word before a place one with a capital, and not the sentence's first?"""
    end = start = at - 1
    while start > 0 and not sentence[start - 1].isspace():
        start -= 1
    return start > 0 and sentence[end] == " " and sentence[start].isupper()


@dataclass(frozen=True, slots=True)
class ToldFigures:
    """A document's figures, in the sentences that state them."""

    title: frozenset[str]
    """The words of the document's title."""
    sentences: tuple[tuple[str, tuple[Figure, ...]], ...]
    """The sentences that have figures, case-folded; each line of a list is a sentence."""

    @classmethod
    def of(cls, title: str, text: str) -> ToldFigures:
        """Collect the figures of a document's title and text."""
        lines = (line for sentence in split_sentences(text) for line in sentence.split("\n"))
        told = ((line.casefold(), tuple(figures_of(line))) for line in lines)
        return cls(frozenset(words_of(title)), tuple(each for each in told if each[1]))

    def all(self) -> frozenset[str]:
        """All figures of the document, each once."""
        return frozenset(figure.text for _, figures in self.sentences for figure in figures)

    def beside(self, name: str) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        """Return, by kind, the figures that stand beside a name, and those that stand elsewhere."""
        near: defaultdict[str, set[str]] = defaultdict(set)
        others: defaultdict[str, set[str]] = defaultdict(set)
        pattern = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
        for sentence, figures in self.sentences:
            places = [match.start() for match in pattern.finditer(sentence)]
            for kind in {figure.kind for figure in figures}:
                of_kind = [figure for figure in figures if figure.kind == kind]
                chosen = {_nearest(of_kind, at).text for at in places}
                near[kind] |= chosen
                others[kind] |= {figure.text for figure in of_kind} - chosen
        return near, others


def _nearest(figures: Sequence[Figure], at: int) -> Figure:
    """Of figures in their order the one that begins nearest to a place; of two the earlier one."""
    behind = bisect_left(figures, at, key=lambda figure: figure.at)
    return min(figures[max(0, behind - 1) : behind + 1], key=lambda figure: abs(figure.at - at))


def choices(first: ToldFigures, second: ToldFigures, names: Iterable[str]) -> list[FigureChoice]:
    """Return figures of the second document beside names that both have, where it has others of the kind elsewhere.

    Names of its title are left out: a document says all about its own subject.
    """
    known, found = first.all(), list[FigureChoice]()
    for name in names:
        if second.title.issuperset(words_of(name)):
            continue
        near, others = second.beside(name)
        for kind in sorted(near):
            rest = tuple(sorted(others[kind] - near[kind]))
            found += [FigureChoice(name, kind, figure, rest) for figure in sorted(near[kind] - known) if rest]
    return found


def comparisons(first: ToldFigures, second: ToldFigures, names: Iterable[str]) -> list[FigureSides]:
    """Return figures of one kind that each document has beside a name of both, and that the other document does not
    have."""
    ours, theirs, found = first.all(), second.all(), list[FigureSides]()
    for name in names:
        (one, _), (other, _) = first.beside(name), second.beside(name)
        for kind in sorted((one.keys() & other.keys()) - _NO_SIDES):
            sides = tuple(sorted(one[kind] - theirs)), tuple(sorted(other[kind] - ours))
            if all(sides):
                found.append(FigureSides(name, kind, *sides))
    return found
