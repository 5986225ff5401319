"""Find by rule what a sentence mentions (names, dates, years, figures), which names documents share, and what each
names.

No model is asked: names are runs of capitalised words, the rest are numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from trailforge.retrieval import split_sentences
from trailforge.retrieval.english import AUXILIARIES, DATE, MONTHS, PARTICIPLES, PAST, PREPOSITIONS, is_finite
from trailforge.schemas import Passage, SourceDocument
from trailforge.small_model.splitting.words import FUNCTION_WORDS, PERSON_NOUNS, RELATIONAL

MentionKind = Literal["name", "date", "day", "year", "figure"]
"""The kind of a mention. `date`: with a year; `day`: without, so that it is known only from its text."""

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
    """A mention in a sentence: `sentence[start:end]` is `text`."""

    text: str
    start: int
    end: int
    kind: MentionKind


def mentions_of(sentence: str) -> list[Mention]:
    """Return all mentions of a sentence in reading order; none overlap. A capitalised word at its start may be no
    name."""
    numbers = [
        Mention(match[0], match.start(), match.end(), _number_kind(match)) for match in _NUMBER.finditer(sentence)
    ]
    taken = [(number.start, number.end) for number in numbers]
    names = [
        name for name in _names(sentence) if not any(start < name.end and name.start < end for start, end in taken)
    ]
    return sorted([*names, *numbers], key=lambda mention: mention.start)


def shared_names(first: SourceDocument, second: SourceDocument, others: Iterable[SourceDocument] = ()) -> list[str]:
    """Return the names that both texts mention, the rarest in `others` first, then the longest.

    A name counts for a document only where it also stands inside a sentence, or has two words or more: any word may
    begin one.
    """
    known = names_of([first, second])
    common = known & _all_names(first) & _all_names(second)
    rarity = {name: sum(name in other.text for other in others) for name in common}
    return sorted(common, key=lambda name: (rarity[name], -len(name), name))


def names_of(documents: Sequence[SourceDocument | Passage]) -> set[str]:
    """Return names that are surely some: seen inside a sentence, or of several words."""
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


PERSON = "person"
KINDS = (PERSON, "city", "country", "organisation", "thing")
"""Kinds from which a model may choose when no text says the kind of a name; `thing` says nothing."""
_NATION = re.compile(r"[A-Z][a-z]+(?:an|ese|ish|ic|ch|ss|ean)$")
_AFTER_HEAD = frozenset([*PREPOSITIONS, *AUXILIARIES, "that", "which", "who", "and", "itself"])
_OF = frozenset(
    "city town village state county province district region island republic kingdom university cathedral "
    "lake river port comet system contest".split()
)
"""Nouns that `of NAME` names: the city of Rome, but not the roof of Rome."""
_NO_NOUN = frozenset(
    "late early former first last old new great own same other young small large big "
    "lost full whole next second third only main early new north south east west upper lower".split()
)
_TITLES = frozenset("mr mrs ms dr king queen sir lord".split())


def noun_before(text: str, start: int) -> str | None:
    """Return the noun of `the Japanese spacecraft NAME`, where NAME begins at `start`; None without an article before
    it.
    """
    match = re.search(r"(?:^|\s|\()(?:the|The|a|A|an|An) ((?:[\w-]+ ){0,2})([a-z][a-z-]+) $", text[:start])
    if match is None or not _is_noun(match[2]):
        return None
    modifiers = match[1].split()
    plain = all((word.islower() and word not in FUNCTION_WORDS) or _NATION.match(word) for word in modifiers)
    return match[2] if plain else None


def noun_of(name: str, documents: Sequence[SourceDocument]) -> str | None:
    """Return a name's own last word if it is a noun of these texts, else the noun most often put beside it, else
    None."""
    text = "\n".join(f"{document.title}.\n{document.text}" for document in documents)
    last = name.rsplit(" ", 1)[-1]
    is_compound = " " in name and last.isalpha() and not name.isupper()
    if is_compound and (last.lower() in RELATIONAL or re.search(rf"\b{last.lower()}\b", text)):
        return last.lower()
    found: Counter[str] = Counter()
    for match in re.finditer(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text):
        after = text[match.end() : match.end() + 200]
        found.update(noun for noun in _nouns_beside(text, match.start(), after) if noun)
    sure = [noun for noun in found if noun in RELATIONAL or noun == PERSON or found[noun] > 1 or _is_head(noun, text)]
    return min(sure, key=lambda noun: (-found[noun], noun), default=None)


def _is_head(noun: str, text: str) -> bool:
    """Whether it stands anywhere as a noun by itself, not before another one."""
    after = re.findall(rf"\b(?:[Aa]n?|[Tt]he|[Tt]his|[Ii]ts) (?:[\w-]+ )?{noun}([.,;]| [\w-]+)", text)
    return any(word.strip() in _AFTER_HEAD or word.strip() in PAST or word in ".,;" for word in after)


def _nouns_beside(text: str, start: int, after: str) -> tuple[str | None, ...]:
    """Of `the city of NAME`, `the spacecraft NAME`, `NAME, a program of …`, `NAME, who …`."""
    before = text[max(0, start - 60) : start]
    of = re.search(r"\b([a-z]+) of $", before)
    words = before.split()
    is_free = not words or words[-1] not in PREPOSITIONS
    return (
        noun_before(text, start),
        of[1] if of and of[1] in _OF else None,
        _noun_after(after) if is_free else None,
        PERSON if is_free and re.match(r", who(?:se|m)?\b", after) else None,
    )


def looks_like_person(name: str) -> bool:
    """Tell whether a name has two or three capitalised words, initials among them, and its last one is no common
    noun."""
    words = name.split()
    return (
        2 <= len(words) <= 4
        and all(
            re.fullmatch(r"[^\W\d_a-z](?:[^\W\d_]+(?:[-’'][^\W\d_]+)*|\.)|[IVX]+|de|von|van|du", word) for word in words
        )
        and not any(word.lower() in RELATIONAL or word.isupper() for word in words[1:] if len(word) > 3)
    )


def is_person_noun(noun: str) -> bool:
    """Tell whether a noun names persons, so that a question asks `who`."""
    return noun in PERSON_NOUNS or noun.endswith("ist")


def _noun_after(after: str) -> str | None:
    """The noun of `, a program of the London company …` and `, the champion of Europe, …`."""
    match = re.match(
        r", (?:the|an?) ((?:[\w-]+ ){0,3}?)([a-z][a-z-]+)(?=,| (?:of|that|which|who|in|for|from|at|on)\b)", after
    )
    return match[2] if match and _is_noun(match[2]) else None


def _is_noun(word: str) -> bool:
    return (
        word not in FUNCTION_WORDS
        and word not in _NO_NOUN
        and word not in _TITLES
        and word not in PARTICIPLES
        and not word.endswith(("ly", "ous", "ful"))
        and not (is_finite(word) and not word.endswith("ship"))
    )
