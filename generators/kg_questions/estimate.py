"""Estimate the highest cost of a run of questions made from a knowledge graph."""

from __future__ import annotations

import math
from pathlib import Path

from trailforge.generators.kg_questions.config import KgQuestionRunConfig
from trailforge.generators.kg_questions.generate import writer_prompt
from trailforge.generators.kg_questions.paths.sampling import PathSampler
from trailforge.generators.kg_questions.paths.shortage import check_any
from trailforge.generators.kg_questions.wording import PROMPTS
from trailforge.pipelines import Estimate, mean_tokens, stage_estimate
from trailforge.pipelines.runs import RunInputs
from trailforge.retrieval.kg import KgStore
from trailforge.schemas import count_tokens

_PATHS = 50
"""Sampled, to see how long their prompts are."""
_QUESTION_TOKENS = 60
"""Of a long question in words."""


def estimate(inputs: RunInputs, config: KgQuestionRunConfig) -> Estimate:
    """Estimate an upper bound: every path is found, and each question reaches the last filter that calls the model."""
    writer, count, prices = config.writer, config.count, config.model.prices
    sampler = PathSampler(KgStore.open(Path(config.kg)), config.paths, config.seed)
    wanted = min(count, _PATHS)
    chains = list(sampler.sample(wanted))
    check_any(next(iter(chains), None), sampler, inputs.options.get("kg", config.kg))
    if len(chains) < wanted:
        # The graph gives out, and how many it has depends on how many are asked for: those are the run's own.
        chains = list(sampler.with_config(config.paths).sample(count))
        count = len(chains)
    draws = count * config.filters.closed_book_samples
    asked = count_tokens(PROMPTS.text("closed_book")) + _QUESTION_TOKENS
    stages = [stage_estimate("closed_book", draws, asked, writer.closed_book_max_tokens, prices)]
    if config.filters.name_described:
        described = sum(len(chain.leading_to(node)) > 1 for chain in chains for node in chain.bridges)
        prompt = count_tokens(PROMPTS.text("name_described")) + _QUESTION_TOKENS
        calls = math.ceil(count * described / len(chains))
        stages.append(stage_estimate("name_described", calls, prompt, writer.check_max_tokens, prices))
    if config.filters.check:
        facts = mean_tokens(["\n".join(fact.triple.text for fact in chain.facts) for chain in chains])
        prompt = count_tokens(PROMPTS.text("check_question")) + _QUESTION_TOKENS + facts
        stages.append(stage_estimate("check", count, prompt, writer.check_max_tokens, prices))
    if writer.kind == "model":
        prompt = mean_tokens([writer_prompt(chain) for chain in chains])
        stages.insert(0, stage_estimate("write", count, prompt, writer.write_max_tokens, prices))
    return Estimate(
        items=count,
        unit="paths",
        sampled=len(chains),
        stages=tuple(stages),
        is_bound=True,
        rests_on="A bound: every reply fills its room, and no question is rejected before the model is asked.",
    )
