"""An editor's look at a question before readers answer it: would somebody ask it, is it one question, is it said well?

What readers answer measures whether a question can be answered, and from what. Whether it is worth asking, and how
somebody would say it, they do not tell. Ours; the paper has two filters, both of answers (R-Search, 3.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trailforge.filters.bundles import judge_unread, poor_question
from trailforge.generators.document_bundles.search_thoughts import PROMPTS
from trailforge.generators.document_bundles.write import BundleContext, render_documents, render_question
from trailforge.inference import ChatTurn, Meter, Request, Sampling, ask_json
from trailforge.inference.asker import fill
from trailforge.schemas import BundleInput, BundleQuestion, MalformedReply, SourceDocument, Verdict

PROMPT = "review_question"
NO_FAULT = "none"
FAULTS = ("two_questions", "not_asked", "other_answers", "one_document", "not_said")
SCHEMA = {
    "type": "object",
    "properties": {
        "why": {"type": "string"},
        "fault": {"type": "string", "enum": [NO_FAULT, *FAULTS]},
        "wording": {"type": "string"},
    },
    "required": ["why", "fault", "wording"],
    "additionalProperties": False,
}
_KINDS = {
    "factual": "a fact is asked for",
    "causal": "an explanation is asked for",
    "single_choice": "one option is right",
    "multiple_choice": "several options are right",
}


def render_quotes(row: BundleQuestion, documents: Sequence[SourceDocument]) -> str:
    """The evidence of each hop, with the number of its document."""
    numbers = {document.id: number for number, document in enumerate(documents, start=1)}
    return "\n".join(f"- [{numbers[hop.document_id]}] {hop.evidence}" for hop in row.hops)


async def edit_question(
    row: BundleQuestion, item: BundleInput, context: BundleContext, meter: Meter, *, since: str | None
) -> tuple[BundleQuestion, Verdict]:
    """The question as the editor words it, for readers to measure, and whether anything is wrong with it.

    A review that cannot be read shows nothing: `no verdict: …`. A wording that a filter rejects is left out. Raises
    the kinds of `ProviderError`.
    """
    documents = {document.id: document for document in item.documents}
    used = [documents[name] for name in dict.fromkeys(hop.document_id for hop in row.hops)]
    request = _request(row, used, context)
    try:
        found = await ask_json(context.client, request, SCHEMA, meter)
    except MalformedReply as error:
        return row, poor_question(f"no verdict: {error}")
    if found["fault"] != NO_FAULT:
        return row, poor_question(f"{found['fault']}: {found['why'].strip()}")
    edited = replace(row, question=found["wording"].strip() or row.question)
    is_sound = all(verdict.keep for verdict in judge_unread(edited, item.bundle, documents, since=since))
    return edited if is_sound else row, poor_question("")


def _request(row: BundleQuestion, documents: Sequence[SourceDocument], context: BundleContext) -> Request:
    config = context.config
    prompt = fill(
        PROMPTS.text(PROMPT),
        type=_KINDS[row.type],
        question=render_question(row),
        answer=" | ".join((row.answer, *row.aliases)),
        quotes=render_quotes(row, documents),
        documents=render_documents(documents, config.longest_document),
    )
    return Request(
        model=context.model,
        prompt=(ChatTurn(role="user", content=prompt),),
        sampling=Sampling(temperature=config.read_temperature, top_p=config.top_p, max_tokens=config.read_max_tokens),
        seed=context.seed,
        purpose="review",
    )
