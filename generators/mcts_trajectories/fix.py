"""Update the fields that follow from what a person fixed in a trajectory, and check that the row can still be trusted.

Conversation, gold answer and rewards have to say the same. A new question goes into the conversation, a new final
answer into its last turn. What was searched for and found stays, so an answer is taken only when the row's own searches
say it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from trailforge.filters import answer_before_found, malformed_conversation, unrewarded_answer
from trailforge.generators.fixes import check_aliases, check_verdicts
from trailforge.generators.mcts_trajectories.telling.spans import moved_spans, span_problem
from trailforge.generators.mcts_trajectories.telling.story import mismatch, thought_in, with_answer
from trailforge.protocols import REACT
from trailforge.rewards import mcts_reward, mentions, normalize_answer, same_answer, score_by_target
from trailforge.schemas import InvalidInput, Trajectory, count_conversation


def refit(row: Trajectory, old: Trajectory) -> Trajectory:
    """Return the fixed row with its question in the first turn of the conversation, its final answer in the last, and
    its spans, rewards and length made anew. `old` is the row before the fix.
    """
    row = _with_turns(row, old)
    check_verdicts(malformed_conversation(row))
    row = _with_golds(row, old)
    row = replace(row, spans=moved_spans(old.spans, old.messages, row.messages))
    if (row.question, row.final_answer, row.answer) != (old.question, old.final_answer, old.answer):
        row = replace(row, judge_score=None)
    problem = mismatch(row) or next(_rewritten(row, old), "") or (span_problem(row) if old.spans else "")
    if problem:
        raise InvalidInput(
            f"the conversation does not fit the fixed row: {problem}; fix messages, too", field="messages"
        )
    _check_question(row.question, old.question, (row.answer, *row.answer_aliases))
    check_verdicts(unrewarded_answer(row), answer_before_found(row))
    is_judged_right = row.judge_score is not None and old.reward.total > 0
    reward = score_by_target(row.final_answer, (row.answer, *row.answer_aliases), judged_right=is_judged_right)
    tokens = count_conversation(row.messages)
    return replace(row, reward=reward, token_estimate=tokens)


def _with_turns(row: Trajectory, old: Trajectory) -> Trajectory:
    """Question and final answer stand in the conversation, unless its turns were fixed: then these are to say them."""
    if len(row.messages) != len(old.messages):
        raise InvalidInput("no turn can be added or left out: the searches are those of the run", field="messages")
    messages = list(row.messages)
    if messages[1] == old.messages[1]:
        messages[1] = replace(messages[1], content=REACT.user_turn(row.question))
    for number, (new, was) in enumerate(zip(messages, old.messages, strict=True)):
        if was.role != "assistant" and new not in (was, replace(was, content=REACT.user_turn(row.question))):
            problem = f"turn {number} is not the agent's: fix `question`; what a search found stays as it was"
            raise InvalidInput(problem, field="messages")
    final_answer = row.final_answer
    if final_answer == old.final_answer:
        final_answer = REACT.final_answer(messages[-1].content)
    elif messages[-1] == old.messages[-1]:
        messages[-1] = with_answer(messages[-1], final_answer)
    return replace(row, messages=tuple(messages), final_answer=final_answer)


def _with_golds(row: Trajectory, old: Trajectory) -> Trajectory:
    """Aliases of another answer go, unless they were fixed, too. A gold answer is one that the conversation finds."""
    golds = {normalize_answer(gold): gold for gold in (*old.answer_aliases, old.answer)}
    is_new = normalize_answer(row.answer) not in golds
    if is_new and not mcts_reward(row.final_answer, (row.answer,)):
        # As the filter says it: the aliases may still be those of the old answer.
        detail = f"final answer {row.final_answer!r}, gold {row.answer!r}"
        raise InvalidInput(
            f"filter unrewarded_answer rejects it then: {detail}; give another answer, or reject the row",
            field="answer",
        )
    aliases = row.answer_aliases
    if row.answer != old.answer and aliases == old.answer_aliases:
        aliases = tuple(gold for gold in (old.answer, *aliases) if not is_new or same_answer(gold, row.answer))
    check_aliases(aliases)
    return replace(row, answer_aliases=tuple(dict.fromkeys(alias for alias in aliases if alias != row.answer)))


def _rewritten(row: Trajectory, old: Trajectory) -> Iterator[str]:
    """What changed turns of the agent do not say any more, or say too early."""
    golds = [gold for gold in (row.answer, *row.answer_aliases) if not mentions(row.question, gold)]
    for number, (new, was) in enumerate(zip(row.messages, old.messages, strict=True)):
        if new.role != "assistant" or new == was:
            continue
        thought, before, is_last = thought_in(new), thought_in(was), number == len(row.messages) - 1
        for step in row.steps:
            answers = (step.answer, row.final_answer) if is_last and step is row.steps[-1] else (step.answer,)
            if mentions(before, step.answer) and not any(mentions(thought, each) for each in answers):
                yield f"turn {number} does not say {step.answer!r} any more, which a step found"
        early = [gold for gold in golds if mentions(thought, gold)]
        if early and not is_last and not any(mentions(before, gold) for gold in golds):
            yield f"turn {number} says {early[0]!r} before it was found"


def _check_question(question: str, old: str, golds: Sequence[str]) -> None:
    named = [gold for gold in golds if mentions(question, gold) and not mentions(old, gold)]
    if named:
        raise InvalidInput(f"the question names its answer {named[0]!r}; word it without", field="question")
