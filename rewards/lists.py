"""Detect lists: an answer that names other candidates beside the gold one is no answer, nor is a part of a longer
list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from trailforge.rewards.reading import WordSequence, is_number, nations
from trailforge.rewards.text import normalize_answer

ASIDE = frozenset("in at on of from by for near within to into during since under as".split())
"""Words that, before a gold answer, make it part of a description ("the capital of France"), and that begin no item of
a list."""
_SHORT_WORDS = 3
"""An item of a list has at most so many."""
_MANY_ITEMS = 3
"""Names behind a name, without an "and", that are a list and not where it is: "Springfield, Illinois"."""
_ARTICLE = re.compile(r"[a-z]")
"""In a gap, which holds no other letters but a possessive's."""
_LIST_MARK = re.compile(r"[/&|+;]")
_ITEM_MARK = re.compile(r"[,;&|+]")
_RANGE = re.compile(r"[,;/–—-]")
_RANGE_WORDS = frozenset("and to through until till thru".split())
_YEAR = re.compile(r"(?:1\d|20)\d\d")
_COMPARED = frozenset("from than to of vs versus against with not above below over under beyond exceeding".split())
"""Right before a quantity these make it what another is held against: "21.5%, up from 12.3%"."""
_TOTALS = frozenset("total all".split())
_NO_ITEM = frozenset(
    "yes no well so thus therefore hence finally ultimately sure okay indeed actually according based given both all "
    "each respectively too also together which who that where when while where with because but not rather".split()
)
"""Begin what stands between commas and is no item."""
_LINKS = frozenset("is are was were be include includes including namely".split())
"""Behind these a list begins: "the languages are Hindi, Bengali and Marathi"."""


def lists_others(answer: WordSequence, start: int, end: int) -> bool:
    """Tell whether an answer names other candidates beside its words from `start` to `end` (excluded), which are the
    gold answer: "Paris and Rome", "12, 13", "1998 to 2000".

    A list that is longer than these words counts, too: "Hindi, Bengali and Marathi" beside "Bengali and Marathi"; and
    another quantity in the same unit, unless this one is only compared with it.
    """
    if _stands_beside_another(answer, start, end):
        return True
    words, items = answer.words, _items(answer, start, end)
    if is_number(words[start]) and sum(map(is_number, words[start:end])) == 1:
        return end - start <= _SHORT_WORDS and _gives_other_quantity(answer, items, start, end)
    return _is_one_of_items(answer, items, start, end)


def _stands_beside_another(answer: WordSequence, start: int, end: int) -> bool:
    words, gaps = answer.words, answer.gaps
    first = start
    while first > 0 and words[first - 1] in ASIDE:
        first -= 1
    has_left, has_right = first > 0, end < len(words)
    left, right = gaps[start] if has_left else "", gaps[end] if has_right else ""
    if (has_left and words[first - 1] == "and") or (has_right and words[end] == "and"):
        return True
    if _LIST_MARK.search(left) or (has_right and _LIST_MARK.search(right) and not _is_unit(words, end)):
        return True
    if is_number(words[start]) and end - start == 1:
        if has_left and _is_range(words[max(0, start - 2) : start][::-1], left):
            return True
        if has_right and _is_range(words[end : end + 2], right):
            return True
    if "," in right and words[end] not in ASIDE and not _ARTICLE.search(right):
        return any(_joins(answer, at) for at in range(end, min(end + _SHORT_WORDS + 1, len(words))))
    return False


def _joins(answer: WordSequence, at: int) -> bool:
    return answer.words[at] == "and" or "&" in answer.gaps[at]


def _is_unit(words: Sequence[str], end: int) -> bool:
    """Is what follows a number and a slash no candidate: "120/km"?"""
    return is_number(words[end - 1]) and not is_number(words[end])


def _is_range(beside: Sequence[str], gap: str) -> bool:
    """Is the next word another number, or the one after a word that links two?"""
    if is_number(beside[0]):
        return bool(_RANGE.search(gap))
    return len(beside) > 1 and beside[0] in _RANGE_WORDS and is_number(beside[1])


def _items(answer: WordSequence, start: int, end: int) -> list[tuple[int, int]]:
    """What stands between the marks of a list, as first and last word; the words from `start` to `end` are in one."""
    items, first = list[tuple[int, int]](), 0
    for at, word in enumerate(answer.words):
        if start < at < end:
            continue
        is_joiner = word == "and" and not start <= at < end
        if (is_joiner or _ITEM_MARK.search(answer.gaps[at])) and at > first:
            items.append((first, at))
            first = at
        first += is_joiner
    return [*items, (first, len(answer.words))] if first < len(answer.words) else items


def _gives_other_quantity(answer: WordSequence, items: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    words, gaps = answer.words, answer.gaps
    follows = words[start + 1] if start + 1 < len(words) else ""
    unit = follows if end - start > 1 else ""
    depths = list(accumulate(gap.count("(") - gap.count(")") for gap in gaps))
    for at, word in enumerate(words):
        is_other = is_number(word) and word != words[start] and depths[at] == depths[start]
        if start <= at < end or not is_other or (at and words[at - 1] in _COMPARED):
            continue
        then = words[at + 1] if at + 1 < len(words) else ""
        if unit and (then == unit or ((at, at + 1) in items and not _YEAR.fullmatch(word))):
            return True
        # "12 in 2019, 14 in 2020"
        begins = all(any(each == first for first, _ in items) for each in (at, start))
        if (
            not unit
            and begins
            and then == follows
            and then in ASIDE
            and not _TOTALS & set(words[start + 2 : start + 3])
        ):
            return True
    return False


def _is_one_of_items(answer: WordSequence, items: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Are the names from `start` to `end` one item of a longer list, or some?"""
    words = answer.words
    home = next(number for number, (first, last) in enumerate(items) if first <= start < last)
    left = _run_of_items(answer, items[:home][::-1]) if items[home][0] == start else []
    right = _run_of_items(answer, items[home + 1 :]) if items[home][1] == end else []
    own = nations().get(_key(words[start:end]))
    others = [each for each in map(nations().get, map(_key, (*left, *right))) if each]
    if own:
        return any(each != own for each in others)
    is_address = bool(right) and _key(right[-1]) in nations()
    size = _longest_item(answer, start, end)
    if size and (left or (right and len(right[0]) <= size and not is_address)):
        return True
    return not is_address and (len(left) > 1 or bool(left and right) or len(right) >= _MANY_ITEMS)


def _longest_item(answer: WordSequence, start: int, end: int) -> int:
    """Words of the longest of the names from `start` to `end`; 0 where these are one, though it may hold an "and"."""
    sizes = [last - first for first, last in _items(answer.part(start, end), 0, 0)]
    is_name = any(word in ASIDE for word in answer.words[start:end])
    return max(sizes) if len(sizes) > 1 and max(sizes) <= _SHORT_WORDS and not is_name else 0


def _run_of_items(answer: WordSequence, items: Iterable[tuple[int, int]]) -> list[Sequence[str]]:
    """Of the words between marks, from the nearest on, those that may be items of a list of names."""
    run: list[Sequence[str]] = []
    for first, last in items:
        words = answer.words[first:last]
        linked = max((at + 1 for at, word in enumerate(words) if word in _LINKS), default=0)
        if not 0 < len(words) - linked <= _SHORT_WORDS or _ARTICLE.search(answer.gaps[first + linked]):
            break
        if words[0] in ASIDE or words[0] in _NO_ITEM or is_number(words[0]):
            break
        run.append(words[linked:])
        if linked:
            break
    return run


def _key(words: Sequence[str]) -> str:
    """As `name_key`."""
    return f" {' '.join(words)} "


# Lists of answers

_BETWEEN_PIECES = re.compile(r";|\n(?:[ \t*•-]*+(?:\d{1,3}[.)] )?)|^(?:[ \t*•-]+|\d{1,3}[.)] )")
_BETWEEN_ITEMS = re.compile(r",? ?\band\b|,(?!\d)")
_MOST_JOINED = 4
"""Items that may be one answer together."""


def split_pieces(text: str) -> Iterator[str]:
    """Return the parts of a list, between line ends and semicolons, without bullets and numbers, each on one line."""
    return (" ".join(piece.split()) for piece in _BETWEEN_PIECES.split(text))


def read_items(text: str, known: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the items of a text between commas and "and", each with the known item that it equals word for word, or an
    empty text. Several items count as one where together they are a known one: "Washington, D.C.", "Trinidad and
    Tobago".
    """
    whole = {normalize_answer(each): each for each in reversed(known)}
    if same := whole.get(normalize_answer(text)):
        yield text, same
        return
    ends = [0, *(at for found in _BETWEEN_ITEMS.finditer(text) for at in found.span()), len(text)]
    items = zip(ends[::2], ends[1::2], strict=True)
    spans = [(start, end) for start, end in items if normalize_answer(text[start:end])]
    at = 0
    while at < len(spans):
        start, most = spans[at][0], min(len(spans), at + _MOST_JOINED)
        parts = ((last, normalize_answer(text[start : spans[last][1]])) for last in range(most - 1, at - 1, -1))
        last, same = next(((last, whole[part]) for last, part in parts if part in whole), (at, ""))
        yield text[start : spans[last][1]], same
        at = last + 1
