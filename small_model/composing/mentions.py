"""What a sentence mentions: names, dates, years and figures, found by their looks; and which names two documents share.

No model is asked: names are runs of capitalised words, the rest are numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from trailforge.retrieval import split_sentences
from trailforge.retrieval.english import DATE, MONTHS
from trailforge.schemas import Passage, SourceDocument
from trailforge.small_model.splitting.words import FUNCTION_WORDS

MentionKind = Literal["name", "date", "day", "year", "figure"]
"""`date`: with a year; `day`: without, so that it is known only from its text."""

_YEAR = r"(?:1[5-9]|20)\d\d(?![\w,.]*\d)"
_FIGURE = r"\d+(?:,\d{3})*(?:\.\d+)?(?: (?:thousand|million|billion|trillion))?"
_NUMBER = re.compile(rf"(?<![\w.,–-])(?:(?P<date>{DATE})|(?P<year>{_YEAR}(?!\w))|(?P<figure>{_FIGURE})(?![\w–-]))")
_WORD = re.compile(r"[^\W_][\w–-]*(?:['’](?!s\b)\w+)*")
_GLUE = re.compile(r"(?: de | du | von | van | of | of the | |/|\. )")
_BEFORE_OF = frozenset(
    "University Institute Department Ministry Bank Museum Kingdom Republic Academy College School Centre Center Bay "
    "Gulf Isle House Board Bureau Office Court States Association Society Council".split()
)
"""After these ` of ` belongs to the name; after others it parts two names (`David Baker of Seattle`)."""
_TIME_WORDS = frozenset(f"{MONTHS}|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday".split("|"))
_NO_NAMES = frozenset({"i", "mr", "mrs", "ms", "dr", "however", "moreover", "finally", "furthermore", "additionally"})


@dataclass(frozen=True, slots=True)
class Mention:
    """A stretch of a sentence: `sentence[start:end]` is `text`."""

    text: str
    start: int
    end: int
    kind: MentionKind


def mentions_of(sentence: str) -> list[Mention]:
    """All of a sentence in reading order; none overlap. A capitalised word at its start may be no name."""
    numbers = [
        Mention(match[0], match.start(), match.end(), _number_kind(match)) for match in _NUMBER.finditer(sentence)
    ]
    taken = [(number.start, number.end) for number in numbers]
    names = [
        name for name in _names(sentence) if not any(start < name.end and name.start < end for start, end in taken)
    ]
    return sorted([*names, *numbers], key=lambda mention: mention.start)


def shared_names(first: SourceDocument, second: SourceDocument, others: Iterable[SourceDocument] = ()) -> list[str]:
    """Names that both texts mention, the rarest in `others` first, then the longest.

    Of a document only names that also stand inside a sentence count, or have two words or more: any word may begin one.
    """
    known = names_of([first, second])
    common = known & _all_names(first) & _all_names(second)
    rarity = {name: sum(name in other.text for other in others) for name in common}
    return sorted(common, key=lambda name: (rarity[name], -len(name), name))


def names_of(documents: Sequence[SourceDocument | Passage]) -> set[str]:
    """Names that are surely some: seen inside a sentence, or of several words."""
    return {
        mention.text
        for document in documents
        for sentence in split_sentences(document.text)
        for mention in mentions_of(sentence)
        if mention.kind == "name" and (mention.start > 0 or " " in mention.text or not mention.text.isalpha())
    }


def _all_names(document: SourceDocument) -> set[str]:
    return {m.text for s in split_sentences(document.text) for m in mentions_of(s) if m.kind == "name"}


def _number_kind(match: re.Match[str]) -> MentionKind:
    if match["date"]:
        return "date" if re.search(r"\d{4}", match["date"]) else "day"
    return "year" if match["year"] else "figure"


def _names(sentence: str) -> list[Mention]:
    words = list(_WORD.finditer(sentence))
    found, i = [], 0
    while i < len(words):
        last = i
        if _is_capital(words[i], i == 0):
            while last + 1 < len(words) and (joined := _joined(sentence, words, last)):
                last = joined
            start, end = words[i].start(), words[last].end()
            if sentence[start:end].casefold() not in _NO_NAMES:
                found.append(Mention(sentence[start:end], start, end, "name"))
        i = last + 1
    return found


def _is_capital(word: re.Match[str], is_first: bool) -> bool:
    text = word[0]
    if text in _TIME_WORDS or (text.casefold() in FUNCTION_WORDS and not text.isupper()):
        return False
    has_capital = text[0].isupper() or (text[0].isdigit() and text[-1].isupper() and text[1:].isalnum())
    return has_capital and not (is_first and len(text) == 1)


def _joined(sentence: str, words: list[re.Match[str]], last: int) -> int | None:
    """The word that continues the name ending with word `last`, if the next or the one after a preposition does."""
    for following in range(last + 1, min(last + 4, len(words))):
        gap = sentence[words[last].end() : words[following].start()]
        if not _GLUE.fullmatch(gap) or (gap == ". " and len(words[last][0]) > 1):
            continue
        if "of" in gap and words[last][0] not in _BEFORE_OF:
            return None
        if _is_capital(words[following], False) or (gap == " " and words[following][0].isdigit() and
                                                    len(words[following][0]) < 3):  # fmt: skip
            return following
    return None
