"""What a name names: the noun that a text puts beside it, or its own last word."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from trailforge.retrieval.english import AUXILIARIES, PARTICIPLES, PAST, PREPOSITIONS, is_finite
from trailforge.schemas import SourceDocument
from trailforge.small_model.splitting.words import FUNCTION_WORDS, PERSON_NOUNS, RELATIONAL

PERSON = "person"
KINDS = (PERSON, "city", "country", "organisation", "thing")
"""What a model may choose from when no text says; `thing` says nothing."""
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
    """The noun of `the Japanese spacecraft NAME`, where NAME begins at `start`; None without an article before it."""
    match = re.search(r"(?:^|\s|\()(?:the|The|a|A|an|An) ((?:[\w-]+ ){0,2})([a-z][a-z-]+) $", text[:start])
    if match is None or not _is_noun(match[2]):
        return None
    modifiers = match[1].split()
    plain = all((word.islower() and word not in FUNCTION_WORDS) or _NATION.match(word) for word in modifiers)
    return match[2] if plain else None


def noun_of(name: str, documents: Sequence[SourceDocument]) -> str | None:
    """A name's own last word if it is a noun of these texts, else the noun most often put beside it, else None."""
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
    """Two or three capitalised words, initials among them, the last of which is no common noun."""
    words = name.split()
    return (
        2 <= len(words) <= 4
        and all(
            re.fullmatch(r"[^\W\d_a-z](?:[^\W\d_]+(?:[-’'][^\W\d_]+)*|\.)|[IVX]+|de|von|van|du", word) for word in words
        )
        and not any(word.lower() in RELATIONAL or word.isupper() for word in words[1:] if len(word) > 3)
    )


def is_person_noun(noun: str) -> bool:
    """Does `who` ask for it?"""
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
