"""Tell whether a text names a relation, and treat kin words of one kind (father, mother, parent) as one relation."""

from __future__ import annotations

from trailforge.filters.answers import content_stems
from trailforge.filters.facts import forms_of

_KIN = tuple(
    frozenset(line.split())
    for line in (
        "father mother parent parents grandfather grandmother grandparent",
        "child children son sons daughter daughters",
        "sibling siblings brother sister",
        "spouse husband wife father-in-law mother-in-law",
    )
)
"""Words by which an agent thinks of what a graph calls otherwise."""
_ALIKE = 6
"""Letters that two forms of a word begin with: "country", "countries"."""


def names_relation(text: str, relation: str) -> bool:
    """Tell whether a text names a relation, in its own words or in a form that says the same ("born" for "place of
    birth").
    """
    words = forms_of(relation)
    words |= {word for kin in _KIN if not kin.isdisjoint(words) for word in kin}
    stems = content_stems(text)
    begun = {stem[:_ALIKE] for stem in stems if len(stem) >= _ALIKE}
    return not words or any(content_stems(word) <= stems or word[:_ALIKE] in begun for word in words)
