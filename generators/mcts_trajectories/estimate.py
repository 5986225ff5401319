"""Estimate a run's calls and rows by rehearsing it: the real search with the real prompts, in a simulated world.

The made-up questions have as many hops as a sample of the run's own, their passages are as long, and the imaginary
model behaves as was counted from recorded runs (`rehearsal.counted`): the packaged model's for the embedded one, a
strong model's for any other. Which questions can be asked is told of the run's own. Loads no Beam.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from trailforge.generators.mcts_trajectories.asking import PURPOSE as WORD
from trailforge.generators.mcts_trajectories.asking import prepare_question
from trailforge.generators.mcts_trajectories.choice import choose_rows, reword
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.generate import Context, generate
from trailforge.generators.mcts_trajectories.rehearsal.counted import (
    Behaviour,
    Counted,
    add_behaviours,
    read_counted,
    share_of,
)
from trailforge.generators.mcts_trajectories.rehearsal.world import ChainModel, Engines, make_question
from trailforge.generators.mcts_trajectories.telling.thoughts import PURPOSE
from trailforge.inference import Prices, Reply, Request, Usage
from trailforge.pipelines import Estimate, StageEstimate, sample_questions, tokens_of_passages
from trailforge.pipelines.runs import EMBEDDED, RunInputs
from trailforge.schemas import Question, Trajectory, count_tokens

STAGES = (WORD, "judge", "split", "choose", "rephrase", "answer", "grade", PURPOSE)
"""Purposes of calls, in the order in which a search makes them."""

_THOUGHTS_SHARE, _ROOM_FOR_THOUGHTS = 0.1, 1024
"""A reply that is given more room than this thinks first, and takes this share of its room."""
_TURN_TOKENS = 8
"""What a chat template adds to a turn."""
_USUAL_HOPS = 2
_MOST_HOPS = 6
"""More relations than the made-up world can tell apart in one question."""


@dataclass(slots=True)
class Yield:
    """Sums over searched questions: their calls, their rows, and for what reasons their searches ended."""

    questions: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    """Number of calls by purpose."""
    rows: Counter[str] = field(default_factory=Counter)
    """Number of accepted rows by kind."""
    origins: Counter[str] = field(default_factory=Counter)
    """Number of accepted rows by the origin of the plan that they follow."""
    provoked: int = 0
    """Number of accepted rows whose error was provoked."""
    stops: Counter[str] = field(default_factory=Counter)

    @property
    def calls_a_row(self) -> float:
        """Return the number of calls, of all purposes, for each accepted row."""
        return self.calls.total() / max(1, self.rows.total())

    def add(self, rows: Sequence[Trajectory], calls: Mapping[str, int], stop: str) -> None:
        """Add one question by its accepted rows, its calls by purpose, and `stop`, the reason for which its search
        ended.
        """
        self.questions += 1
        self.calls.update(calls)
        self.rows.update(row.reflection_error or "correct" for row in rows)
        self.origins.update(row.origin for row in rows)
        self.provoked += sum(row.error_source == "provoked" for row in rows)
        self.stops[stop] += 1


def estimate(inputs: RunInputs, config: MctsRunConfig) -> Estimate:
    """Estimate calls, tokens, cost and rows by rehearsing the search of a sample of the questions."""
    questions, total = sample_questions(inputs, config.seed, needs_paragraphs=config.retrieval.searches_paragraphs)
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
    found, read, unstable = (f"{share_of(each):.0%}" for each in (behaviour.found, behaviour.read, behaviour.unstable))
    return (
        f"Rehearsed in a made-up world that behaves as was counted: {counted.source}. There {found} of the searches "
        f"found their passage, {read} of the answers read from it were right, {unstable} of the prompts that were "
        "asked again had another answer. Your model, questions and corpus will differ."
    )


async def rehearse(
    questions: Sequence[Question], config: MctsRunConfig, *, total: int
) -> tuple[list[StageEstimate], Yield]:
    """Return calls, tokens and cost by stage of a run over `total` questions, of which these are a sample, and what the
    sample's searches yielded.
    """
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


# Searches of the made-up world


def counted_of(config: MctsRunConfig) -> Counted:
    """Return the counts of the recorded runs that are most similar to a run with this configuration: the packaged
    model's, or a strong one's.
    """
    if config.model.url == EMBEDDED:
        return read_counted("embedded")
    return read_counted("strong_corpus" if config.retrieval.scope == "corpus" else "strong")


def behaviour_of(config: MctsRunConfig) -> Behaviour:
    """Return how often each thing went wrong in the recorded runs that `counted_of` chooses. A strong model's
    objections to rows, which are rare, are counted in all its runs, since they do not depend on what was searched.
    """
    behaviour = counted_of(config).behaviour()
    if config.model.url == EMBEDDED:
        return behaviour
    strong, in_corpus = (read_counted(name).behaviour() for name in ("strong", "strong_corpus"))
    told = add_behaviours(strong, in_corpus)
    return replace(behaviour, unsupported=told.unsupported, stated_mistakes=told.stated_mistakes)


def context_of(config: MctsRunConfig, behaviour: Behaviour, model: ChainModel, words: int = 0) -> Context:
    """Return what the questions of a rehearsal share: a run's settings, with this simulated model and a simulated
    search engine whose passages have at least `words` words.
    """
    return Context(
        run_id="rehearsal",
        model="chains",
        seed=config.seed,
        prices=Prices(),
        config=config.generator,
        client=model,
        retrieval=Engines(behaviour, words),
    )


async def search_one(question: Question, context: Context, config: MctsRunConfig, total: Yield) -> int:
    """Search a question as a run does, and add it to `total`; returns the calls of the search itself, without those
    that word its rows. The context's model must be a `ChainModel` that was not called yet.
    """
    caps, filters = config.generator.reflection, config.filters
    made = await generate(question, context, choose=lambda rows: choose_rows(question, rows, filters, caps))
    told, _ = await reword(question, made.chosen, context, filters)
    client = context.client
    assert isinstance(client, ChainModel), "it counts its calls"
    total.add(told.kept, Counter(client.purposes), made.tree.stop_reason)
    return made.tree.calls
