"""Read the search text that a person types: words, `field:value`, `reward<0.5`, "an exact phrase", and `-` before what
must not occur.

A row is found when all conditions hold for it. Upper and lower case are alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from trailforge.schemas import InvalidInput

HELP = (
    'All words have to be in the row; `"two words"` in this order; `-word` must not be. `reason:near` searches one '
    "field, and `reason=near_duplicate` is all that it says; `reward<0.5`, `hops>=3`, `seed=7` compare a number. "
    "`like:ID` finds rows like that one, the nearest first."
)
FIELD = "search"
"""Name of a search in error messages."""
LIKE = "like"
"""Name of the condition that a row is among those most like another one."""
COMPARISONS = ("<=", ">=", "!=", "<", ">", "=")
"""Signs after the name of a number that compare it; the last of them and `!=` also compare the whole text of a
field."""
_WHOLE = ("=", "!=")
_TERM = re.compile(
    rf"(?P<minus>-(?=\S))?(?:(?P<name>[A-Za-z_][\w.]*)(?P<by>:(?!//)|{'|'.join(COMPARISONS)}))?"
    r'(?P<value>"(?:[^"]|"")*"?|\S*)\s*'
)
_BARE, _BARE_VALUE = re.compile(r"\w[\w.]*"), re.compile(r"[\w.+-]+")
"""Patterns of what needs no quotation marks: as a word alone, and as the value of a field."""
_HALF = re.compile(r"[\ud800-\udfff]")
"""What the command line makes of bytes that are no text, and a form of half an emoji; Arrow takes neither."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition of a search."""

    value: str
    name: str = ""
    """Name of the field that the condition is about; empty: any text."""
    by: str = ""
    """The sign after the field's name, `:` or a comparison; empty where no field is named."""
    is_negated: bool = False

    @property
    def is_like(self) -> bool:
        """Tell whether the condition asks for rows similar to the one with this id."""
        return self.name == LIKE and self.by == ":"


def quote(text: str) -> str:
    """Write a search for exactly this text."""
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def write_search(terms: Iterable[Term]) -> str:
    """Write the search that `parse_search` reads as these conditions."""
    return " ".join(_write_term(term) for term in terms)


def _write_term(term: Term) -> str:
    is_bare = (_BARE_VALUE if term.name else _BARE).fullmatch(term.value)
    return f"{'-' if term.is_negated else ''}{term.name}{term.by}{term.value if is_bare else quote(term.value)}"


def parse_search(text: str) -> list[Term]:
    """Read the conditions of a search, in the order in which they were typed, each once.

    Raises `InvalidInput` for an empty search, for text that cannot be read, a quotation mark without its second one,
    a field without a value, an order (`<`) with a value that is no number, and `like` twice or with a minus.
    """
    terms, at = [], 0
    text = text.strip()
    if _HALF.search(text):
        raise InvalidInput("holds bytes that are no UTF-8, or half a surrogate pair: no row has them", field=FIELD)
    while at < len(text):
        match = _TERM.match(text, at)
        if match is None or match.end() == at:  # cannot be: the value takes anything
            raise InvalidInput(f"cannot be read from {text[at:]!r} on; put that in quotation marks", field=FIELD)
        terms.append(_read_term(match))
        at = match.end()
    if not any(term.value for term in terms):
        raise InvalidInput("nothing to search for; give words, or FIELD:VALUE", field=FIELD)
    found = list(dict.fromkeys(terms))
    if sum(term.is_like for term in found) > 1:
        raise InvalidInput("looks for rows like one other row, not like several: leave one `like:` out", field=FIELD)
    return found


def _read_term(match: re.Match[str]) -> Term:
    name, by, value = match["name"] or "", match["by"] or "", match["value"]
    if value.startswith('"'):
        if value.count('"') % 2:
            raise InvalidInput(f"the quotation mark of {value} has no second one; add it", field=FIELD)
        value = value[1:-1].replace('""', '"')
    if name and not value:
        raise InvalidInput(f"what is {name}{by} to be? say a value behind it", field=FIELD)
    term = Term(value, name, by, bool(match["minus"]))
    if by in COMPARISONS and by not in _WHOLE:
        read_number(term)
    if term.is_like and term.is_negated:
        raise InvalidInput("finds what is like a row, not what is unlike it: leave the minus out", field=FIELD)
    return term


def read_number(term: Term) -> float:
    """Return the number that a condition compares with. Raises `InvalidInput` when its value is no number."""
    try:
        return float(term.value.replace(",", ""))
    except ValueError:
        raise InvalidInput(f"{term.value!r} is no number; {hint_quotes(term)}", field=FIELD) from None


def hint_quotes(term: Term) -> str:
    """Say how to search literally for a text that was read as a condition."""
    return f"to search for the text itself, write {quote(f'{term.name}{term.by}{term.value}')}"


def texts_of(text: str) -> list[str]:
    """Return the texts that a search looks for, which are marked in the rows it finds. Empty for a search that cannot
    be read.
    """
    try:
        terms = parse_search(text)
    except InvalidInput:
        return []
    is_seen = (term for term in terms if term.value and not term.is_negated and not term.is_like)
    return [term.value for term in is_seen if term.by in ("", ":")]


def like_of(text: str) -> str:
    """Return the id of the row for which a search wants similar ones; empty where it wants none, or cannot be read."""
    try:
        return next((term.value for term in parse_search(text) if term.is_like), "")
    except InvalidInput:
        return ""


def add_term(text: str, *terms: Term) -> str:
    """Return a search with these conditions added, replacing those on the same fields; a search that cannot be read is
    replaced.
    """
    try:
        before = [each for each in parse_search(text) if each.name not in {term.name for term in terms}]
    except InvalidInput:
        before = []
    return write_search([*before, *terms])
