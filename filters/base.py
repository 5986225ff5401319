"""What filters of several records share: verdicts from a list of faults, and the rules that are the same everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from trailforge.rewards import mentions, other_names, same_answer
from trailforge.schemas import FilterScore, Verdict

T = TypeVar("T")
SURPLUS = "surplus"


def first_rejection(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Return the first verdict that rejects; None when all keep the row."""
    return next((verdict for verdict in verdicts if not verdict.keep), None)


def scores_of(verdicts: Iterable[Verdict]) -> tuple[FilterScore, ...]:
    """Return what filters measured, as a row holds it, with the reason where a filter rejects."""
    return tuple(
        FilterScore(name=v.reason, score=v.score, passed=v.keep, reason="" if v.keep else v.detail) for v in verdicts
    )


def count_faults(reason: str, faults: Sequence[T], describe: Callable[[T], str]) -> Verdict:
    """Make a verdict that any fault rejects. Score: how many faults there are; the detail describes the first."""
    detail = describe(faults[0]) if faults else ""
    return Verdict(keep=not faults, reason=reason, score=float(len(faults)), detail=detail)


def reject_low_reward(total: float, least: float, parts: str) -> Verdict:
    """Reject a total reward below `least` as `low_reward`. Score: the total.

    `parts`: what the total is made of, for the detail.
    """
    detail = "" if total >= least else f"{total:g} is below {least:g} ({parts})"
    return Verdict(keep=total >= least, reason="low_reward", score=total, detail=detail)


def reject_malformed(problems: Sequence[object], stop: str = "") -> Verdict:
    """Reject as `malformed_conversation` what breaks the grammar of its protocol, has no answer, or was mended.

    Score: how many rules are broken. `problems`: what the grammar's `validate` found, strictly; `stop`: how the episode
    ended, for the detail.
    """
    return count_faults("malformed_conversation", problems, lambda each: f"{each} ({stop})" if stop else f"{each}")


def reject_wrong(answer: str, gold: str, *, is_right: bool, score: float) -> Verdict:
    """Reject as `wrong_answer` a final answer that is right by no measure: not by the matcher (`rewards.matching`), not
    by the title of a text that was read, and by no judge. Score: the best that one of them gives.
    """
    detail = "" if is_right else f"{answer!r} instead of {gold!r}"
    return Verdict(keep=is_right, reason="wrong_answer", score=score, detail=detail)


def reject_too_long(tokens: int, most: int, searches: int | None = None, most_searches: int = 0) -> Verdict:
    """Reject as `too_long` a conversation with more tokens than a trainer takes, or more searches than an agent may
    make, where these are counted. Score: the estimated number of tokens.
    """
    keep, detail = tokens <= most, f"{tokens} tokens (at most {most})"
    if searches is not None:
        keep = keep and searches <= most_searches
        detail = f"about {detail}, {searches} searches (at most {most_searches})"
    return Verdict(keep=keep, reason="too_long", score=float(tokens), detail="" if keep else detail)


def reject_surplus(taken: int) -> Verdict:
    """Reject as `surplus` a sound episode of a question of which enough better ones were taken. Score: how many."""
    return Verdict(keep=False, reason=SURPLUS, score=float(taken), detail=f"{taken} better ones were taken")


def mentions_any(text: str, golds: Iterable[str]) -> bool:
    """Say whether a text mentions one of the gold answers."""
    return any(mentions(text, gold) for gold in golds)


def names_of_answer(answer: str, golds: Iterable[str]) -> tuple[str, ...]:
    """Return an answer, the gold answers that it says in other words, and the other names of each."""
    said = [answer, *(gold for gold in golds if same_answer(answer, gold))]
    return tuple(dict.fromkeys(name for each in said for name in (each, *other_names(each)) if name.strip()))
