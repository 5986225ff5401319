"""Make the targets of training: gold answers and, by rule alone, their other names and spellings.

Rewards of papers compare strings, filters use the matcher. So that both mean the same by "right", the target of a
question has each name by which the matcher takes a gold answer, as far as rules can write it down. No model suggests
any of them, and the matcher finds each of these names right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trailforge.rewards.figures import restate_numerals, restate_quantities, spell_in_figures, spell_in_words
from trailforge.rewards.matching import mcts_reward, states, wordings_of
from trailforge.rewards.names import other_names, place_alone
from trailforge.rewards.reading import date_of, fold, read
from trailforge.rewards.text import cover_exact_match, exact_match, f1, normalize_answer
from trailforge.schemas import TrajectoryReward

_NEVER_QUOTED = frozenset(("yes", "no"))
_MONTHS = "January February March April May June July August September October November December".split()


def right_names(golds: Sequence[str], *, fewest_letters: int = 1) -> tuple[str, ...]:
    """Return the gold answers as they are, then their other names and spellings, none twice after normalisation. Names
    with fewer than `fewest_letters` letters are not added, since a reward that compares by characters would find them
    within words.
    """
    names = list(dict.fromkeys(golds))
    known = set(map(normalize_answer, golds))
    for gold in golds:
        for name in _names_of(gold):
            key = normalize_answer(name)
            is_long = sum(map(str.isalnum, key)) >= fewest_letters
            if key and key not in known and is_long and mcts_reward(name, (gold,)):
                names.append(name)
                known.add(key)
    return tuple(names)


def score_by_target(prediction: str, golds: Sequence[str], *, judged_right: bool = False) -> TrajectoryReward:
    """Return the reward columns of a training row: the parts as a reward computes them with `right_names`. `total` is
    the matcher's verdict over the gold answers, or 1.0 for an answer that a judge found right.
    """
    names = right_names(golds)
    return TrajectoryReward(
        total=1.0 if judged_right else mcts_reward(prediction, golds),
        exact_match=exact_match(prediction, names),
        f1=f1(prediction, names),
        cover_exact_match=cover_exact_match(prediction, names),
    )


def is_never_quoted(answer: str) -> bool:
    """Tell whether an answer is yes or no, which no text has to contain."""
    return normalize_answer(answer) in _NEVER_QUOTED


def state_gold(texts: Iterable[str], golds: Sequence[str]) -> bool | None:
    """Tell whether a text states a gold answer, or another name of it. Only words are compared: the text need not say
    that it is the answer.

    The result is None where words cannot tell: texts support "yes" and "no" without saying them.
    """
    if any(map(is_never_quoted, golds)):
        return None
    names = dict.fromkeys(name for gold in golds for name in (gold, *other_names(gold)))
    return any(states(text, name) for text in texts for name in names)


def _names_of(gold: str) -> Iterator[str]:
    """Names that may be right; `right_names` asks the matcher of each."""
    folded = fold(gold)
    if date := date_of(folded):
        yield from _dates(*date)
        return
    yield from other_names(gold)
    yield from filter(None, (place_alone(gold), folded, *wordings_of(folded)))
    yield from (spell_in_figures(fold(restate(gold))) for restate in (str, restate_quantities, restate_numerals))
    yield spell_in_words(folded)
    yield from (str(read(folded, joined=joined)).strip() for joined in (True, False))


def _dates(year: int | None, month: int | None, day: int | None) -> Iterator[str]:
    if month is None:
        return
    name, after = _MONTHS[month - 1], f" {year}" if year else ""
    if day is None:
        yield f"{name}{after}"
        yield from ([f"{year}-{month:02}"] if year else [])
        return
    yield f"{day} {name}{after}"
    yield f"{name} {day}{',' if year else ''}{after}"
    yield from ([f"{year}-{month:02}-{day:02}"] if year else [])
