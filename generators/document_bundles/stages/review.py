"""Have a draft looked at before readers answer it: by an editor, by somebody who sees the question alone, and of an
explanation by somebody who sees what each document gives to it.

What readers answer measures whether a question can be answered, and from what. They do not tell whether it is worth
asking, and how a person would say it. All three are ours; the paper has two filters, both of answers (R-Search, 3.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trailforge.filters.bundle_readings import BundleFilterConfig, half_answers, unasked_question
from trailforge.filters.bundles import judge_unread, poor_question
from trailforge.generators.document_bundles.drafts import render_documents, render_quotes
from trailforge.generators.document_bundles.search_thoughts import PROMPTS
from trailforge.generators.document_bundles.write import ASKED, HALVES, REVIEW, BundleContext
from trailforge.inference import Meter, Sampling, fill, object_schema
from trailforge.schemas import (
    BundleInput,
    BundleQuestion,
    BundleQuestionType,
    MalformedReply,
    Verdict,
)

NO_FAULT = "none"
FAULTS = ("two_questions", "not_asked", "other_answers", "options_tell", "one_document", "not_said")
REVIEW_SCHEMA = object_schema(
    {
        "why": {"type": "string"},
        "fault": {"type": "string", "enum": [NO_FAULT, *FAULTS]},
        "wording": {"type": "string"},
    }
)
UNASKED = ("no_way_in", "beside_the_point", "loose_frame")
ASKED_SCHEMA = object_schema({"why": {"type": "string"}, "fault": {"type": "string", "enum": [NO_FAULT, *UNASKED]}})
HALVES_SCHEMA = object_schema({"why": {"type": "string"}, "enough": {"type": "integer", "minimum": 0}})
_KINDS: dict[BundleQuestionType, str] = {
    "factual": "a fact is asked for",
    "causal": "an explanation is asked for",
    "single_choice": "one option is right",
    "multiple_choice": "several options are right",
}


async def review_question(
    row: BundleQuestion, item: BundleInput, context: BundleContext, meter: Meter, config: BundleFilterConfig
) -> tuple[BundleQuestion, list[Verdict]]:
    """Return the question as its editor words it, and the verdicts of the reviewers whom the configuration asks (see
    the module), up to the first that rejects. `meter` counts the calls. Raises the kinds of `ProviderError`.
    """
    verdicts: list[Verdict] = []
    if config.review:
        row, verdict = await edit_question(row, item, context, meter, since=config.since)
        verdicts.append(verdict)
    if config.asked and all(verdict.keep for verdict in verdicts):
        verdicts.append(await would_be_asked(row, context, meter))
    if config.halves and row.type == "causal" and all(verdict.keep for verdict in verdicts):
        verdicts.append(await look_at_halves(row, context, meter))
    return row, verdicts


async def edit_question(
    row: BundleQuestion, item: BundleInput, context: BundleContext, meter: Meter, *, since: str | None
) -> tuple[BundleQuestion, Verdict]:
    """Have an editor look at a question beside its bundle's documents, of which those that no hop quotes may say where
    a wrong option is from: return the question as the editor words it, and a verdict.

    A review that cannot be read rejects the question, with the detail `no verdict: …`. A wording that a filter rejects
    is not taken. `since` is the earliest ISO date that the documents may have; None sets none. Raises the kinds of
    `ProviderError`.
    """
    documents = {document.id: document for document in item.documents}
    told = {
        "type": _KINDS[row.type],
        "question": row.asked().text,
        "answer": " | ".join((row.answer, *row.aliases)),
        "quotes": render_quotes(row, item.documents),
        "documents": render_documents(item.documents, context.config.longest_document),
    }
    try:
        found = await _judge(REVIEW, told, REVIEW_SCHEMA, "review", context, meter)
    except MalformedReply as error:
        return row, poor_question(f"no verdict: {error}")
    if found["fault"] != NO_FAULT:
        return row, poor_question(f"{found['fault']}: {found['why'].strip()}")
    edited = replace(row, question=found["wording"].strip() or row.question)
    is_sound = all(verdict.keep for verdict in judge_unread(edited, item.bundle, documents, since=since))
    return edited if is_sound else row, poor_question("")


async def would_be_asked(row: BundleQuestion, context: BundleContext, meter: Meter) -> Verdict:
    """Ask a model whether somebody who has read none of the documents would ask this question.

    Options are not shown: whoever asks has none. A reply that cannot be read rejects the question, with the detail `no
    verdict: …`. Raises the kinds of `ProviderError`.
    """
    told = {"question": row.question, "answer": row.answer}
    try:
        found = await _judge(ASKED, told, ASKED_SCHEMA, "asked", context, meter)
    except MalformedReply as error:
        return unasked_question(f"no verdict: {error}")
    return unasked_question("" if found["fault"] == NO_FAULT else f"{found['fault']}: {found['why'].strip()}")


async def look_at_halves(row: BundleQuestion, context: BundleContext, meter: Meter) -> Verdict:
    """Ask a model whether what one document alone gives to an explanation would content whoever asks for it.

    A reader of one document who gives its half is counted as wrong, since the other half is missing; of a question that
    half answers, that would be a mistake. A reply that cannot be read rejects the question, with the detail `no
    verdict: …`. Raises the kinds of `ProviderError`.
    """
    quotes: dict[str, list[str]] = {}
    for hop in row.hops:
        quotes.setdefault(hop.document_id, []).append(hop.evidence)
    halves = "\n".join(f"[{number}] {' […] '.join(texts)}" for number, texts in enumerate(quotes.values(), start=1))
    try:
        told = {"question": row.question, "halves": halves}
        found = await _judge(HALVES, told, HALVES_SCHEMA, "halves", context, meter)
    except MalformedReply as error:
        return half_answers(f"no verdict: {error}")
    names = dict(enumerate(quotes, start=1))
    enough = names.get(found["enough"])
    return half_answers(f"{enough} alone answers it: {found['why'].strip()}" if enough else "")


async def _judge(
    name: str, told: Mapping[str, str], schema: dict[str, Any], purpose: str, context: BundleContext, meter: Meter
) -> dict[str, Any]:
    """The reply to a prompt, by the sampling of readings."""
    config = context.config
    sampling = Sampling(temperature=config.read_temperature, top_p=config.top_p, max_tokens=config.read_max_tokens)
    prompt = fill(PROMPTS.text(name), **told)
    return await context.asker(meter).json(prompt, schema, purpose=purpose, sampling=sampling)
