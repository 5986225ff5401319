"""Estimate the highest cost of a run of agent trajectories."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

from trailforge.generators.agent_trajectories.config import (
    FROM_MEMORY,
    OPEN_BRANCHES,
    PROMPTS,
    AgentGeneratorConfig,
    AgentRunConfig,
)
from trailforge.generators.agent_trajectories.rereading import READ_BRANCHES
from trailforge.generators.answer_reading import PROMPT as READ_FACT
from trailforge.generators.answer_reading import PURPOSE, most_facts
from trailforge.inference.judge import default_rubric
from trailforge.pipelines import Estimate, mean_tokens, sample_questions, stage_estimate, tokens_of_passages
from trailforge.pipelines.runs import RunInputs
from trailforge.protocols import PROTOCOLS
from trailforge.protocols.browse import WORDS, read_rule
from trailforge.schemas import count_tokens

_PART, _TURN = 1400, 250
"""Tokens of a part of a page, at 1,000 words, and of a turn that thinks shortly and makes a call."""
_CITED = 10
"""Parts that an answer cites, of which it is read once more whether they say it."""
_CACHE_NOTE = (
    " Prompts are reckoned by the results and turns before them; what the turn before has read already counts at the "
    "price of cached tokens (model.cached_price_per_million), where a server says that it keeps them."
)
_CHANNELS = 2
"""Number of channels of an agent that decomposes a question twice: for texts and for triples."""


def estimate(inputs: RunInputs, config: AgentRunConfig) -> Estimate:
    """Estimate an upper bound: every draw makes all calls that it may make, and the model knows no question from
    memory."""
    questions, total = sample_questions(inputs, config.seed, needs_paragraphs=config.retrieval.searches_paragraphs)
    generator, prices = config.generator, config.model.prices
    asked = mean_tokens([question.question for question in questions])
    read = generator.top_k * tokens_of_passages(questions)
    calls = total * generator.draws * calls_of(generator)
    prompt, cached = asked + getattr(generator.numbers, "max_tokens", read), 0.0
    if generator.browses:
        prompt, cached = prompts_of_calls(generator.numbers, asked)
    stages = [stage_estimate("draw", calls, prompt, longest_reply(generator.numbers), prices, cached=cached)]
    memory = total * generator.memory.draws
    without = asked + count_tokens(PROMPTS.text(FROM_MEMORY))
    stages.append(stage_estimate(FROM_MEMORY, memory, without, generator.memory.max_tokens, prices))
    if generator.answer_check != "off":
        # Of every draw, with all it has read: where one does not state its answer, another is read in its place.
        facts = total * generator.draws * most_facts(questions)
        given = (_CITED * _PART if generator.browses else prompt) + count_tokens(PROMPTS.text(READ_FACT))
        stages.append(stage_estimate(PURPOSE, facts, given, generator.answer_check_max_tokens, prices))
    if generator.branch_check != "off" and not generator.browses:
        given = prompt + count_tokens(PROMPTS.text(OPEN_BRANCHES))
        limit = generator.answer_check_max_tokens
        stages.append(stage_estimate(READ_BRANCHES, total * generator.draws, given, limit, prices))
    if generator.judge.near_misses:
        judged = total * min(generator.draws, generator.max_judged)
        stages.append(
            stage_estimate("grade", judged, asked + count_tokens(default_rubric()), generator.judge.max_tokens, prices)
        )
    if "model" in (generator.document_filter, generator.kg_filter if config.kg else ""):
        stages.append(stage_estimate("keep", 2 * calls, read, generator.filter_max_tokens, prices))
    return Estimate(
        items=total,
        unit="questions",
        sampled=len(questions),
        stages=tuple(stages),
        is_bound=True,
        rests_on=f"A bound: {generator.draws} draws on a question, each with all the calls that it may make, and all "
        f"{generator.memory.draws} answers from memory.{_CACHE_NOTE if generator.browses else ''}",
    )


def calls_of(generator: AgentGeneratorConfig) -> int:
    """Return the most calls that an episode can make within its agent's limits."""
    numbers = generator.numbers
    if generator.browses:
        return 1 + numbers.max_calls  # one call in a turn, and the answer
    if protocol := generator.declared.protocol:
        searches = PROTOCOLS[protocol].num_searches
        return 1 + (numbers.max_searches if searches is None else searches)
    if hasattr(numbers, "max_turns"):  # and a call reads what each search has found
        return numbers.max_turns + numbers.max_searches
    if hasattr(numbers, "max_sub_queries"):
        # A channel reads, decomposes, reads and answers each sub-query; a round drafts, verifies, expands and reads.
        rounds = numbers.max_rounds * (3 + numbers.max_expanded)
        return 1 + _CHANNELS * (2 + 2 * numbers.max_sub_queries + rounds)
    return 1


def prompts_of_calls(numbers: Any, asked: float) -> tuple[float, float]:
    """Return the mean number of prompt tokens of an episode that makes all its calls, and how many of these the server
    has cached from the turn before. `numbers` are the agent's settings, `asked` is the mean number of tokens of a
    question.

    A result counts as a part of a page, and a turn as a short thought with a call, until the context is full. What is
    removed or summarised from the context is read again.
    """
    rule, most = read_rule(numbers.context), numbers.max_tokens - numbers.turn_tokens
    opening, grown = asked + count_tokens(WORDS), _PART + _TURN
    if rule.kind == "newest":
        prompts = [min(most, opening + turn * _TURN + min(turn, rule.number + rule.at_once) * _PART)
                   for turn in range(numbers.max_calls + 1)]  # fmt: skip
        anew = rule.at_once
    elif rule.kind == "summary":
        anew = max(1, math.ceil(rule.number / grown))
        prompts = [min(most, opening + numbers.turn_tokens + turn % anew * grown)
                   for turn in range(numbers.max_calls + 1)]  # fmt: skip
    else:
        prompts = [min(most, opening + turn * grown) for turn in range(numbers.max_calls + 1)]
        anew = len(prompts) + 1
    cached = [before if turn % anew else 0.0 for turn, before in enumerate(prompts[:-1], start=1)]
    return fmean(prompts), sum(cached) / len(prompts)


def longest_reply(numbers: Any) -> int:
    """Return the number of tokens of the longest reply of an agent with these settings, including a reasoning model's
    thoughts.
    """
    limits = [getattr(numbers, name, 0) for name in ("turn_tokens", "answer_tokens", "step_tokens")]
    return max(limits) + getattr(numbers, "thought_tokens", 0)
