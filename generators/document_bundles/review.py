"""An editor's look at a question that readers answered as they should: would somebody ask this, is it one question?

What readers answer measures whether a question can be answered, and from what. Whether it is worth asking they do not
say. Ours; the paper has two filters, both of answers (R-Search, 3.5).
"""

from __future__ import annotations

from collections.abc import Sequence

from trailforge.generators.document_bundles.search_thoughts import PROMPTS
from trailforge.generators.document_bundles.write import BundleContext, render_documents, render_question
from trailforge.inference import ChatTurn, Meter, Request, Sampling, ask_json
from trailforge.inference.asker import fill
from trailforge.schemas import BundleQuestion, MalformedReply, SourceDocument

PROMPT = "review_question"
NO_FAULT = "none"
FAULTS = ("two_questions", "not_asked", "other_answers", "not_said")
SCHEMA = {
    "type": "object",
    "properties": {"why": {"type": "string"}, "fault": {"type": "string", "enum": [NO_FAULT, *FAULTS]}},
    "required": ["why", "fault"],
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


async def find_fault(
    row: BundleQuestion, documents: Sequence[SourceDocument], context: BundleContext, meter: Meter
) -> str:
    """What is wrong with a question, as `two_questions: …`; empty when nothing is.

    A review that cannot be read shows nothing: `no verdict: …`. Raises the kinds of `ProviderError`.
    """
    config = context.config
    prompt = fill(
        PROMPTS.text(PROMPT),
        type=_KINDS[row.type],
        question=render_question(row),
        answer=" | ".join((row.answer, *row.aliases)),
        quotes=render_quotes(row, documents),
        documents=render_documents(documents, config.longest_document),
    )
    request = Request(
        model=context.model,
        prompt=(ChatTurn(role="user", content=prompt),),
        sampling=Sampling(temperature=config.read_temperature, top_p=config.top_p, max_tokens=config.read_max_tokens),
        seed=context.seed,
        purpose="review",
    )
    try:
        found = await ask_json(context.client, request, SCHEMA, meter)
    except MalformedReply as error:
        return f"no verdict: {error}"
    return "" if found["fault"] == NO_FAULT else f"{found['fault']}: {found['why'].strip()}"
