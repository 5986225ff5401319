"""Shorten scientific papers: find their sections by headings, and select what is shown where space is limited.

A reader with a question about a paper needs its abstract, its aims, its measurements and its conclusions; the first
thousand words are all introduction and related work, and hold none of the figures.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trailforge.retrieval.sentences import split_sentences

PaperPart = Literal["abstract", "introduction", "results", "conclusion", "end", "other"]
CUT = "[…]"
"""Mark for parts of a document that are left out."""

_SHARES: dict[PaperPart, float] = {"abstract": 0.25, "introduction": 0.25, "results": 0.35, "conclusion": 0.15}
"""Of what is shown; what one part does not need goes to the others, and what is left after them to the rest of the
paper. Half of it is what nothing but a whole paper has: an abstract of 1,500 characters is whole in 6,000."""
_NUMBER = r"(?:(?:\d{1,2}(?:\.\d{1,2}){0,3}|[IVX]{1,5}|[A-Z](?:\.\d{1,2})?)[.):]?\s+)?"
_HEADINGS: dict[PaperPart, str] = {
    "abstract": r"abstract|summary of the paper",
    "introduction": r"introduction|motivation|introduction and (?:motivation|background|related work)",
    "results": r"(?:\w+ ){0,2}(?:results?|experiments?|evaluations?|findings|discussions?)(?: (?:and|&) [\w ]{1,40})?"
    r"|(?:experimental|empirical|quantitative|qualitative|main|error)(?: and \w+)? (?:\w+ ){0,2}"
    r"(?:results?|evaluation|analysis)",
    "conclusion": r"(?:discussions? (?:and|&) )?(?:conclusions?|concluding remarks|summary)(?: (?:and|&) [\w ]{1,40})?"
    r"|(?:future|further) (?:work|research)",
    "end": r"references|bibliography|acknowledge?ments?|appendi(?:x|ces)\b.{0,60}|supplementary materials?"
    r"|(?:data|code) availability|author contributions?|competing interests",
}
_KNOWN: dict[PaperPart, re.Pattern[str]] = {
    part: re.compile(rf"\s*{_NUMBER}(?:{words})[.:]?\s*", re.IGNORECASE) for part, words in _HEADINGS.items()
}
_NUMBERED = re.compile(r"\s*(\d{1,2}|[IVX]{1,5})(\.\d{1,2})*[.)]?\s+[A-Z][^.]{2,80}")
_PLAIN = re.compile(r"[A-Z][\w-]*(?: [\w-]+){0,7}")
_CAPTION = re.compile(r"\s*(?:table|tab\.|figure|fig\.)\s{1,3}(?:\d{1,3}|[IVX]{1,5})\s{0,3}[.:]\s", re.IGNORECASE)
_LONGEST_HEADING = 90
_FEWEST_PARTS = 3
"""Of abstract, introduction, results, conclusion and end, in what looks like a paper."""


@dataclass(frozen=True, slots=True)
class _Section:
    """A run of a paper's text."""

    part: PaperPart
    start: int
    end: int


def is_paper_heading(line: str) -> bool:
    """Tell whether a line is a heading that papers of all kinds have, such as "1 Introduction", and not a line of a web
    page."""
    return len(line) <= _LONGEST_HEADING and _known_part(line) is not None


def looks_like_paper(text: str) -> bool:
    """Tell whether a text has the headings of a paper: an abstract or references, and two more of its usual parts."""
    found = {_known_part(line) for line in text.splitlines() if len(line) <= _LONGEST_HEADING} - {None}
    return len(found) >= _FEWEST_PARTS and bool(found & {"abstract", "end"})


def cut_text(text: str, longest: int) -> str:
    """Cut a text after the last sentence that ends within this number of characters, with a mark where there was more.

    Within the first sentence it is cut at a word.
    """
    if len(text) <= longest:
        return text
    begun = text[:longest]
    whole = _whole_sentences(begun)
    return f"{whole or begun.rpartition(' ')[0] or begun} {CUT}"


def cut_paper(text: str, longest: int) -> str:
    """Return what a reader needs of a paper in this number of characters: abstract, introduction, results, captions,
    conclusion.

    Each begins and ends with a sentence, all are in the paper's order, and a mark stands where something is left out,
    acknowledgements and references always. A paper without headings of these parts is cut as any other text.
    """
    if len(text) <= longest:
        return text
    sections = [section for section in _sections(text) if section.part != "end"]
    if len({section.part for section in sections} - {"other"}) < 2:
        return cut_text(text, longest)
    shown: list[str] = []
    at = 0
    for section, room in zip(sections, _rooms(sections, longest), strict=True):
        whole = text[section.start : section.end].rstrip()
        told = whole if len(whole) <= room else _whole_sentences(whole[:room])
        if not told or (told != whole and "\n" not in told.strip() and len(told) <= _LONGEST_HEADING):
            continue  # nothing, or a heading with nothing below it
        shown += [CUT] if section.start > at else []
        shown.append(told.strip("\n"))
        at = section.end if told == whole else section.start
    return "\n".join([*shown, CUT] if at < len(text.rstrip()) else shown)


def _whole_sentences(begun: str) -> str:
    """Without the last sentence, which may go on."""
    return begun[: begun.rindex(split_sentences(begun)[-1])].rstrip() if begun.strip() else ""


def _known_part(line: str) -> PaperPart | None:
    return next((part for part, pattern in _KNOWN.items() if pattern.fullmatch(line)), None)


def _sections(text: str) -> list[_Section]:
    """All of a text in its order, each line in one section; what stands before the first heading is its abstract."""
    lines = text.splitlines(keepends=True)
    is_numbered = sum(1 for line in lines if _is_numbered(line)) >= _FEWEST_PARTS
    sections: list[_Section] = []
    part: PaperPart = "abstract"
    at = 0
    for line in lines:
        before, end = part, at + len(line)
        if _CAPTION.match(line):
            sections.append(_Section("results", at, end))
            at = end
            continue
        part = _part_after(before, line.strip(), is_numbered=is_numbered)
        goes_on = not line.strip() or not _is_heading(line.strip(), is_numbered=is_numbered)
        if sections and (not line.strip() or (sections[-1].part == part and goes_on)):
            sections[-1] = _Section(sections[-1].part, sections[-1].start, end)
        else:
            sections.append(_Section(part, at, end))
        at = end
    return sections


def _part_after(before: PaperPart, line: str, *, is_numbered: bool) -> PaperPart:
    """The part that a line belongs to. A heading below one of results, or without a number there, is of these."""
    if not line or len(line) > _LONGEST_HEADING:
        return before
    if (known := _known_part(line)) is not None:
        return known
    if is_numbered:
        number = _NUMBERED.fullmatch(line)
        return before if number is None or (number[2] and before == "results") else "other"
    is_left = _PLAIN.fullmatch(line) is not None and before in ("abstract", "introduction", "conclusion")
    return "other" if is_left else before


def _is_heading(line: str, *, is_numbered: bool) -> bool:
    return is_paper_heading(line) or (_is_numbered(line) if is_numbered else _PLAIN.fullmatch(line) is not None)


def _is_numbered(line: str) -> bool:
    return len(line) <= _LONGEST_HEADING and _NUMBERED.fullmatch(line.strip()) is not None


def _rooms(sections: Sequence[_Section], longest: int) -> list[int]:
    """The characters of each section that are shown: by its part's share, what it does not need for the others."""
    lengths = [section.end - section.start for section in sections]
    of_part = Counter(section.part for section in sections)
    room, rooms = longest, [0] * len(sections)
    shares = [_SHARES.get(section.part, 0.0) / of_part[section.part] for section in sections]
    for weights in (shares, [0.0 if share else 1.0 for share in shares]):
        while room > 0:
            wanting = [n for n, weight in enumerate(weights) if weight and rooms[n] < lengths[n]]
            total = sum(weights[n] for n in wanting)
            given = {n: min(lengths[n] - rooms[n], int(room * weights[n] / total)) for n in wanting}
            if not any(given.values()):
                break
            for n, count in given.items():
                rooms[n] += count
            room -= sum(given.values())
    return rooms
