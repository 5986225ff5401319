"""Choose which trajectories of a question are kept: by filters, then by caps, then by the objections of the model that
words them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from trailforge.filters import FilterConfig, first_rejection, judge_trajectory, too_long
from trailforge.generators.mcts_trajectories.generate import Context, asker_for
from trailforge.generators.mcts_trajectories.telling.doubts import Doubt, doubtful
from trailforge.generators.mcts_trajectories.telling.story import PROMPTS, story_of
from trailforge.generators.mcts_trajectories.telling.thoughts import write_thoughts
from trailforge.inference import Meter
from trailforge.mcts import ReflectionConfig
from trailforge.pipelines import Chosen
from trailforge.schemas import Question, Trajectory, Verdict

CAP = "cap"


def choose_rows(
    question: Question,
    candidates: Sequence[Trajectory],
    filters: FilterConfig,
    caps: ReflectionConfig,
    kept: Sequence[Trajectory] = (),
) -> Chosen[Trajectory]:
    """Return the accepted candidates, in order, and the others each with the first verdict that rejects it.

    Filters come before `caps`, the largest numbers of rows of each kind, so a row that a filter rejects makes room for
    the next one of its kind. `kept` are rows of the question that are accepted already: they count for the caps, and
    near copies of them are rejected.
    """
    accepted = list(kept)
    rejected: list[tuple[Trajectory, Verdict]] = []
    for row in candidates:
        verdict = first_rejection([*judge_trajectory(row, question, accepted, filters), over_cap(row, accepted, caps)])
        if verdict is None:
            accepted.append(row)
        else:
            rejected.append((row, verdict))
    return Chosen(accepted[len(kept) :], rejected)


def over_cap(row: Trajectory, accepted: Sequence[Trajectory], caps: ReflectionConfig) -> Verdict:
    """Reject a row of a kind of which the question has enough. Score: the number of those rows."""
    kind, room = row.reflection_error or row.kind, caps.max_pairs if row.reflection_error else caps.max_correct
    have = sum((other.reflection_error or other.kind) == kind for other in accepted)
    detail = "" if have < room else f"the question has {have} rows of kind {kind}, {room} are wanted"
    return Verdict(keep=have < room, reason=CAP, score=float(have), detail=detail)


async def reword(
    question: Question, chosen: Chosen[Trajectory], context: Context, filters: FilterConfig
) -> tuple[Chosen[Trajectory], Meter]:
    """Have the run's model write the thoughts of the chosen rows, and reject those rows to which it objects; a row
    whose new thoughts do not pass the checks keeps its old ones. Returns the choice, in which further rows may fill the
    gaps, and the calls made: none where the settings take thoughts from templates.
    """
    if context.config.thoughts.source == "templates":
        return chosen, Meter()
    return await choose_worded(
        chosen,
        lambda row, meter: _reword_one(question, row, context, filters, meter),
        lambda rows, kept: choose_rows(question, rows, filters, context.config.reflection, kept),
    )


async def choose_worded(
    chosen: Chosen[Trajectory],
    tell: Callable[[Trajectory, Meter], Awaitable[tuple[Trajectory, list[Doubt]]]],
    choose_beside: Callable[[Sequence[Trajectory], Sequence[Trajectory]], Chosen[Trajectory]],
) -> tuple[Chosen[Trajectory], Meter]:
    """Have a model word each kept row and reject those that it objects to; returns the choice and the calls made.

    `tell` words one row, counts its calls, and returns the row with the model's objections. The first row is worded
    before the others, and rows that share a step to which the model objects there are rejected without a call. A
    rejected row makes room: rows that were rejected as its duplicate, or by the cap of its kind, are considered again.
    `choose_beside` chooses among the rows given first, beside those given second, which are kept.
    """
    kept: list[Trajectory] = []
    doubted: list[tuple[Trajectory, Verdict]] = []
    doubts: list[Doubt] = []
    meters: list[Meter] = []
    waiting, turned_away = chosen
    while waiting:
        before = len(doubted)
        for rows in (waiting[:1], waiting[1:]):
            known = [(row, doubtful(row, doubts)) for row in rows]
            doubted += [(row, verdict) for row, verdict in known if not verdict.keep]
            rows = [row for row, verdict in known if verdict.keep]
            own = [Meter() for _ in rows]
            written = await asyncio.gather(*map(tell, rows, own))
            meters += own
            for row, (told, own_doubts) in zip(rows, written, strict=True):
                doubts += own_doubts
                if (verdict := doubtful(row, own_doubts)).keep:
                    kept.append(told)
                else:
                    doubted.append((told, verdict))
        if len(doubted) == before:
            break
        waiting, turned_away = choose_beside([row for row, _ in turned_away], kept)
    return Chosen(kept, [*turned_away, *doubted]), sum(meters, start=Meter())


async def _reword_one(
    question: Question, row: Trajectory, context: Context, filters: FilterConfig, meter: Meter
) -> tuple[Trajectory, list[Doubt]]:
    """The row in the model's thoughts, and its doubts. One that these would make too long keeps those it had."""
    config = context.config
    prompt, again = PROMPTS.text(config.prompts.thoughts), PROMPTS.text(config.prompts.thoughts_again)
    story, asker = story_of(row, config.reasoning_rows), asker_for(question, context, meter, 1)
    told, doubts = await write_thoughts(row, story, asker, prompt, again, config.thoughts)
    if not too_long(told, max_tokens=filters.max_tokens, max_tool_calls=filters.max_tool_calls).keep:
        told = replace(row, provenance=told.provenance)
    return told, doubts
