"""Filters for what an agent ignores without saying so: a clause of the question, or the choice between namesakes.

A right answer does not show that all of its question was heeded: a question for the Marr who wrote "Sunken Bells" and
won a prize in 1962 may be answered by any Marr. Whether a name was heeded is judged leniently, by half of its words in
anything that the agent wrote or read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from trailforge.filters.answers import content_stems
from trailforge.filters.base import count_faults
from trailforge.filters.facts import names_asked
from trailforge.filters.thoughts import find_unseen_names
from trailforge.filters.ways.way import Way
from trailforge.rewards import is_people, mentions, other_names
from trailforge.schemas import Verdict

_CLAUSE = re.compile(r"[,;:]|\b(?:who|whom|whose|which|that|where|when|and|or|but)\b", re.IGNORECASE)
_AT = r"(?:in|of|from|at|by|to)"
_ALTERNATIVES = re.compile(rf"\b{_AT} [^,;?]+? or {_AT} [^,;?]+")
"""What an answer is chosen from, "in Graz or in Linz": the one that is not, need not be heeded."""
_QUOTED = re.compile(r"“([^“”]+)”|\"([^\"]+)\"")
_YEAR = re.compile(r"(?:1\d|20)\d\d")
_QUALIFIED = re.compile(r"(?P<stem>.*\S)\s+\((?P<told>[^()]*)\)\s*")
"""A title that says which of several it is: "Sunken Bells (1962 film)"."""
_DATES = re.compile(r"\d+\w*|born|died|di|centur\w*|bc|ad")
"""Stems of a title that date it: what is left says of which kind it is."""
_PARTS = content_stems("season series episode volume part disambiguation")
"""Kinds of which one thing has several."""
_ACRONYM = re.compile(r"[A-Z]{2,4}")
_OF_A_PLACE = re.compile(r"[A-Z]\w+(?:ean|ian|can|ish|ese)")
"""A word that is no name by itself: "European", "Parisian"."""
_ASKING = frozenset("what which who whom whose when where how".split())
_ALIKE = 0.85
"""Similarity of a word and its misspelling ("Sydeney", "Sydney")."""


def judge_silence(way: Way) -> list[Verdict]:
    """Return the verdicts on what the agent ignored without a word: a clause of the question (`dropped_clause`), and
    which of two namesakes is meant (`untold_namesakes`).
    """
    return [dropped_clause(way), untold_namesakes(way)]


def dropped_clause(way: Way) -> Verdict:
    """Reject an episode when a name, year or quoted title of the question occurs in nothing that the agent wrote or
    read. Score: the number of these.

    What identifies the same thing beside a name that was found is no clause of its own: "the 1962 film Sunken Bells".
    """
    return count_faults("dropped_clause", list(find_dropped(way)), lambda name: f"nothing heeds {name!r}")


def untold_namesakes(way: Way) -> Verdict:
    """Reject an episode in which the agent read of two things with the same name, searched for that name, and never
    said which one it means. Score: the number of such pairs of titles.
    """
    pairs = list(find_namesakes(way))
    return count_faults("untold_namesakes", pairs, lambda pair: f"{pair[0]!r} and {pair[1]!r}: no thought says which")


def find_dropped(way: Way) -> Iterator[str]:
    """Yield the names, years and quoted titles of a question that occur in nothing that the agent wrote or read."""
    said = _said(way)
    texts = [*said, *_read(way)]
    quoted = [first or second for first, second in _QUOTED.findall(way.question)]
    for clause in _CLAUSE.split(_ALTERNATIVES.sub(" ", _QUOTED.sub(" ", way.question))):
        names = [each for each in names_asked(clause) if _is_telling(each)]
        found = {name: _is_heeded(name, texts) for name in names}
        is_told = any(is_there and not _is_beside(name) for name, is_there in found.items())
        yield from (name for name, is_there in found.items() if not is_there and not (is_told and _is_beside(name)))
    stems = content_stems(" ".join(texts))
    yield from (title for title in quoted if 2 * len(content_stems(title) - stems) > len(content_stems(title)))


def find_namesakes(way: Way) -> Iterator[tuple[str, str]]:
    """Yield pairs of titles that were read, of one name and one kind ("1962 film", "1990 film"), which the agent
    searched for without saying which of them is meant.
    """
    asked = {name.casefold() for each in way.searches for name in (*names_asked(each.query), *each.entities)}
    known = content_stems(" ".join([way.question, *_said(way)]))
    titles = dict.fromkeys(each.title for search in way.searches for each in search.passages if each.title)
    alike: dict[tuple[str, frozenset[str]], list[str]] = {}
    told: set[str] = set()
    for title in titles:
        stem, words = _parted(title)
        kind = frozenset(word for word in words if not _DATES.fullmatch(word))
        alike.setdefault((stem, kind), []).append(title)
        told |= {stem} if (words - kind) & known else set()
    for (stem, kind), group in alike.items():
        if len(group) > 1 and stem in asked - told and kind.isdisjoint(_PARTS):
            yield group[0], group[1]


def _parted(title: str) -> tuple[str, frozenset[str]]:
    """The name in a title, in lower case, and the words that say which of those of that name it is."""
    parts = _QUALIFIED.fullmatch(title)
    if parts is None:
        return title.casefold(), frozenset()
    return parts["stem"].casefold(), frozenset(content_stems(parts["told"]))


def _said(way: Way) -> list[str]:
    """What the agent wrote."""
    turns = (f"{each.thought} {each.query} {' ; '.join(each.entities)}" for each in way.searches)
    return [*turns, way.last_thought, way.answer]


def _read(way: Way) -> list[str]:
    return [f"{each.title}. {each.text}" for search in way.searches for each in search.passages]


def _is_telling(name: str) -> bool:
    """Of a bare number only a year, and no short acronym: "CEO" is what many are."""
    return _YEAR.fullmatch(name) is not None or (name[0].isupper() and _ACRONYM.fullmatch(name) is None)


def _is_beside(name: str) -> bool:
    """Does it only stand beside a name: a year, or what a people is called?"""
    return bool(_YEAR.fullmatch(name) or _OF_A_PLACE.fullmatch(name)) or is_people(name)


def _is_heeded(name: str, texts: list[str]) -> bool:
    """By half of its words, in another form or misspelt, too, or by another name of it."""
    words = re.findall(r"\w+", name)
    unseen = [each for each in words if next(find_unseen_names(f"x {each}", texts), "")]
    if 2 * len(unseen) <= len(words) or any(mentions(text, other) for other in other_names(name) for text in texts):
        return True
    there = {word for text in texts for word in re.findall(r"\w+", text.casefold())} | _ASKING
    missing = [each for each in unseen if not get_close_matches(each.casefold(), there, n=1, cutoff=_ALIKE)]
    return 2 * len(missing) <= len(words)
