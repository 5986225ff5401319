"""Share between the filters of several records how verdicts are made from a list of faults, and the rules that apply
everywhere.
"""

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
    """Return the scores of filters as a row stores them, with the reason where a filter rejects."""
    return tuple(
        FilterScore(name=v.reason, score=v.score, passed=v.keep, reason="" if v.keep else v.detail) for v in verdicts
    )


def count_faults(reason: str, faults: Sequence[T], describe: Callable[[T], str]) -> Verdict:
    """Return a verdict that rejects the row if there is any fault. The score is the number of faults, and the detail
    describes the first.
    """
    detail = describe(faults[0]) if faults else ""
    return Verdict(keep=not faults, reason=reason, score=float(len(faults)), detail=detail)


def reject_low_reward(total: float, least: float, parts: str) -> Verdict:
    """Reject a total reward below `least`, with the reason `low_reward`. The score is the total; `parts` says in the
    detail what it is made of.
    """
    detail = "" if total >= least else f"{total:g} is below {least:g} ({parts})"
    return Verdict(keep=total >= least, reason="low_reward", score=total, detail=detail)


def reject_malformed(problems: Sequence[object], stop: str = "") -> Verdict:
    """Reject a conversation, as `malformed_conversation`, that breaks the grammar of its protocol, has no answer, or
    was repaired.

    The score is the number of broken rules. `problems` are what the grammar's strict `validate` found; `stop` says in
    the detail how the episode ended.
    """
    return count_faults("malformed_conversation", problems, lambda each: f"{each} ({stop})" if stop else f"{each}")


def reject_wrong(answer: str, gold: str, *, is_right: bool, score: float) -> Verdict:
    """Reject as `wrong_answer` a final answer that is right by no measure (`is_right` is false): not by the matcher
    (`rewards.matching`), not by the title of a text that was read, and by no judge. `score`, 0 to 1, is the best that
    one of these measures gave the answer, and is the verdict's score.
    """
    detail = "" if is_right else f"{answer!r} instead of {gold!r}"
    return Verdict(keep=is_right, reason="wrong_answer", score=score, detail=detail)


def reject_too_long(tokens: int, most: int, searches: int | None = None, most_searches: int = 0) -> Verdict:
    """Reject as `too_long` a conversation with more than `most` tokens, or with more than `most_searches` searches;
    with `searches` None, searches are not limited. Score: `tokens`, the estimated number of tokens.
    """
    keep, detail = tokens <= most, f"{tokens} tokens (at most {most})"
    if searches is not None:
        keep = keep and searches <= most_searches
        detail = f"about {detail}, {searches} searches (at most {most_searches})"
    return Verdict(keep=keep, reason="too_long", score=float(tokens), detail="" if keep else detail)


def reject_surplus(taken: int) -> Verdict:
    """Reject as `surplus` a sound episode of a question for which enough better ones were accepted: `taken` of them,
    which is the score.
    """
    return Verdict(keep=False, reason=SURPLUS, score=float(taken), detail=f"{taken} better ones were taken")


def mentions_any(text: str, golds: Iterable[str]) -> bool:
    """Tell whether a text mentions one of the gold answers."""
    return any(mentions(text, gold) for gold in golds)


def names_of_answer(answer: str, golds: Iterable[str]) -> tuple[str, ...]:
    """Return an answer, the gold answers that it expresses in other words, and the other names of each."""
    said = [answer, *(gold for gold in golds if same_answer(answer, gold))]
    return tuple(dict.fromkeys(name for each in said for name in (each, *other_names(each)) if name.strip()))
