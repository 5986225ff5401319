"""Which trajectories of a question are kept: filters, then caps, then what the model that tells them says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from trailforge.filters import FilterConfig, first_rejection, judge_trajectory
from trailforge.filters.trajectories import too_long
from trailforge.generators.mcts_trajectories.generate import Context, asker_for
from trailforge.generators.mcts_trajectories.story import PROMPTS, story_of
from trailforge.generators.mcts_trajectories.thoughts import Doubt, doubtful, write_thoughts
from trailforge.inference import Meter
from trailforge.mcts.reflection import ReflectionConfig
from trailforge.pipelines.life import Chosen
from trailforge.schemas import Question, Trajectory, Verdict

CAP = "cap"


def sift(
    question: Question, candidates: Sequence[Trajectory], filters: FilterConfig, caps: ReflectionConfig
) -> Chosen[Trajectory]:
    """The accepted candidates, in order, and the others with the first verdict against them.

    Filters come before caps: a row that a filter rejects makes room for the next one of its kind.
    """
    accepted: list[Trajectory] = []
    rejected: list[tuple[Trajectory, Verdict]] = []
    for row in candidates:
        verdict = first_rejection([*judge_trajectory(row, question, accepted, filters), over_cap(row, accepted, caps)])
        if verdict is None:
            accepted.append(row)
        else:
            rejected.append((row, verdict))
    return Chosen(accepted, rejected)


def over_cap(row: Trajectory, accepted: Sequence[Trajectory], caps: ReflectionConfig) -> Verdict:
    """The question has rows enough of this kind. Score: how many there are."""
    kind, room = row.reflection_error or row.kind, caps.max_pairs if row.reflection_error else caps.max_correct
    have = sum((other.reflection_error or other.kind) == kind for other in accepted)
    detail = "" if have < room else f"the question has {have} rows of kind {kind}, {room} are wanted"
    return Verdict(keep=have < room, reason=CAP, score=float(have), detail=detail)


async def reword(
    question: Question, rows: Sequence[Trajectory], context: Context, filters: FilterConfig
) -> tuple[list[Trajectory], list[tuple[Trajectory, Verdict]], Meter]:
    """The accepted rows of a question with the model's thoughts where these hold; the rows that the model doubts, with
    that verdict; and what the calls took.

    The first row is told before the others: those that rest on a step that is doubted there are not told at all. A
    row that its thoughts would make too long keeps those it had. A row that is rejected here frees no place: those over
    the cap of its kind, and its duplicates, have been turned away by then.
    """
    if context.config.thoughts.source == "templates":
        return list(rows), [], Meter()
    kept: list[Trajectory] = []
    rejected: list[tuple[Trajectory, Verdict]] = []
    doubts: list[Doubt] = []
    meters: list[Meter] = []
    for told in (rows[:1], rows[1:]):
        known = [(row, doubtful(row, doubts)) for row in told]
        rejected += [(row, verdict) for row, verdict in known if not verdict.keep]
        told = [row for row, verdict in known if verdict.keep]
        own = [Meter() for _ in told]
        written = await asyncio.gather(
            *(_reword_one(question, row, context, meter) for row, meter in zip(told, own, strict=True))
        )
        meters += own
        for row, (new, own_doubts) in zip(told, written, strict=True):
            doubts += own_doubts
            if not (verdict := doubtful(row, own_doubts)).keep:
                rejected.append((new, verdict))
            elif too_long(new, max_tokens=filters.max_tokens, max_tool_calls=filters.max_tool_calls).keep:
                kept.append(new)
            else:
                kept.append(replace(row, provenance=new.provenance))
    return kept, rejected, sum(meters, start=Meter())


async def _reword_one(
    question: Question, row: Trajectory, context: Context, meter: Meter
) -> tuple[Trajectory, list[Doubt]]:
    config = context.config
    prompt, again = PROMPTS.text(config.prompts.thoughts), PROMPTS.text(config.prompts.thoughts_again)
    story, asker = story_of(row, config.reasoning_rows), asker_for(question, context, meter, 1)
    return await write_thoughts(row, story, asker, prompt, again, config.thoughts)
