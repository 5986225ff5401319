"""What a run would take and give, found by rehearsing it: the real search with the real prompts, in a made-up world.

The made-up questions have as many hops as a sample of the run's own, their passages are as long, and the imaginary
model behaves as was counted from recorded runs (`rehearsal.counted`): the packaged model's for the embedded one, a
strong model's for any other. Which questions can be asked is told of the run's own. Loads no Beam.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from trailforge.generators.mcts_trajectories.asking import PURPOSE as WORD
from trailforge.generators.mcts_trajectories.asking import prepare_question
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.rehearsal.counted import share_of
from trailforge.generators.mcts_trajectories.rehearsal.simulate import (
    Yield,
    behaviour_of,
    context_of,
    counted_of,
    search_one,
)
from trailforge.generators.mcts_trajectories.rehearsal.world import ChainModel, make_question
from trailforge.generators.mcts_trajectories.thoughts import PURPOSE
from trailforge.inference import Prices, Reply, Request, Usage
from trailforge.pipelines.estimate import Estimate, StageEstimate, count_tokens, sample_questions, tokens_of_passages
from trailforge.pipelines.runs.intake import RunInputs
from trailforge.schemas import Question

STAGES = (WORD, "judge", "split", "choose", "rephrase", "answer", "grade", PURPOSE)
"""Purposes of calls, in the order in which a search makes them."""

_THOUGHTS_SHARE, _ROOM_FOR_THOUGHTS = 0.1, 1024
"""A reply that is given more room than this thinks first, and takes this share of its room."""
_TURN_TOKENS = 8
"""What a chat template adds to a turn."""
_USUAL_HOPS = 2
_MOST_HOPS = 6
"""More relations than the made-up world can tell apart in one question."""


def estimate(inputs: RunInputs, config: MctsRunConfig) -> Estimate:
    """Calls, tokens, cost and rows, found by rehearsing the search of a sample of the questions."""
    questions, total = sample_questions(inputs, config.seed)
    stages, found = asyncio.run(rehearse(questions, config, total=total))
    factor = total / len(questions)
    return Estimate(
        items=total,
        unit="questions",
        sampled=len(questions),
        stages=tuple(stages),
        rows={kind: round(count * factor) for kind, count in found.rows.most_common()},
        rests_on=_rests_on(config),
    )


def _rests_on(config: MctsRunConfig) -> str:
    counted, behaviour = counted_of(config), behaviour_of(config)
    found, read, redrawn = (f"{share_of(each):.0%}" for each in (behaviour.found, behaviour.read, behaviour.redrawn))
    return (
        f"Rehearsed in a made-up world that behaves as was counted: {counted.source}. There {found} of the searches "
        f"found their passage, {read} of the answers read from it were right, {redrawn} of the repeated draws differed."
        " Your model, questions and corpus will differ."
    )


async def rehearse(
    questions: Sequence[Question], config: MctsRunConfig, *, total: int
) -> tuple[list[StageEstimate], Yield]:
    """Calls, tokens and cost per stage of a run over `total` questions, of which these are a sample; and what the
    searches of the sample gave."""
    behaviour, prices, found = behaviour_of(config), config.model.prices, Yield()
    spent: dict[str, Usage] = defaultdict(Usage)
    words = round(tokens_of_passages(questions))

    def count(request: Request, text: str) -> Reply:
        reply = _counted(request, text)
        usage = Usage(calls=1, prompt_tokens=reply.prompt_tokens, completion_tokens=reply.completion_tokens)
        spent[request.purpose] += usage
        return reply

    for number, question in enumerate(questions):
        hops = min(_MOST_HOPS, len(question.decomposition) or _USUAL_HOPS)
        made_up = make_question(number, config.seed, hops, behaviour, has_gold=bool(question.decomposition))
        context = context_of(config, behaviour, ChainModel(behaviour, made_up, count), words)
        own_paragraphs = config.retrieval.searches_paragraphs and bool(question.paragraphs)
        prepared, _ = await prepare_question(question, context, own_paragraphs=own_paragraphs)
        if prepared.verdict.keep:
            await search_one(made_up, context, config, found)
    factor = total / max(1, len(questions))
    stages = [StageEstimate(stage=name, usage=_scaled(spent[name], factor, prices)) for name in STAGES if name in spent]
    return stages, found


def _counted(request: Request, text: str) -> Reply:
    """The reply with the tokens that it and its prompt would take."""
    is_text = isinstance(request.prompt, str)
    prompt = request.prompt if isinstance(request.prompt, str) else request.prompt[-1].content
    room = request.sampling.max_tokens
    thoughts = int(_THOUGHTS_SHARE * room) if room > _ROOM_FOR_THOUGHTS else 0
    return Reply(
        text=text,
        finish_reason="stop",
        prompt_tokens=count_tokens(prompt) + (0 if is_text else _TURN_TOKENS),
        completion_tokens=min(room, count_tokens(text) + 1 + thoughts),
        key=request.key,
    )


def _scaled(usage: Usage, factor: float, prices: Prices) -> Usage:
    scaled = Usage(
        calls=round(usage.calls * factor),
        prompt_tokens=round(usage.prompt_tokens * factor),
        completion_tokens=round(usage.completion_tokens * factor),
    )
    return replace(scaled, cost=prices.cost(scaled))
