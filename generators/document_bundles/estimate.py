"""Estimate the highest cost of a run of bundles."""

from __future__ import annotations

from trailforge.filters.bundle_readings import closed_book_draws, right_draws_needed, smaller_sets
from trailforge.generators.document_bundles.bundling.config import LARGEST
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.drafts import shown_text
from trailforge.generators.document_bundles.search_thoughts import PROMPT, PROMPTS
from trailforge.generators.document_bundles.write import ASKED, HALVES, MEND, REVIEW
from trailforge.inference.judge import default_rubric
from trailforge.pipelines import Estimate, StageEstimate, mean_tokens, sample_valid, stage_estimate
from trailforge.pipelines.runs import RunInputs
from trailforge.pipelines.sources import read_documents
from trailforge.protocols import R_SEARCH
from trailforge.schemas import SourceDocument, count_tokens

_QUESTION_TOKENS = 80
"""Of a long question with its options."""
_MOST_JUDGED = 3
"""Texts of which a judge is shown: question, gold answer and answer."""
_SMALLEST = 2
_CHANCES = (0.0, 0.2, 0.25, 0.5)
"""Of guessing right: an open question, one of five or four options, one of two sides that are named."""
_MOST_CHANCE = 0.25
"""Of guessing the one right option of four."""


def estimate(inputs: RunInputs, config: BundleRunConfig) -> Estimate:
    """Estimate an upper bound: every document is bundled, and every question reaches its episodes. Of bundles of 2 to 4
    documents those count that take the most tokens.
    """
    given = {name: inputs.options.get(name) for name in ("column_map", "source", "kind", "labels")}
    rows = read_documents(inputs.files, **given)
    documents, total = sample_valid(rows, inputs, config.seed, SourceDocument)
    stages: list[StageEstimate] = []
    if config.questions:
        ways = [_stages(documents, total, size, config) for size in range(_SMALLEST, LARGEST + 1)]
        stages = max(ways, key=lambda way: sum(e.usage.prompt_tokens + e.usage.completion_tokens for e in way))
    is_by_rule = config.writer.kind == "steps"
    besides = " Rules that write ask besides what names are, which is not reckoned here." if is_by_rule else ""
    return Estimate(
        items=total,
        unit="documents",
        sampled=len(documents),
        stages=tuple(stages),
        is_bound=not is_by_rule,
        rests_on=f"As if all documents were in bundles, all questions kept, all replies full.{besides}",
    )


def _stages(documents: list[SourceDocument], total: int, size: int, config: BundleRunConfig) -> list[StageEstimate]:
    """Of bundles of so many documents."""
    writer, episodes, prices = config.writer, config.episodes, config.model.prices
    shown = mean_tokens([f"{d.title} {shown_text(d, writer.longest_document)}" for d in documents])
    bundles = total / size
    mends = min(writer.mends, writer.questions_per_bundle) if writer.kind == "model" else 0
    questions = bundles * (writer.questions_per_bundle + mends)
    filters, judge = config.filters, config.judge
    smaller = smaller_sets(documents[:1] * size, leave_one_out=filters.leave_one_out)
    # Questions with options are read most often, until no guesser would have got as far; small models write none.
    draws_of_set = right_draws_needed(_MOST_CHANCE, filters.most_chance) if writer.kind == "model" else 1
    sets = [size] * draws_of_set + [len(part) for part in smaller] * max(draws_of_set, filters.right_reads)
    read = count_tokens(PROMPTS.text("read_documents")) + _QUESTION_TOKENS + shown * sum(sets) / len(sets)
    blind_draws = max(closed_book_draws(chance, filters) for chance in (_CHANCES if writer.kind == "model" else (0.0,)))
    draws = questions * blind_draws
    blind = count_tokens(PROMPTS.text("answer_from_memory")) + _QUESTION_TOKENS
    stages = [
        stage_estimate("read", questions * len(sets), read, writer.read_max_tokens, prices),
        stage_estimate("closed_book", draws, blind, writer.read_max_tokens, prices),
    ]
    if filters.review:
        prompt = count_tokens(PROMPTS.text(REVIEW)) + 2 * _QUESTION_TOKENS + size * shown
        stages.append(stage_estimate("review", questions, prompt, writer.read_max_tokens, prices))
    for is_asked, purpose, name in ((filters.asked, "asked", ASKED), (filters.halves, "halves", HALVES)):
        if is_asked:
            prompt = count_tokens(PROMPTS.text(name)) + 2 * _QUESTION_TOKENS
            stages.append(stage_estimate(purpose, questions, prompt, writer.read_max_tokens, prices))
    if judge.near_misses or judge.free_answers:
        verdict = count_tokens(default_rubric()) + _MOST_JUDGED * _QUESTION_TOKENS
        replies = blind_draws + 1 + len(smaller) * filters.right_reads
        stages.append(stage_estimate("grade", questions * replies, verdict, judge.max_tokens, prices))
    if writer.kind == "model":
        prompt = count_tokens(PROMPTS.text("bundle_questions")) + size * shown
        stages.insert(0, stage_estimate("write", bundles, prompt, writer.write_max_tokens, prices))
        if mends:
            again = prompt + count_tokens(PROMPTS.text(MEND)) + 2 * _QUESTION_TOKENS
            stages.insert(1, stage_estimate("mend", bundles * mends, again, writer.write_max_tokens, prices))
    if episodes.plan == "sampled":
        begin = count_tokens(R_SEARCH.system_prompt + R_SEARCH.user_suffix.strip()) + _QUESTION_TOKENS
        longest = episodes.max_tokens + episodes.thought_tokens
        found = size * episodes.top_k * shown + longest
        drawn = questions * episodes.samples
        stages.append(stage_estimate("plan", drawn, begin, longest, prices))
        stages.append(stage_estimate("answer", drawn, begin + found, longest, prices))
    if episodes.thoughts.source == "model":
        prompt = count_tokens(PROMPTS.text(PROMPT)) + 2 * _QUESTION_TOKENS
        stages.append(stage_estimate("thought", questions, prompt, episodes.thoughts.max_tokens, prices))
    return stages
