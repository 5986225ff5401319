"""Compare an answer with its gold answers: the one matcher of filters, trees and acceptance.

Each paper's own reward stays literal in its file; whoever asks whether an answer is right, whether two say the same, or
whether a text has an answer, asks here. How a text is read: `rewards.reading`.

Names are looser than other words in two ways, and only where an answer is nothing but the name: countries go by their
people's names too (`nations.txt`: French for France), and a name goes without what tells it from its namesakes, a
bracket of a known kind ("(1927 film)") or a title of rank behind a full name (", Countess of Marle"). A place of which
the gold answer says where it lies ("Montreal, Quebec") is right without that, as people answer, and so is a company
without its legal form ("Tumi" for "Tumi Holdings, Inc."). Which names: `rewards.names`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from trailforge.rewards.answers import is_abstention, is_yes_and_no
from trailforge.rewards.figures import find_currencies, restate_numerals, restate_quantities, spell_in_figures
from trailforge.rewards.lists import ASIDE, lists_others, read_items, split_pieces
from trailforge.rewards.names import company_names, corner_names, country_names, is_people, other_names, place_alone
from trailforge.rewards.reading import (
    Date,
    WordSequence,
    covers_date,
    date_of,
    find_dates,
    fold,
    is_number,
    keep_for_texts,
    name_key,
    read,
    readings,
)
from trailforge.rewards.text import cover_exact_match, exact_match, f1, has_words, normalize_answer
from trailforge.schemas import TrajectoryReward

_MOST_RATIO, _MOST_MORE = 3, 6
"""An answer that covers its gold has at most three times the gold's words or, as a short gold's, six words more."""
_MOST_PLACES = 4
"""Of a gold within an answer that are looked at."""
_MOST_PARTS = 8
"""Joined by "or", of an answer that may be right."""

_CONTRACTED = "isn wasn aren weren doesn didn isnt wasnt arent werent doesnt didnt".split()
_NEGATORS = frozenset(
    (*"not never no nor neither without except excluding unlike instead than cannot".split(), *_CONTRACTED)
)
"""What follows one of these in a clause is what the answer is not."""
_NO_NEGATION = frozenset("only until just merely".split())
"""After a negator: "not only Paris", "not until 1944"."""
_CLAUSE = re.compile(r"[,;:.!?()]")
_BOUNDS = frozenset("before after over under above below exceeding beyond least most".split())
"""Right before a number or date these make it another one: "before 953" is not 953."""
_BOUNDS_WITH_TO = frozenset("up prior".split())
_OR = re.compile(r"\bor\b|\beither\b")
_NAMED = re.compile(r"(.*\S) ?\(([^()]+)\)")
_YEAR = re.compile(r"\d{4}")
_UNIT = re.compile(r"\w[ -][a-z\u3040-\u9fff]+$|^[$€£₹]")
"""Of a gold answer that is a number and its unit: not the Monkeys of "12 Monkeys"."""
_DIGITS = re.compile(r"(?:(?<![^\s(])-)?\d+")
_YES_OR_NO = frozenset(("yes", "no"))
_NO_OF_A_PHRASE = frozenset("longer one more other doubt such known".split())
_DATE_GIVEN = "dategiven"
"""Stands for a date where one is looked at as any other answer."""
_COMMON = frozenset(
    "of in on at to for and or is was were are by with from his her its their it he she they "
    "percent hundred thousand million billion bc bce ad ce km kilometers kilometres miles metres meters feet "
    "years".split()
)
"""Words that two answers have in common and yet share nothing: small ones, and units."""


# Is it right?


def mcts_reward(prediction: str, golds: Sequence[str]) -> float:
    """Return 1.0 if the prediction says what a gold answer says, else 0.0.

    It does so in other words for numbers and dates, or when it covers the gold answer with few words more. Answers are
    wrong that deny the gold answer, name other candidates beside it, or say that they do not know.
    """
    return float(_is_right(prediction, golds))


@lru_cache(maxsize=4096)
def same_answer(first: str, second: str) -> bool:
    """Tell whether two answers say the same, by the rule of the reward, either way round; two empty answers are the
    same."""
    if not first.strip() and not second.strip():
        return True
    return _is_right(first, (second,)) or _is_right(second, (first,))


def score_answer(prediction: str, golds: Sequence[str], *, judged_right: bool = False) -> TrajectoryReward:
    """Return the reward columns of a trajectory; `total` is the matcher's verdict (`mcts_reward`), and 1.0 for an
    answer that a judge found right (`judged_right`).
    """
    return TrajectoryReward(
        total=1.0 if judged_right else mcts_reward(prediction, golds),
        exact_match=exact_match(prediction, golds),
        f1=f1(prediction, golds),
        cover_exact_match=cover_exact_match(prediction, golds),
    )


def score_set(prediction: str, answers: Sequence[str]) -> TrajectoryReward:
    """Return the reward columns of a question that asks for several answers, all of them, in any order.

    The items of the prediction, between line ends and semicolons, or else commas and "and", are compared with the
    answers one by one; one that is named twice counts once. `f1` is that of the two sets. `exact_match` and `total` are
    1 for all of them and nothing else, `cover_exact_match` for all of them and maybe others.
    """
    named, others = set[str](), 0
    for piece in split_pieces(prediction if not is_abstention(prediction) else ""):
        for answer in _read_items(piece, answers):
            named |= {answer} if answer else set()
            others += not answer
    total = len(set(answers))
    exact, covers = float(len(named) == total and not others), float(len(named) == total)
    f1_of_sets = 2 * len(named) / (len(named) + others + total) if named else 0.0
    return TrajectoryReward(total=exact, exact_match=exact, f1=f1_of_sets, cover_exact_match=covers)


def _read_items(text: str, answers: Sequence[str]) -> Iterator[str]:
    """The answer that each item of a text is; empty for one that is none."""
    for item, answer in read_items(text, answers):
        yield answer or next((each for each in answers if _is_right(item, (each,))), "")


def is_near_miss(prediction: str, golds: Sequence[str]) -> bool:
    """Tell whether a judge should look at an answer: it is no abstention, and shares a name, a number or its initials
    with a gold answer."""
    if is_abstention(prediction):
        return False
    given = read(spell_in_figures(fold(prediction)), joined=True).words
    for gold in golds:
        words = read(spell_in_figures(fold(gold)), joined=True).words
        if (set(given) & set(words)) - _COMMON or _abbreviates(given, words) or _abbreviates(words, given):
            return True
    return False


def _is_right(prediction: str, golds: Sequence[str]) -> bool:
    if any(_is_equal(prediction, gold) for gold in golds):
        return True
    if is_abstention(prediction):
        return False
    if not any(_OR.search(fold(gold)) for gold in golds):
        parts = [part for part in _OR.split(fold(prediction)) if normalize_answer(part)]
        if len(parts) > 1:
            return len(parts) <= _MOST_PARTS and all(any(_covers(part, gold) for gold in golds) for part in parts)
    return any(_covers(prediction, gold) for gold in golds)


def _is_equal(prediction: str, gold: str) -> bool:
    """The same words, be they many, or Roman numerals in figures; of two texts without words the same signs."""
    left, right = fold(prediction), fold(gold)
    currencies = find_currencies(left), find_currencies(right)
    if all(currencies) and currencies[0] != currencies[1]:  # words are read without signs
        return False
    return (
        _has_same_words(left, right)
        or _has_same_numerals(prediction, gold)
        or bool(exact_match(prediction, (gold,)) and _same_digits(prediction, gold))
        or any(_has_same_words(left, fold(other)) for other in (*other_names(gold), place_alone(gold)))
        or _is_same_company(prediction, gold)
    )


def _is_same_company(prediction: str, gold: str) -> bool:
    """Legal forms of one name, or one and none: "Tumi Inc." for "Tumi Holdings, Inc.", "Tumi & Co." for "Tumi"."""
    names = [company_names(text) for text in (prediction, gold)]
    keys = [set(map(name_key, (text, *each))) for text, each in zip((prediction, gold), names, strict=True)]
    return any(names) and not keys[0].isdisjoint(keys[1])


def _has_same_numerals(prediction: str, gold: str) -> bool:
    restated = [restate_numerals(text) for text in (prediction, gold)]
    return restated != [prediction, gold] and _has_same_words(*(spell_in_figures(fold(text)) for text in restated))


def _has_same_words(left: str, right: str) -> bool:
    return any(
        bool(one.words) and one.words == other.words for one, other in zip(readings(left), readings(right), strict=True)
    )


def _covers(prediction: str, gold: str) -> bool:
    """One gold answer's worth of `mcts_reward`, its quantities as they stand or restated."""
    if is_abstention(gold):
        return False
    restated = restate_quantities(prediction), restate_quantities(gold)
    return any(_covers_as_written(*each) for each in dict.fromkeys(((prediction, gold), restated)))


def _covers_as_written(prediction: str, gold: str) -> bool:
    given, wanted = fold(prediction), fold(gold)
    if wanted.strip(" .") in _YES_OR_NO:
        return _read_yes_or_no(given) == wanted.strip(" .")
    if date := date_of(wanted):
        return _gives_date(given, date)
    bare = _bare_number(prediction)
    if bare:
        figures = read(spell_in_figures(wanted), joined=False).words
        if figures[:1] == (bare,) and (len(figures) == 1 or (len(figures) == 2 and _UNIT.search(gold.strip()))):
            return True
    countries = () if is_people(gold) else map(fold, country_names(gold))
    corners = map(fold, corner_names(gold))
    return any(_covers_wording(given, each) for each in (*wordings_of(wanted), *countries, *corners))


def _covers_wording(given: str, wanted: str) -> bool:
    wanted = spell_in_figures(wanted)
    numbers = [word for word in read(wanted, joined=False).words if is_number(word)]
    given = spell_in_figures(_without_days(given, wanted) if numbers else given)
    for answer, gold in zip(readings(given), readings(wanted), strict=True):
        if bool(gold.words) and answer.words == gold.words:
            return True
        if len(answer.words) > max(_MOST_RATIO * len(gold.words), len(gold.words) + _MOST_MORE):
            continue
        if any(_asserts(answer, at, at + len(gold.words)) for at in answer.positions(gold, _MOST_PLACES)):
            return True
    return False


def _asserts(answer: WordSequence, start: int, end: int) -> bool:
    """Do these words of an answer stand in it as what is parts, not as what is denied, or one of several?"""
    if _is_denied(answer, start, end) or lists_others(answer, start, end) or _is_bound(answer.words, start):
        return False
    if len(answer.words) > _MOST_RATIO * (end - start) and start > 1 and answer.words[start - 1] in ASIDE:
        return False
    is_owner = answer.gaps[end].startswith("'s")
    return not (is_owner and end < len(answer.words))


def _is_denied(answer: WordSequence, start: int, end: int) -> bool:
    words, gaps = answer.words, answer.gaps
    for at in range(start - 1, -1, -1):
        if _CLAUSE.search(gaps[at + 1]) or words[at] == "but":
            break
        if words[at] in _NEGATORS and words[at + 1] not in _NO_NEGATION:
            return True
    for at in range(end, len(words)):
        if _CLAUSE.search(gaps[at]) or words[at] in ("but", "and", "rather", "instead"):
            break
        if words[at] in _NEGATORS - {"no", "than"} and (at > end or words[at] in _CONTRACTED):
            return words[at] not in ("except", "excluding", "without", "unlike")
    return False


def _is_bound(words: Sequence[str], start: int) -> bool:
    """Is the number or date that begins here only a limit: "before 953", "at least 12", "up to 5"?"""
    if not start or not (is_number(words[start]) or words[start] == _DATE_GIVEN):
        return False
    return words[start - 1] in _BOUNDS or (words[start - 1] == "to" and words[start - 2] in _BOUNDS_WITH_TO)


def _without_days(given: str, gold: str) -> str:
    """A text whose dates are their years to a year, and nothing to any other number: 7 is not said by "7 May"."""
    if date_of(gold):
        return given
    is_year = bool(_YEAR.fullmatch(gold.strip(" .")))
    parts, end = [], 0
    for match, (year, _, _) in find_dates(given):
        parts += [given[end : match.start()], str(year) if is_year and year else "date"]
        end = match.end()
    return "".join([*parts, given[end:]])


def _gives_date(given: str, gold: Date) -> bool:
    """Does an answer name this date, as exactly, and no other one?"""
    found = list(find_dates(given))
    if not found or not all(covers_date(date, gold) for _, date in found):
        return False
    match = found[0][0]
    # A name without numbers in the date's place, so that it can be denied and listed as any other answer.
    stands = f"{given[: match.start()]}{_DATE_GIVEN}{given[match.end() :]}"
    return _covers_wording(stands, _DATE_GIVEN)


def _read_yes_or_no(given: str) -> str:
    if is_yes_and_no(given):
        return ""
    words = read(given, joined=False).words[:2]
    if not words or words[0] not in _YES_OR_NO or (words[1:] and words[1] in _NO_OF_A_PHRASE):
        return ""
    return words[0]


def _bare_number(text: str) -> str:
    words = read(spell_in_figures(fold(text)), joined=False).words
    return words[0] if len(words) == 1 and is_number(words[0]) else ""


def _same_digits(first: str, second: str) -> bool:
    """3.12 is not 312, though punctuation is nothing to the normalised answer; B-52 is B52."""
    return _DIGITS.findall(first) == _DIGITS.findall(second)


def wordings_of(folded: str) -> list[str]:
    """Return the text and, for one like "California State University (CSU)", both of its names."""
    named = _NAMED.fullmatch(folded)
    if named:
        names = [read(part, joined=True).words for part in named.groups()]
        if _abbreviates(names[0], names[1]) or _abbreviates(names[1], names[0]):
            return [folded, *named.groups()]
    return [folded]


def _abbreviates(short: Sequence[str], words: Sequence[str]) -> bool:
    """Is it one word of their initials, small words aside or not?"""
    if len(short) != 1 or len(short[0]) < 2 or len(words) < 2:
        return False
    initials = "".join(word[0] for word in words)
    return short[0] in (initials, "".join(word[0] for word in words if word not in _COMMON))


# Does a text have it?


def mentions(text: str, answer: str) -> bool:
    """Tell whether the text mentions the answer, as whole words. An empty answer is never mentioned, and one of
    articles and signs alone only where it is all of the text.

    Punctuation is read both ways: "U.S." is in "US troops", "Oslo" in "Oslo-based". Numbers are words: 23 is not in
    "23,597", nor 12 in "3.12".
    """
    folded, wanted = fold(text), fold(answer)
    parts = readings(wanted)
    if not parts[0].words:  # signs alone, or what looks like an article: "À"
        return has_words(normalize_answer(text), normalize_answer(answer)) or bool(exact_match(text, (answer,)))
    return any(parts.has(part) for parts, part in zip(readings(folded), parts, strict=True))


def states(text: str, answer: str) -> bool:
    """Tell whether the text states the answer: mentions it, or its number or date in another form, or one of its two
    names.

    "2" is stated in "two moons", "2,500,000" in "2.5 million", "7 February 2018" in "Feb 7, 2018", and "California
    State University (CSU)" in a text that has either name.
    """
    wanted = _wanted(answer)
    if wanted.date and any(covers_date(parts, wanted.date) for _, parts in find_dates(fold(text))):
        return True
    for place, is_joined in enumerate((True, False)):  # the second reading is made where the first has nothing
        if any(_in_figures(text, is_joined).has(name[place]) for name in wanted.in_figures):
            return True
    return not wanted.has_words and mentions(text, answer)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What of an answer a text is searched for."""

    date: Date | None
    in_figures: tuple[tuple[WordSequence, WordSequence], ...]
    """Of each of its names, with its numbers as figures."""
    has_words: bool


@keep_for_texts
def _wanted(answer: str) -> _Wanted:
    folded = fold(answer)
    names = tuple(readings(spell_in_figures(name)) for name in wordings_of(folded))
    return _Wanted(date_of(folded), names, bool(readings(folded)[0].words))


def _in_figures(text: str, is_joined: bool) -> WordSequence:
    return (_joined_in_figures if is_joined else _parted_in_figures)(text)


@keep_for_texts
def _spelled(text: str) -> str:
    return spell_in_figures(fold(text))


_joined_in_figures = keep_for_texts(lambda text: read(_spelled(text), joined=True))
_parted_in_figures = keep_for_texts(lambda text: read(_spelled(text), joined=False))
