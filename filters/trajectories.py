"""Reasons to reject a trajectory. `judge_trajectory` applies all filters in order; the first that rejects gives the
reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trailforge.filters.base import count_faults, mentions_any, reject_malformed, reject_too_long
from trailforge.filters.gold_hops import (
    follows_gold,
    gold_wording,
    hops_found,
    misplaced_hops,
    missed_hop,
    own_hop,
    unfound_hops,
)
from trailforge.filters.grounding import CHOICE, given_answers, is_grounded, says, shown_at, why_ungrounded
from trailforge.filters.ways.silent import judge_silence
from trailforge.filters.ways.twins import is_reworded
from trailforge.filters.ways.way import way_of_trajectory
from trailforge.mcts import normalized, references
from trailforge.protocols import REACT
from trailforge.rewards import mcts_reward, mentions, normalize_answer, same_answer
from trailforge.schemas import ErrorType, Passage, Question, Step, Trajectory, Verdict

Scope = Literal["off", "oracle", "oracle_and_rule"]
"""Plans whose intermediate answers are compared with the gold decomposition: none, those made from it, or those from
code rules too.

A policy model may take another road to the answer, over other facts.
"""

_ORIGINS: dict[Scope, tuple[str, ...]] = {
    "off": (),
    "oracle": ("oracle",),
    "oracle_and_rule": ("oracle", "rule"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterConfig:
    """Which filters a trajectory must pass, with their limits."""

    max_tokens: int = 16384
    """Most tokens of a trajectory, as `count_tokens` counts them (the paper trains on 16k, section 4.4)."""
    max_tool_calls: int = 10
    """Most searches of a trajectory, as in the paper's RL stage (section 4.4)."""
    grounded: bool = True
    """Whether every accepted answer has to follow from a passage of its step, or from the answers before it."""
    intermediate_answers: Scope = "oracle"
    """For which plans the intermediate answers are compared with the gold decomposition."""
    every_hop: bool = False
    """Whether every hop of the gold decomposition, where it is known, has to be found, one step each: no shortcut, and
    no other road to the answer.
    """


def judge_trajectory(
    row: Trajectory, question: Question, earlier: Sequence[Trajectory], config: FilterConfig
) -> list[Verdict]:
    """Return every filter's verdict on one trajectory. `earlier` are the accepted rows of its question before
    this one.
    """
    verdicts = [unrewarded_answer(row), unresolved_reference(row), malformed_conversation(row)]
    if config.grounded:
        verdicts.append(ungrounded_step(row))
    verdicts += [
        answer_before_found(row),
        wrong_intermediate(row, question, scope=config.intermediate_answers),
        hops_out_of_order(row, question),
        undue_reflection(row, question),
        evidence_was_there(row),
        circular_step(row),
        same_twice(row),
        *judge_silence(way_of_trajectory(row)),
        redundant_search(row, question),
        duplicate_trajectory(row, earlier),
        too_long(row, max_tokens=config.max_tokens, max_tool_calls=config.max_tool_calls),
    ]
    if config.every_hop:
        verdicts.append(missing_hop(row, question))
    return verdicts


def unrewarded_answer(row: Trajectory) -> Verdict:
    """Reject a final answer that the reward of the rollout calls wrong. Score: that reward, 1.0 or 0.0. Where a judge
    was asked, the row's own reward includes its score.
    """
    score = mcts_reward(row.final_answer, (row.answer, *row.answer_aliases))
    if row.judge_score is not None:
        score = max(score, row.reward.total)
    detail = "" if score else f"final answer {row.final_answer!r}, gold {row.answer!r}"
    return Verdict(keep=score > 0, reason="unrewarded_answer", score=score, detail=detail)


def unresolved_reference(row: Trajectory) -> Verdict:
    """Reject a trajectory that searches for `#k`, the placeholder for the answer of step k, or whose placeholder was
    replaced by nothing. Score: the number of such queries.
    """
    bad = [step.query for step in row.steps if references(step.query) or not step.passages]
    return count_faults("unresolved_reference", bad, lambda query: f"query {query!r}")


def malformed_conversation(row: Trajectory) -> Verdict:
    """Reject a conversation that breaks the grammar of its protocol. Score: how many of its rules are broken."""
    return reject_malformed(REACT.validate(row.messages, strict=True))


def ungrounded_step(row: Trajectory) -> Verdict:
    """Reject a trajectory with an accepted answer that follows from nothing that was read. Score: the share of accepted
    answers that do follow.

    By `filters.grounding` a passage has to state the answer and be about what was asked, or the answer follows from
    earlier ones. Rows without that teach an agent to invent answers. The paper lets the model fall back on its own
    knowledge; we do not. A mistake may come from memory, since the row shows it as a mistake. Where the last answer
    says a gold answer in more words, it is enough that a passage states the gold answer.
    """
    accepted = _accepted(row)
    last = accepted[-1].answer if accepted else ""
    covered = [gold for gold in (row.answer, *row.answer_aliases) if mcts_reward(last, (gold,))]
    ungrounded = [
        step
        for place, step in enumerate(accepted)
        if not is_grounded(step, accepted[:place], covered if place == len(accepted) - 1 else ())
    ]
    score = 1 - len(ungrounded) / len(accepted) if accepted else 0.0
    detail = f"{why_ungrounded(ungrounded[0])} ({ungrounded[0].query!r})" if ungrounded else ""
    return Verdict(keep=not ungrounded, reason="ungrounded_step", score=score, detail=detail)


def answer_before_found(row: Trajectory) -> Verdict:
    """Reject a trajectory in which the agent writes the gold answer before it has found it.

    Score: how many texts mention it too early. The agent's own words count (plans, sub-questions, queries, earlier
    answers), not the passages; what stands in the question does not count as leaked.
    """
    golds = [gold for gold in (row.answer, *row.answer_aliases) if not mentions(row.question, gold)]
    leaks = [text for text in _texts_before_finding(row, golds) if mentions_any(text, golds)]
    return count_faults("answer_before_found", leaks, lambda text: f"too early in {text!r}")


def wrong_intermediate(row: Trajectory, question: Question, *, scope: Scope) -> Verdict:
    """Reject a right answer that is reached over a wrong intermediate one.

    Score: how many intermediate answers match no gold hop. A step that asks a gold hop's very question has to answer as
    that hop does. `scope` names the kinds of plans of which more is asked: there every other accepted answer before the
    last has to be that of a gold hop, too, each of a different one. With `off`, or without a gold decomposition, all
    rows are kept.
    """
    if not question.decomposition or scope == "off":
        return count_faults("wrong_intermediate", [], str)
    return count_faults("wrong_intermediate", _without_hop(row, question, row.origin in _ORIGINS[scope]), str)


def hops_out_of_order(row: Trajectory, question: Question) -> Verdict:
    """Reject a trajectory that finds answers of gold hops in the wrong order. Score: the number of such hops.

    A hop's answer must come after those that it refers to, whatever the plan: "CBS, so NBC, so February 7" is a wrong
    chain where the hops are NBC, CBS, February 7, though each answer is a hop's. Answers of no hop, and hops that are
    not found, belong to another decomposition and are no fault.
    """
    misplaced = [question.decomposition[hop] for hop in misplaced_hops(row.steps, question)]
    return count_faults(
        "hops_out_of_order", misplaced, lambda hop: f"{hop.answer!r} is not found where {hop.question!r} is answered"
    )


def undue_reflection(row: Trajectory, question: Question) -> Verdict:
    """Reject a trajectory that takes back a "mistake" which was a right answer.

    Score: how many of the mistakes were right. A wordy answer that holds the mended one is right too ("It was built by
    Volkswagen", mended to "Volkswagen"). Where the gold decomposition is known: under the gold plan the step's own hop
    decides; a step of a plan that is given up must not hold the answer of any hop that was still to be found, for then
    the plan was not at fault there.
    """
    undue = [
        step.answer
        for step, mended in zip(row.steps, row.steps[1:], strict=False)
        if step.is_mistake
        and any(
            same_answer(step.answer, right) or mentions(step.answer, right)
            for right in _right_answers(row, question, step, mended)
        )
    ]
    return count_faults("undue_reflection", undue, lambda answer: f"{answer!r} is a right answer")


def evidence_was_there(row: Trajectory) -> Verdict:
    """Reject a trajectory that blames a search for a mistake (`retrieval`) although a passage of that search held the
    right answer.

    Score: how many passages did. Such a row searches again for what the first search had already brought, and teaches
    doubt in good results.
    """
    holding: list[str] = []
    if row.reflection_error == "retrieval":
        mistake = next(i for i, step in enumerate(row.steps) if step.is_mistake)
        answer = row.steps[mistake + 1].answer
        holding = [p.title for p in row.steps[mistake].passages if mentions(f"{p.title}. {p.text}", answer)]
    return count_faults("evidence_was_there", holding, lambda title: f"{title!r} was among the first results")


def circular_step(row: Trajectory) -> Verdict:
    """Reject a trajectory with a step whose answer is what it was given: "Who is Chinua Achebe born?", Chinua Achebe.

    Score: how many accepted steps do this. Such a step only repeats the answer that it refers to; the plan behind it
    asks for nothing there. A choice between the things named ("Which is older, #1 or #2?") is no such step.
    """
    accepted = _accepted(row)
    answers = {step.index: step.answer for step in accepted}
    circular = [step for step in accepted if _repeats(step, answers)]
    return count_faults("circular_step", circular, lambda step: f"{step.query!r} is answered with {step.answer!r}")


def same_twice(row: Trajectory) -> Verdict:
    """Reject a trajectory with a query that names one thing where two are meant: "Which is older, Clemson or Clemson?".
    Score: the number of such queries of accepted steps.

    Two references of its sub-question were filled with the same answer, so that there is nothing to choose, compare or
    join; whatever is answered was not found by asking it.
    """
    accepted = _accepted(row)
    twice = [step for place, step in enumerate(accepted) if _is_given_twice(step, accepted[:place])]
    return count_faults("same_twice", twice, lambda step: f"{step.query!r} names the same thing twice")


def redundant_search(row: Trajectory, question: Question) -> Verdict:
    """Reject a trajectory with a step that searches for what has been shown. Score: how many accepted steps do.

    A step is redundant when the first passage that supports its answer was shown before its turn, so that nothing was
    left to be looked up. Not redundant are the steps of a plan that is exactly the gold hops, though a passage for one
    may come along before it is looked for; answers that follow from earlier ones, which no passage has to support; and
    a search that mends a mistake and brings passages of the failed one again, unless it is the same query under another
    plan.
    """
    is_straight = bool(follows_gold(row.steps, question))
    again = [step for place, step in enumerate(row.steps) if not is_straight and _is_redundant(row, place)]
    return count_faults("redundant_search", again, lambda step: f"{step.query!r} finds only what was shown before")


def duplicate_trajectory(row: Trajectory, earlier: Sequence[Trajectory]) -> Verdict:
    """Reject a trajectory that repeats an earlier one of its question: of the same kind, with the same finds and
    answers. Score: how many earlier ones it repeats.

    What a search finds counts, not its wording or order, nor passages without the answer that come with it. For a
    search that the row blames as a mistake (`retrieval`) all passages count. Of the last step only the passages count,
    as its answer is right in either trajectory.
    """
    same = [other for other in earlier if _are_alike(other, row)]
    return count_faults("duplicate_trajectory", same, lambda other: f"same as {other.uid}")


def too_long(row: Trajectory, *, max_tokens: int, max_tool_calls: int) -> Verdict:
    """Reject a trajectory that is too long to train on, or has more searches than the agent may make.

    Score: the estimated number of tokens.
    """
    return reject_too_long(row.token_estimate, max_tokens, row.num_tool_calls, max_tool_calls)


def missing_hop(row: Trajectory, question: Question) -> Verdict:
    """Reject a trajectory that leaves out a hop of the gold decomposition. Score: the share of hops that are found; 1.0
    where no decomposition is known.

    Such a row answers in one step what takes two, or takes another path. That may be sound if what is read shows it
    (`ungrounded_step`), but with a weak model a chain of reasoning cannot be told from a lucky guess.
    `FilterConfig.every_hop` rejects such rows.
    """
    missing = [question.decomposition[hop] for hop in unfound_hops(row.steps, question)]
    detail = f"no step finds {missing[0].answer!r} ({missing[0].question!r})" if missing else ""
    hops = len(question.decomposition)
    score = 1 - len(missing) / hops if hops else 1.0
    return Verdict(keep=not missing, reason="missing_hop", score=score, detail=detail)


def _accepted(row: Trajectory) -> list[Step]:
    return [step for step in row.steps if not step.is_mistake]


def _texts_before_finding(row: Trajectory, golds: list[str]) -> Iterator[str]:
    """The plans, and sub-question and query of each step up to the one whose answer mentions a gold answer."""
    yield from row.plan
    yield from row.wrong_plan or ()
    for step in row.steps:
        yield step.sub_question
        yield step.query
        if step.is_mistake:
            yield step.answer
        elif mentions_any(step.answer, golds):
            return


def _without_hop(row: Trajectory, question: Question, every_answer: bool) -> list[str]:
    """What is wrong with the answers before the last: those not of their own hop, and, if `every_answer` counts, those
    that no hop is left for."""
    accepted = _accepted(row)
    wording = gold_wording(row)
    before = list(zip(accepted, hops_found(accepted, question), strict=True))[:-1]
    own = [own_hop(step, question, wording) for step, _ in before]
    left = [hop for hop in range(len(question.decomposition)) if hop not in own]
    wrong = []
    for (step, hops), asked in zip(before, own, strict=True):
        if asked is not None:
            if asked not in hops and missed_hop(step, question, wording) is not None:
                gold = question.decomposition[asked].answer
                wrong.append(f"{step.answer!r} is not the answer of its gold hop, {gold!r}")
            continue
        hop = next((hop for hop in left if hop in hops), None)
        if hop is not None:
            left.remove(hop)
        elif every_answer:
            wrong.append(f"{step.answer!r} is the answer of no gold hop, or of one found before")
    return wrong


def _right_answers(row: Trajectory, question: Question, step: Step, mended: Step) -> list[str]:
    hops = question.decomposition
    if row.reflection_error == "decomposition":
        found = [earlier.answer for earlier in row.steps[: row.steps.index(step)]]
        left = [hop.answer for hop in hops if not any(same_answer(answer, hop.answer) for answer in found)]
        return [*left, *question.golds]
    hop = own_hop(step, question, gold_wording(row))
    return [mended.answer, *([] if hop is None else [hops[hop].answer])]


def _repeats(step: Step, answers: dict[int, str]) -> bool:
    if CHOICE.search(step.sub_question):
        return False
    given = {normalize_answer(answers.get(number - 1, "")) for number in references(step.sub_question)}
    return normalize_answer(step.answer) in given - {""}


def _is_given_twice(step: Step, earlier: Sequence[Step]) -> bool:
    given = [normalize_answer(answer) for answer in given_answers(step, earlier)]
    return len(set(given)) < len(given)


def _are_alike(row: Trajectory, other: Trajectory) -> bool:
    """Steps before the last may have been taken in another order."""
    if row.reflection_error != other.reflection_error or len(row.steps) != len(other.steps):
        return False
    (*steps, last), (*left, other_last) = row.steps, other.steps
    for step in steps:
        twin = next((each for each in left if _shows_the_same(step, each, row.reflection_error)), None)
        if twin is None:
            return False
        left.remove(twin)
    return _finds_the_same(last, other_last)


def _shows_the_same(step: Step, other: Step, error: ErrorType | None) -> bool:
    if step.is_mistake and error == "retrieval":
        return other.is_mistake and _ids(step.passages) == _ids(other.passages)
    return _finds_the_same(step, other) and same_answer(step.answer, other.answer)


def _finds_the_same(step: Step, other: Step) -> bool:
    """The same passages, or those that say the answer are the same, by either's words for it. Of a query in other words
    one of these suffices."""
    if step.is_mistake != other.is_mistake:
        return False
    one, two = (
        _ids(p for p in each.passages if says(p, step.answer) or says(p, other.answer)) for each in (step, other)
    )
    is_one_find = _ids(step.passages) == _ids(other.passages) or (bool(one) and one == two)
    return is_one_find or (bool(one & two) and is_reworded(step.query, other.query))


def _ids(passages: Iterable[Passage]) -> frozenset[str]:
    return frozenset(passage.id for passage in passages)


def _is_redundant(row: Trajectory, place: int) -> bool:
    step, before = row.steps[place], row.steps[:place]
    if before and before[-1].is_mistake and not step.is_mistake:
        return row.reflection_error == "decomposition" and normalized(step.query) == normalized(before[-1].query)
    return shown_at(row.steps, place) is not None
