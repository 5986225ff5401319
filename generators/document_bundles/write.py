"""Let a model write multi-hop questions with gold search plans over a bundle, and answer them again (R-Search, 4.1).

The writer makes drafts; what they are worth is measured by `filters.bundle_readings` with the reader. `with_scores`
puts what was measured into the row.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from trailforge.filters import scores_of
from trailforge.filters.answers import AnswerJudgeOptions, names_two_sides
from trailforge.generators.document_bundles.drafts import (
    cut_lists,
    describe_finds,
    describe_sources,
    render_documents,
    render_quotes,
    reply_schema,
    row_of,
)
from trailforge.generators.document_bundles.search_thoughts import PROMPTS
from trailforge.inference import Meter, Sampling, fill
from trailforge.pipelines.engine import RunContext
from trailforge.protocols.nl_dag import SearchPlan, levels, validate
from trailforge.retrieval import SentenceReader
from trailforge.rewards import choose_options
from trailforge.schemas import (
    BundleInput,
    BundleQuestion,
    BundleQuestionType,
    MalformedReply,
    SourceDocument,
    Verdict,
    check_least,
    check_plugin,
    load_plugin,
)

WRITERS = "trailforge.writers"
"""Group of entry points of writers: each is a function like `BundleWork`, of a bundle and a context."""
_MOST_HOPS, _MOST_SOURCES, _MOST_DEPTH = 4, 4, 4
_TYPE_WEIGHT: dict[BundleQuestionType, float] = {
    "factual": 0.0,
    "single_choice": 0.3,
    "causal": 0.6,
    "multiple_choice": 1.0,
}
REVIEW, ASKED, HALVES = "review_question", "would_be_asked", "half_answers"
MEND = "mend_question"
_SLIPS = {
    "unsupported_quote": "A quote is not there",
    "answer_given_away": "It gives its answer away",
    "bad_options": "Its answer or options have not the form that is asked for",
    "no_key_facts": "Its key facts will not do",
    "calculated": "Its answer is calculated",
    "named_by_score": "It names a thing by a figure",
    "quotes_one_source": "It rests on one source",
    "not_answerable": "A reader of all documents that it quotes has another answer",
    "unasked_question": "Nobody who has read none of the documents would ask it",
    "half_answers": "Whoever asks is content with what one document says",
    "sibling_answer": "Its answer and another question go together",
}
MENDABLE = ("poor_question", "fewer_documents_suffice", *_SLIPS)
"""Reasons for rejection that tell how another question over the same documents could be better. What is known is known:
a question that is answered from memory is left."""
_NO_VERDICT = "no verdict"
_FINDS = (
    "What a rule found in them, by words alone, and may be wrong in: several things of one document, and what another "
    "alone tells of one of them; then what both name, and what only one of them tells of it\n"
)
_FURTHER = "Up to {{count}} are wanted, the best one first; each further one rests on other facts. "
MODEL_PROMPTS = (
    *("bundle_questions", MEND, REVIEW, ASKED, HALVES),
    *("read_documents", "guess_from_documents", "answer_from_memory"),
)
STEP_PROMPTS = ("embedded_kind", "embedded_answer", "embedded_closed_book")
"""Prompts of a writer that is a plug-in and writes by small steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsConfig:
    """Settings that only the writer `kind: steps` has, beside those of both kinds of writers."""

    kind_votes: int = 3
    """Number of sentences that a model sees, one by one, to say what a name is; it has to say the same each time."""
    kind_max_tokens: int = 8
    num_sentences: int = 1
    """Number of sentences that a step is answered from."""
    max_answer_words: int = 12
    """Most words of an answer. A longer reply is no short answer, and is cut."""
    stop: tuple[str, ...] = ("\n",)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleWriterConfig:
    """Settings of how questions over bundles are written, and of how a reader answers them."""

    kind: str = "model"
    """How questions are written. `model`: a model writes them. Others are plug-ins; `steps`: rules write them, for a
    model that is too small to."""
    steps: StepsConfig = field(default_factory=StepsConfig)
    questions_per_bundle: int = 3
    mends: int = 0
    """Most drafts of a bundle of which another is asked for when an editor finds fault with them, fewer documents
    give their answer, or a quote is not there. It is told why, and what it writes is judged as every draft is."""
    temperature: float = 0.7
    top_p: float = 0.95
    write_max_tokens: int = 8192
    read_max_tokens: int = 2048
    read_temperature: float = 0.0
    closed_book_temperature: float = 0.8
    longest_document: int = 6000
    """Most characters of a document that are shown; of a paper its abstract, introduction, results and conclusion."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for a kind that there is not, and for fewer mends than none."""
        check_least(self, 0, "mends")
        check_plugin(WRITERS, self.kind, field="kind", built_in=("model",))

    @property
    def prompt_version(self) -> str:
        """Return a hash of the prompts that the writer uses."""
        return PROMPTS.version(MODEL_PROMPTS if self.kind == "model" else STEP_PROMPTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleContext(RunContext):
    """What all bundles of a run share when questions are written: model client, settings and judge."""

    config: BundleWriterConfig
    judge: AnswerJudgeOptions = field(default_factory=AnswerJudgeOptions)
    """The judge that scores replies which the matcher cannot score."""
    sentences: SentenceReader = field(default_factory=lambda: SentenceReader(None))
    """Retrieval that finds the sentences which `kind: steps` reads."""


class Writer(Protocol):
    """Writes and answers the questions of one bundle; it is also a `filters.bundle_readings.DocumentReader`."""

    item: BundleInput
    context: BundleContext
    meter: Meter
    """Counter of the writer's model calls."""
    joins: str
    """What the writer said joins the documents, or why nothing does; empty where it said neither."""

    async def write(self) -> list[BundleQuestion]:
        """Write drafts of questions in a fixed order; an empty list when nothing connects the documents. Raises the
        kinds of `ProviderError`.
        """
        ...

    async def mend(self, row: BundleQuestion, against: Verdict, number: int) -> BundleQuestion | None:
        """Write another draft to replace one that the verdict `against` rejects, as draft `number` of the bundle; None
        when there is none. Raises the kinds of `ProviderError`.
        """
        ...

    async def answer(self, row: BundleQuestion, documents: Sequence[SourceDocument], sample: int) -> str | None:
        """Answer a question from these documents alone, or from memory where there are none, in draw number `sample`;
        None when the reply was cut.
        """
        ...


def open_writer(item: BundleInput, context: BundleContext) -> Writer:
    """Open the kind of writer that the run's configuration names, for one bundle."""
    kind = context.config.kind
    make = BundleWork if kind == "model" else load_plugin(WRITERS, kind, field="writer.kind")
    return make(item=item, context=context)


@dataclass(slots=True)
class BundleWork:
    """A writer that asks a model for all questions of a bundle in one call. `meter` counts its calls."""

    item: BundleInput
    context: BundleContext
    meter: Meter = field(default_factory=Meter)
    joins: str = ""

    async def write(self) -> list[BundleQuestion]:
        """Write drafts of questions in the order of the reply; an empty list when the model finds nothing that connects
        the documents. Raises `MalformedReply` and the kinds of `ProviderError`.
        """
        count = self.context.config.questions_per_bundle
        reply = await self._asked(self._prompt(), "write", count)
        self.joins = reply.get("joins", "").strip()
        return [draft_row(draft, n, self.item, self.context) for n, draft in enumerate(cut_lists(reply, count))]

    async def mend(self, row: BundleQuestion, against: Verdict, number: int) -> BundleQuestion | None:
        """Write another draft to replace a rejected one, as `Writer.mend` says. None when the reply cannot be read."""
        documents = self.item.documents
        told = fill(
            PROMPTS.text(MEND),
            question=row.asked().text,
            answer=row.answer,
            quotes=render_quotes(row, documents),
            reason=describe_rejection(against, documents),
        )
        try:
            reply = await self._asked(f"{self._prompt()}\n\n{told}", "mend", 1)
        except MalformedReply:
            return None
        return next((draft_row(draft, number, self.item, self.context) for draft in cut_lists(reply, 1)), None)

    def _prompt(self) -> str:
        config, item = self.context.config, self.item
        finds = describe_finds(item.bundle, item.documents, config.longest_document)
        return fill(
            PROMPTS.text("bundle_questions"),
            further=fill(_FURTHER, count=str(count)) if (count := config.questions_per_bundle) > 1 else "",
            sources=describe_sources(item.documents),
            finds=f"{_FINDS}{finds}\n" if finds else "",
            documents=render_documents(item.documents, config.longest_document),
        )

    async def _asked(self, prompt: str, purpose: str, count: int) -> dict[str, Any]:
        """What the writer replies: up to so many questions."""
        config = self.context.config
        sampling = Sampling(temperature=config.temperature, top_p=config.top_p, max_tokens=config.write_max_tokens)
        return await self.context.asker(self.meter).json(
            prompt,
            reply_schema(count),
            purpose=purpose,
            sampling=sampling,
            held_against=reply_schema(count, is_bounded=False),
        )

    async def answer(self, row: BundleQuestion, documents: Sequence[SourceDocument], sample: int) -> str | None:
        """Answer a question from these documents alone, or from memory where there are none, in draw number `sample`;
        None when the reply was cut. Options are shuffled at each draw.
        """
        config = self.context.config
        shown, letters = _in_other_order(row, f"{self.context.seed}:{row.uid}:{sample}") if sample else (row, {})
        text = render_documents(documents, config.longest_document)
        prompt = fill(PROMPTS.text(_reading_of(row, documents)), documents=text, question=shown.asked().text)
        temperature = config.read_temperature if documents else config.closed_book_temperature
        sampling = Sampling(temperature=temperature, top_p=config.top_p, max_tokens=config.read_max_tokens)
        purpose = "read" if documents else "closed_book"
        reply = await self.context.asker(self.meter).text(prompt, purpose=purpose, sampling=sampling, sample=sample)
        if reply.answer is None:
            return None
        chosen = choose_options(reply.answer, shown.options) if letters else frozenset()
        return ", ".join(sorted(letters.get(each, each) for each in chosen)) or reply.answer.strip()


def _reading_of(row: BundleQuestion, documents: Sequence[SourceDocument]) -> str:
    """Return the name of the prompt by which a question is answered from these documents.

    From fewer than it rests on the model gives what fits best: a searcher who has one of them would take it, too. Of
    the sides that a comparison names none fits best to whoever has one side's figure.
    """
    if not documents:
        return "answer_from_memory"
    has_all = {hop.document_id for hop in row.hops} <= {document.id for document in documents}
    return "read_documents" if has_all or names_two_sides(row) else "guess_from_documents"


def may_be_mended(against: Verdict) -> bool:
    """Tell whether the reason of a rejection can help the writer to do better; that a call was cut cannot."""
    return against.reason in MENDABLE and not against.detail.startswith(_NO_VERDICT)


def describe_rejection(against: Verdict, documents: Sequence[SourceDocument]) -> str:
    """Say for the writer's prompt why the verdict `against` rejects a draft, naming documents by their numbers in that
    prompt.
    """
    numbers = {document.id: f"[{number}]" for number, document in enumerate(documents, start=1)}
    if against.reason == "poor_question":
        return f"An editor finds: {against.detail}"
    told, count = _number_documents(against.detail, numbers)
    if against.reason != "fewer_documents_suffice":
        return f"{_SLIPS[against.reason]}: {told}"
    read = "one document" if count == 1 else f"{count} documents"
    return f"A reader of {read} alone has the answer: {told}"


def _number_documents(detail: str, numbers: Mapping[str, str]) -> tuple[str, int]:
    """A filter's words with numbers for the ids that they begin with, and how many these are; what is behind them are
    words of a document or a reply."""
    one = "|".join(map(re.escape, sorted(numbers, key=len, reverse=True)))
    named = re.match(rf"(?:{one})(?: and (?:{one}))*(?= )", detail)
    if named is None:
        return detail, 0
    told, count = re.subn(one, lambda match: numbers[match[0]], named[0])
    return told + detail[named.end() :], count


def draft_row(draft: dict[str, Any], number: int, item: BundleInput, context: BundleContext) -> BundleQuestion:
    """Turn a draft, a question of the writer's reply, into a row of the run. `number` is its place among those of the
    bundle.
    """
    provenance = context.provenance(item.id, context.config.prompt_version)
    return row_of(draft, number, item, preset=context.preset, seed=context.seed, provenance=provenance)


def complexity_of(row: BundleQuestion, documents: Sequence[SourceDocument], closed_book: float) -> float:
    """Return the complexity of a question from 0 (easy) to 1 (hard).

    It is the mean of sources, hops, depth of the plan, type of answer, and how rarely the model answered without
    documents (`closed_book` is how often it did). The measure is ours; the paper names sources and reasoning steps.
    Only the sources of documents that the hops quote count.
    """
    quoted = {hop.document_id for hop in row.hops}
    depth = len(levels(SearchPlan(nodes=row.dag_nodes, edges=row.dag_edges)))
    parts = (
        _share(len({document.origin for document in documents if document.id in quoted}), _MOST_SOURCES),
        _share(len(row.hops), _MOST_HOPS),
        _share(depth, _MOST_DEPTH),
        _TYPE_WEIGHT[row.type],
        1 - closed_book,
    )
    return round(sum(parts) / len(parts), 4)


def with_scores(
    row: BundleQuestion, verdicts: Sequence[Verdict], keys: Sequence[str], documents: Sequence[SourceDocument]
) -> BundleQuestion:
    """Return the row with the scores of its filters, the keys of the model calls behind them, and its complexity."""
    scores = scores_of(verdicts)
    closed_book = next((score.score for score in scores if score.name == "closed_book"), 0.0)
    is_valid = not validate(SearchPlan(nodes=row.dag_nodes, edges=row.dag_edges))
    return replace(
        row,
        filters=scores,
        complexity=complexity_of(row, documents, closed_book) if is_valid else 0.0,
        provenance=replace(row.provenance, call_keys=tuple(keys)),
    )


def _in_other_order(row: BundleQuestion, seed: str) -> tuple[BundleQuestion, dict[str, str]]:
    """The question with its options in an order by seed, and the letters of its own by those."""
    order = random.Random(seed).sample(range(len(row.options)), len(row.options))
    letters = {chr(ord("A") + new): chr(ord("A") + old) for new, old in enumerate(order)}
    return replace(row, options=tuple(row.options[old] for old in order)), letters


def _share(number: int, most: int) -> float:
    """0 for one, 1 for `most` or more."""
    return min(max(number, 1) - 1, most - 1) / (most - 1)
