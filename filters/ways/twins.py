"""Rules that recognise near duplicates: two episodes that differ only in their words."""

from __future__ import annotations

from collections.abc import Sequence

from trailforge.filters.answers import content_stems
from trailforge.filters.facts import names_asked
from trailforge.filters.ways.way import Way
from trailforge.rewards import mentions

_MOST = 0.5
"""Of the words of two queries that name nothing, above which they ask alike."""


def ask_about_the_same(one: Way, other: Way) -> bool:
    """Tell whether the searches of two episodes ask about the same names, in whatever words and however many
    searches.
    """
    return _name_the_same(_names_of(one), _names_of(other))


def is_reworded(query: str, other: str) -> bool:
    """Tell whether two queries ask about the same names in other words. Where neither names anything, most words have
    to be the same.
    """
    names = names_asked(query), names_asked(other)
    if any(names):
        return _name_the_same(*names)
    one, two = content_stems(query), content_stems(other)
    return len(one & two) > _MOST * len(one | two)


def _names_of(way: Way) -> list[str]:
    return [name for search in way.searches for name in (*names_asked(search.query), *search.entities)]


def _name_the_same(one: Sequence[str], other: Sequence[str]) -> bool:
    """Is each name of either one of the other's, or part of one or with more to it: "Lang" for "Fritz Lang"?"""

    def has(names: Sequence[str], name: str) -> bool:
        return any(mentions(each, name) or mentions(name, each) for each in names)

    return bool(one) and all(has(other, name) for name in one) and all(has(one, name) for name in other)
