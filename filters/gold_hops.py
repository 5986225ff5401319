"""Compare a trajectory's answers with the gold decomposition: which of its hops they answer, and in what order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

from trailforge.mcts import dependency_graph, gold_plan, join_marks, normalized, references, resolve, subject_words
from trailforge.rewards import exact_match, mentions, same_answer
from trailforge.schemas import Plan, Question, Step, Trajectory


def follows_gold(steps: Sequence[Step], question: Question) -> bool | None:
    """Tell whether the accepted answers are those of the gold decomposition, each found after those it depends on. A
    hop whose answer stands in the question needs no finding. None where no decomposition is known.
    """
    golds = golds_of_hops(question)
    if not golds:
        return None
    accepted = [step for step in steps if not step.is_mistake]
    all_of_hops = all(hops_found(accepted, question))
    return all_of_hops and not unfound_hops(steps, question) and not misplaced_hops(steps, question)


def hops_found(accepted: Sequence[Step], question: Question) -> list[list[int]]:
    """Return, for each accepted step, the hops (0-based) whose answer it gives.

    Before the last step, the last hop is answered only in a gold answer's very words: "South Carolina" on the way to
    "University of South Carolina" does not yet find it.
    """
    golds = golds_of_hops(question)
    last_step, last_hop = len(accepted) - 1, len(golds) - 1
    return [
        [
            hop
            for hop, answers in enumerate(golds)
            if exact_match(step.answer, answers)
            or ((hop != last_hop or place == last_step) and _is_one_of(step.answer, answers))
        ]
        for place, step in enumerate(accepted)
    ]


def own_hop(step: Step, question: Question, gold_wording: Sequence[str] = ()) -> int | None:
    """Return the gold hop (from 0) whose question a step asks, whatever plan the step is from; None when it asks no
    hop's.

    The step is recognised by its text where that stands by itself or, with the gold answers filled in, is what was
    searched for. A text with `#k` in it is a hop's only at the hop's place. `gold_wording` has the hops' questions in
    other words, in which a plan made from the gold decomposition asks them.
    """
    plan = gold_plan(question.decomposition).sub_questions
    answers = {number: hop.answer for number, hop in enumerate(question.decomposition, start=1)}
    asked, query = _plain(step.sub_question), _plain(step.query)
    for hop, text in enumerate(plan):
        by_text = not references(text) and _plain(text) in (asked, query)
        if by_text or (references(text) and query == _plain(resolve(text, answers))):
            return hop
    for wording in (plan, gold_wording):
        if step.index < len(wording) == len(plan) and _plain(wording[step.index]) == asked:
            return step.index
    return None


def gold_wording(row: Trajectory) -> Sequence[str]:
    """Return the plan of a row that follows the gold decomposition from beginning to end, in whatever words; else
    empty.
    """
    return row.plan if row.origin == "oracle" and row.reflection_error != "decomposition" else ()


def missed_hop(step: Step, question: Question, gold_wording: Sequence[str] = ()) -> int | None:
    """Return the gold hop (from 0) whose question a step asks but answers wrongly; None where there is none. The step's
    hop is found as by `own_hop`, with the same `gold_wording`.
    """
    hop = own_hop(step, question, gold_wording)
    return None if hop is None or _is_one_of(step.answer, golds_of_hops(question)[hop]) else hop


def _plain(text: str) -> str:
    return normalized(join_marks(text))


def golds_of_hops(question: Question) -> list[tuple[str, ...]]:
    """Return the answers of each gold hop; the last one's are those of the question."""
    return [(hop.answer,) for hop in question.decomposition[:-1]] + [
        question.golds for _ in question.decomposition[-1:]
    ]


def unfound_hops(steps: Sequence[Step], question: Question) -> list[int]:
    """Return the hops, 0-based, whose answer no accepted step finds and the question does not name."""
    found = hops_found([step for step in steps if not step.is_mistake], question)
    return [
        hop
        for hop, golds in enumerate(golds_of_hops(question))
        if not any(hop in hops for hops in found) and not mentions(question.question, golds[0])
    ]


def misplaced_hops(steps: Sequence[Step], question: Question) -> list[int]:
    """Return the hops (from 0) whose answer was found where it cannot be theirs.

    That is before the answers of the earlier hops that the hop refers to (as `#k`); or, for two hops that do not depend
    on each other, each by the sub-question of the other.
    """
    accepted = [step for step in steps if not step.is_mistake]
    golds = golds_of_hops(question)
    found = hops_found(accepted, question)
    places = [_places(hop, answers, accepted, found) for hop, answers in enumerate(golds)]
    earlier = _earlier_hops(tuple(hop.question for hop in question.decomposition))
    if earlier is None:
        return []
    first: dict[int, int] = {}
    misplaced = []
    for hop in sorted(hop for hop, found in enumerate(places) if found):
        least = max((first[k] for k in earlier[hop] if k in first and not _alike(golds[k], golds[hop])), default=-1)
        later = [place for place in places[hop] if place > least]
        if later:
            first[hop] = later[0]
        else:
            misplaced.append(hop)
    free = [(a, b) for a, b in combinations(sorted(first), 2) if a not in earlier[b]]
    crossed = {hop for a, b in free if _are_crossed(a, b, first, accepted, question) for hop in (a, b)}
    return sorted({*misplaced, *crossed})


@lru_cache(maxsize=64)
def _earlier_hops(asked: tuple[str, ...]) -> list[frozenset[int]] | None:
    """For each gold hop those that it depends on, all from 0; None where they depend on each other. Kept, as many rows
    are made of one question.
    """
    import networkx as nx  # as in `dependency_graph`

    graph = dependency_graph(Plan(sub_questions=asked))
    if not nx.is_directed_acyclic_graph(graph):
        return None
    return [frozenset(k - 1 for k in nx.ancestors(graph, hop)) for hop in range(1, len(asked) + 1)]


def _places(hop: int, golds: Sequence[str], accepted: Sequence[Step], found: Sequence[Sequence[int]]) -> list[int]:
    """The steps that answer with a hop's answer; those that say it alone, where there are any.

    "ABC, CBS, and NBC" has the answer NBC, too, but not where another step says NBC.
    """
    exact = [place for place, step in enumerate(accepted) if exact_match(step.answer, golds)]
    return exact or [place for place, hops in enumerate(found) if hop in hops]


def _are_crossed(a: int, b: int, first: dict[int, int], accepted: Sequence[Step], question: Question) -> bool:
    """Would the two steps' sub-questions fit the two hops better the other way round?"""
    hops = [subject_words(question.decomposition[hop].question) for hop in (a, b)]
    steps = [subject_words(accepted[first[hop]].sub_question) for hop in (a, b)]
    straight = _overlap(steps[0], hops[0]) + _overlap(steps[1], hops[1])
    return _overlap(steps[0], hops[1]) + _overlap(steps[1], hops[0]) > straight


def _overlap(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / max(1, len(left | right))


def _is_one_of(answer: str, golds: Sequence[str]) -> bool:
    return any(same_answer(answer, gold) for gold in golds)


def _alike(left: Sequence[str], right: Sequence[str]) -> bool:
    return any(_is_one_of(answer, right) for answer in left)
