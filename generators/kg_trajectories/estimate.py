"""Estimate the highest cost of a run of KG trajectories."""

from __future__ import annotations

from statistics import fmean

from trailforge.generators.answer_reading import PURPOSE, most_facts
from trailforge.generators.kg_trajectories.config import PROMPTS, KgGeneratorConfig, KgRunConfig
from trailforge.inference import Prices
from trailforge.inference.judge import default_rubric
from trailforge.pipelines import (
    Estimate,
    StageEstimate,
    mean_tokens,
    sample_questions,
    stage_estimate,
    tokens_of_passages,
)
from trailforge.pipelines.runs import RunInputs
from trailforge.protocols import KG_SEARCH
from trailforge.schemas import Question, count_tokens

_CHOICE_TOKENS = 48
_CHOICE_PROMPT_TOKENS = 250


def estimate(inputs: RunInputs, config: KgRunConfig) -> Estimate:
    """Estimate an upper bound: every episode has all turns that it may have."""
    questions, total = sample_questions(
        inputs,
        config.seed,
        needs_paragraphs=config.retrieval.searches_paragraphs,
        needs_decomposition=config.generator.is_led,
    )
    generator, prices = config.generator, config.model.prices
    read = generator.top_k * tokens_of_passages(questions)
    episodes, is_free = total * generator.episodes, generator.style == "free"
    stages = (_free if is_free else _guided)(questions, episodes, generator, prices)
    searches = episodes * (generator.episode.max_turns - 1 if is_free else _hops(questions))
    if is_free and generator.kg_filter == "model":
        offered = generator.kg.limits.max_tokens
        stages.append(stage_estimate("keep_triples", searches, offered, generator.filter_max_tokens, prices))
    if is_free and generator.document_filter == "model":
        stages.append(stage_estimate("keep_documents", searches, read, generator.filter_max_tokens, prices))
    if not is_free:
        prompt = read + count_tokens(PROMPTS.text(generator.prompts.answer))
        stages.append(stage_estimate("read", searches, prompt, generator.reading.max_tokens, prices))
    if generator.judge.near_misses:
        prompt = count_tokens(default_rubric()) + mean_tokens([question.question for question in questions])
        stages.append(stage_estimate("grade", episodes, prompt, generator.judge.max_tokens, prices))
    asked, replies = count_tokens(PROMPTS.text(generator.prompts.read_fact)), generator.reading.max_tokens
    if generator.answer_check != "off":
        # Of every episode, with all it has read: where one does not state its answer, another is read in its place.
        facts = episodes * most_facts(questions)
        stages.append(stage_estimate(PURPOSE, facts, asked + generator.episode.max_tokens, replies, prices))
    if generator.self_check != "off":
        checked = searches * min(1.0, config.selection.most / generator.episodes)
        stages.append(stage_estimate("self_check", checked, asked + read, replies, prices))
    return Estimate(
        items=total,
        unit="questions",
        sampled=len(questions),
        stages=tuple(stages),
        is_bound=True,
        rests_on=f"A bound: {generator.episodes} episodes of a question, each with all the turns that it may have.",
    )


def _free(
    questions: list[Question], episodes: int, generator: KgGeneratorConfig, prices: Prices
) -> list[StageEstimate]:
    """Every turn is given all that the episode may hold."""
    episode = generator.episode
    begin = count_tokens(KG_SEARCH.system_prompt + KG_SEARCH.user_suffix) + mean_tokens([q.question for q in questions])
    reply = min(episode.sampling.max_tokens, episode.max_tokens / episode.max_turns)
    prompt = begin + episode.max_tokens
    return [stage_estimate("turn", episodes * episode.max_turns, prompt, reply, prices)]


def _guided(
    questions: list[Question], episodes: int, generator: KgGeneratorConfig, prices: Prices
) -> list[StageEstimate]:
    """Names and a relation are chosen for every hop."""
    choices = 2 * episodes * min(_hops(questions), generator.episode.max_turns)
    return [stage_estimate("choose", choices, _CHOICE_PROMPT_TOKENS, _CHOICE_TOKENS, prices)]


def _hops(questions: list[Question]) -> float:
    """That are searched for in a gold decomposition."""
    return fmean(min(len(question.decomposition), question.hop_count or 0) for question in questions)
