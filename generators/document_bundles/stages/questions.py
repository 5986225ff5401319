"""Write questions of bundles, each with what its filters measured."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from trailforge.filters import first_rejection
from trailforge.filters.answers import open_scorer
from trailforge.filters.bundle_readings import judge_question
from trailforge.filters.bundle_twins import sibling_answer, used_fact
from trailforge.filters.bundles import judge_unread
from trailforge.generators.document_bundles.config import BundleRunConfig, encoder_of
from trailforge.generators.document_bundles.stages.review import review_question
from trailforge.generators.document_bundles.write import (
    BundleContext,
    Writer,
    may_be_mended,
    open_writer,
    with_scores,
)
from trailforge.inference import ModelClient
from trailforge.pipelines.engine import ItemResult, ModelStage, ModelWork, rejected_row
from trailforge.pipelines.runs import stage
from trailforge.retrieval import SentenceReader
from trailforge.schemas import BundleInput, BundleQuestion, RejectedRow, Verdict, to_dict

NAME, FILTER = "write", "filter"
TABLE = "candidates"
_NO_REASON = "no question joins its documents"


def open_context(work: ModelWork, client: ModelClient) -> BundleContext:
    """Open what all bundles share. Raises an error when an encoder is needed and missing."""
    config = work.config
    return BundleContext(
        **work.shared(client),
        config=config.writer,
        judge=config.judge,
        sentences=SentenceReader(encoder_of(config.encoder) if config.writer.kind != "model" else None),
    )


async def questions_of(item: BundleInput, context: BundleContext, config: BundleRunConfig) -> ItemResult:
    """Return the drafts of questions of a bundle, each with its verdicts.

    Drafts whose hops need each other's answers are judged first, so that of two on one fact they are kept. For some
    rejected drafts, at most `writer.mends`, another one is asked for, once each; both are returned.
    """
    work = open_writer(item, context)
    drafts = await work.write()
    total, mends, count = work.meter, context.config.mends, len(drafts)
    accepted: list[BundleQuestion] = []
    rejected: list[RejectedRow] = []
    # A row's calls are those that it was written and measured by.
    waiting = deque(
        (draft, open_writer(item, context), False) for draft in sorted(drafts, key=lambda d: not d.dag_edges)
    )
    while waiting:
        written, reader, is_mended = waiting.popleft()
        draft, verdicts = await _judged(written, item, accepted, reader, config)
        # In order of key, since of calls made at once another may be answered first when the run goes on.
        keys = (*sorted(work.meter.keys), *sorted(reader.meter.keys))
        row = with_scores(draft, verdicts, keys, item.documents)
        against = first_rejection(verdicts)
        if against is None:
            accepted.append(row)
        else:
            rejected.append(rejected_row(FILTER, row.uid, against, to_dict(row)))
        total = total + reader.meter
        if against is not None and mends and not is_mended and may_be_mended(against):
            mends, writer = mends - 1, open_writer(item, context)
            if (again := await writer.mend(row, _with_wording(against, written, draft), count)) is None:
                total = total + writer.meter
            else:
                waiting.appendleft((again, writer, True))
                count += 1
    books = (
        stage(NAME, inputs=1, accepted=int(bool(drafts)), rejected=[] if drafts else ["no_question"]),
        stage(FILTER, inputs=count, accepted=len(accepted), rejected=[row.reason for row in rejected]),
    )
    if not drafts:
        nothing = Verdict(keep=False, reason="no_question", score=0.0, detail=work.joins or _NO_REASON)
        rejected.append(rejected_row(NAME, item.id, nothing, to_dict(item.bundle)))
    return ItemResult(rows={TABLE: accepted, "rejected": rejected}, stages=books, usage=total.usage(context.prices))


def _with_wording(against: Verdict, written: BundleQuestion, edited: BundleQuestion) -> Verdict:
    """The verdict, and how the writer itself had worded the question where an editor changed that."""
    if edited.question == written.question:
        return against
    told = f"{against.detail}\nAn editor had changed the wording, which was: {written.question}"
    return replace(against, detail=told)


async def _judged(
    draft: BundleQuestion, item: BundleInput, accepted: list[BundleQuestion], reader: Writer, config: BundleRunConfig
) -> tuple[BundleQuestion, list[Verdict]]:
    """The draft as its editor words it, with its verdicts up to the first that rejects."""
    context, filters = reader.context, config.filters
    verdicts = [used_fact(draft, accepted), sibling_answer(draft, accepted)]
    documents = {document.id: document for document in item.documents}
    seen = (*verdicts, *judge_unread(draft, item.bundle, documents, since=filters.since))
    if all(verdict.keep for verdict in seen):
        draft, found = await review_question(draft, item, context, reader.meter, filters)
        verdicts += found
    if all(verdict.keep for verdict in verdicts):
        scorer = open_scorer(context.judge, context.asker(reader.meter))
        verdicts += await judge_question(draft, item, reader, filters, scorer)
    return draft, verdicts


write_stage = ModelStage(
    name=NAME,
    item=BundleInput,
    tables={TABLE: BundleQuestion, "rejected": RejectedRow},
    counted=(TABLE, "type"),
    open_context=open_context,
    run_item=questions_of,
)
