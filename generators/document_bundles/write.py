"""A bundle of documents to multi-hop questions with gold search plans, and back: answering them (R-Search, 4.1).

The writer makes drafts; what they are worth is measured by `filters.bundles` with the reader. `seal` puts what was
measured into the row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from trailforge.generators.document_bundles.search_thoughts import PROMPTS
from trailforge.inference import ChatTurn, Client, Meter, Prices, Request, Sampling, ask_json
from trailforge.inference.asker import fill
from trailforge.protocols.nl_dag import SearchPlan, levels, render, validate
from trailforge.retrieval import SentenceReader
from trailforge.schemas import (
    BundleHop,
    BundleInput,
    BundleQuestion,
    BundleQuestionType,
    FilterScore,
    PlanEdge,
    PlanNode,
    Provenance,
    SourceDocument,
    SourceKind,
    Verdict,
)
from trailforge.schemas.plugins import check_plugin, load_plugin
from trailforge.schemas.text import restore_chat_tokens

WRITERS = "trailforge.writers"
"""Group of entry points: functions as `BundleWork`, of a bundle and a context."""
_TOOLS: dict[SourceKind, str] = {"news": "News", "academic": "Academic", "general": "General"}
_MOST_HOPS, _MOST_SOURCES, _MOST_DEPTH = 4, 4, 4
_TYPE_WEIGHT: dict[BundleQuestionType, float] = {
    "factual": 0.0,
    "single_choice": 0.3,
    "causal": 0.6,
    "multiple_choice": 1.0,
}
_HOP = {
    "type": "object",
    "properties": {
        "document": {"type": "integer", "minimum": 1},
        "evidence": {"type": "string"},
        "query": {"type": "string"},
        "reasoning": {"type": "string"},
        "needs": {"type": "array", "items": {"type": "integer", "minimum": 1}},
    },
    "required": ["document", "evidence", "query", "reasoning", "needs"],
    "additionalProperties": False,
}
_QUESTION = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": list(_TYPE_WEIGHT)},
        "question": {"type": "string"},
        "answer": {"type": "string"},
        "options": {"type": "array", "items": {"type": "string"}},
        "correct": {"type": "array", "items": {"type": "string"}},
        "hops": {"type": "array", "items": _HOP},
    },
    "required": ["type", "question", "answer", "options", "correct", "hops"],
    "additionalProperties": False,
}
SCHEMA = {
    "type": "object",
    "properties": {"questions": {"type": "array", "items": _QUESTION}},
    "required": ["questions"],
    "additionalProperties": False,
}
"""What the writing model replies."""
MODEL_PROMPTS = ("bundle_questions", "read_documents", "read_nothing")
STEP_PROMPTS = ("embedded_kind", "embedded_answer", "embedded_closed_book")
"""Of plug-ins that write by small steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsConfig:
    """What `kind: steps` needs beside the settings that both kinds share."""

    kind_votes: int = 3
    """Sentences that a model sees, one by one, to say what a name is; it has to say the same each time."""
    kind_max_tokens: int = 8
    num_sentences: int = 1
    """That a step is answered from."""
    max_answer_words: int = 12
    """A longer reply is no short answer, and is cut."""
    stop: tuple[str, ...] = ("\n",)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleWriterConfig:
    """How questions are written and read."""

    kind: str = "model"
    """`model`: a model writes them. Others are plug-ins; `steps`: rules write them, for a model too small to."""
    steps: StepsConfig = field(default_factory=StepsConfig)
    questions_per_bundle: int = 3
    temperature: float = 0.7
    top_p: float = 0.95
    write_max_tokens: int = 8192
    read_max_tokens: int = 2048
    read_temperature: float = 0.0
    closed_book_temperature: float = 0.8
    longest_document: int = 6000
    """Characters of a document that are shown."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for a kind that there is not."""
        check_plugin(WRITERS, self.kind, field="kind", built_in=("model",))

    @property
    def prompt_version(self) -> str:
        """Hash of the prompts in use."""
        return PROMPTS.version(MODEL_PROMPTS if self.kind == "model" else STEP_PROMPTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleContext:
    """What all bundles of a run share."""

    run_id: str
    model: str
    preset: str
    seed: int
    prices: Prices
    config: BundleWriterConfig
    client: Client
    sentences: SentenceReader = field(default_factory=lambda: SentenceReader(None))
    """Finds what `kind: steps` reads."""


class Writer(Protocol):
    """One bundle under way; also a `filters.bundles.DocumentReader`."""

    item: BundleInput
    context: BundleContext
    meter: Meter
    """Counts its calls."""

    async def write(self) -> list[BundleQuestion]:
        """Drafts, in a fixed order; none when nothing joins the documents. Raises the kinds of `ProviderError`."""
        ...

    async def answer(self, row: BundleQuestion, documents: Sequence[SourceDocument], sample: int) -> str | None:
        """As `filters.bundles.DocumentReader` says."""
        ...


def open_writer(item: BundleInput, context: BundleContext) -> Writer:
    """A bundle under way, by the writer that the run's configuration names."""
    kind = context.config.kind
    make = BundleWork if kind == "model" else load_plugin(WRITERS, kind, field="writer.kind")
    return make(item=item, context=context)


@dataclass(slots=True)
class BundleWork:
    """One bundle under way. `meter` counts its calls."""

    item: BundleInput
    context: BundleContext
    meter: Meter = field(default_factory=Meter)

    async def write(self) -> list[BundleQuestion]:
        """Drafts in the order of the reply; none when the model finds nothing that joins the documents.

        Raises `MalformedReply` and the kinds of `ProviderError`.
        """
        context, config = self.context, self.context.config
        prompt = fill(
            PROMPTS.text("bundle_questions"),
            count=str(config.questions_per_bundle),
            documents=render_documents(self.item.documents, config.longest_document),
        )
        sampling = Sampling(temperature=config.temperature, top_p=config.top_p, max_tokens=config.write_max_tokens)
        reply = await ask_json(context.client, self._request(prompt, sampling, purpose="write"), SCHEMA, self.meter)
        return [row_of(draft, n, self.item, context) for n, draft in enumerate(reply["questions"])]

    async def answer(self, row: BundleQuestion, documents: Sequence[SourceDocument], sample: int) -> str | None:
        """As a `filters.bundles.DocumentReader`."""
        config = self.context.config
        text = render_documents(documents, config.longest_document)
        prompt = (
            fill(PROMPTS.text("read_documents"), documents=text, question=render_question(row))
            if documents
            else fill(PROMPTS.text("read_nothing"), question=render_question(row))
        )
        temperature = config.read_temperature if documents else config.closed_book_temperature
        sampling = Sampling(temperature=temperature, top_p=config.top_p, max_tokens=config.read_max_tokens)
        request = self._request(prompt, sampling, purpose="read" if documents else "closed_book", sample=sample)
        reply = await self.context.client.complete(request, self.meter)
        return reply.answer and reply.answer.strip()

    def _request(self, prompt: str, sampling: Sampling, *, purpose: str, sample: int = 0) -> Request:
        return Request(
            model=self.context.model,
            prompt=(ChatTurn(role="user", content=prompt),),
            sampling=sampling,
            sample=sample,
            seed=self.context.seed,
            purpose=purpose,
        )


def row_of(draft: dict[str, Any], number: int, item: BundleInput, context: BundleContext) -> BundleQuestion:
    """A draft of a bundle as a row; whether it makes sense is for the filters to say."""
    documents = item.documents
    nodes, edges = plan_of(draft["hops"], documents)
    uid = hashlib.sha256(f"{item.id} {number} {draft['question']}".encode()).hexdigest()[:16]
    return BundleQuestion(
        uid=uid,
        bundle_id=item.id,
        question=draft["question"].strip(),
        type=draft["type"],
        answer=draft["answer"].strip(),
        options=tuple(option.strip() for option in draft["options"]),
        correct_options=tuple(letter.strip().upper() for letter in draft["correct"]),
        hops=tuple(
            BundleHop(
                document_id=_document_id(hop["document"], documents),
                evidence=restore_chat_tokens(hop["evidence"]).strip(),  # prompts show them escaped, documents have them
                reasoning=hop["reasoning"].strip(),
            )
            for hop in draft["hops"]
        ),
        dag_text=render(SearchPlan(nodes=nodes, edges=edges)),
        dag_nodes=nodes,
        dag_edges=edges,
        filters=(),
        complexity=0.0,
        curriculum_stage=0,
        preset=context.preset,
        provenance=Provenance(
            run_id=context.run_id,
            source_id=item.id,
            model=context.model,
            prompt_version=context.config.prompt_version,
            seed=context.seed,
            call_keys=(),
        ),
    )


def plan_of(
    hops: Sequence[dict[str, Any]], documents: Sequence[SourceDocument]
) -> tuple[tuple[PlanNode, ...], tuple[PlanEdge, ...]]:
    """One search per hop, by the tool that finds such documents, and an edge for each finding that a hop needs."""
    names = [chr(ord("A") + position) for position in range(len(hops))]
    nodes = tuple(
        PlanNode(node_id=name, query=hop["query"].strip(), tool=_tool(hop["document"], documents))
        for name, hop in zip(names, hops, strict=True)
    )
    edges = tuple(
        PlanEdge(src=names[need - 1] if need <= len(names) else f"N{need}", dst=name)
        for name, hop in zip(names, hops, strict=True)
        for need in dict.fromkeys(hop["needs"])
    )
    return nodes, edges


def render_documents(documents: Sequence[SourceDocument], longest: int) -> str:
    """Documents as a prompt shows them, numbered from 1."""
    return "\n\n".join(
        f"[{number}] {document.title} ({_TOOLS[document.kind]}, {document.source}"
        f"{', ' + document.published if document.published else ''})\n{document.text[:longest]}"
        for number, document in enumerate(documents, start=1)
    )


def render_question(row: BundleQuestion) -> str:
    """The question, with its options by letter."""
    options = [f"{chr(ord('A') + position)}. {option}" for position, option in enumerate(row.options)]
    return "\n".join([row.question, *options])


def complexity_of(row: BundleQuestion, documents: Sequence[SourceDocument], closed_book: float) -> float:
    """0 (easy) to 1 (hard): the mean of sources, hops, depth of the plan, type of answer, and how far the model's best
    answer without documents was off (`closed_book`: its closeness). Ours; the paper names sources and reasoning steps.

    Sources are those of the documents that the hops quote: the others of the bundle need not be found.
    """
    quoted = {hop.document_id for hop in row.hops}
    depth = len(levels(SearchPlan(nodes=row.dag_nodes, edges=row.dag_edges)))
    parts = (
        _share(len({document.source for document in documents if document.id in quoted}), _MOST_SOURCES),
        _share(len(row.hops), _MOST_HOPS),
        _share(depth, _MOST_DEPTH),
        _TYPE_WEIGHT[row.type],
        1 - closed_book,
    )
    return round(sum(parts) / len(parts), 4)


def seal(
    row: BundleQuestion, verdicts: Sequence[Verdict], keys: Sequence[str], documents: Sequence[SourceDocument]
) -> BundleQuestion:
    """The row with what its filters measured, the calls behind it, and its complexity."""
    scores = tuple(
        FilterScore(name=v.reason, score=v.score, passed=v.keep, reason="" if v.keep else v.detail) for v in verdicts
    )
    closed_book = next((score.score for score in scores if score.name == "closed_book"), 0.0)
    is_valid = not validate(SearchPlan(nodes=row.dag_nodes, edges=row.dag_edges))
    return replace(
        row,
        filters=scores,
        complexity=complexity_of(row, documents, closed_book) if is_valid else 0.0,
        provenance=replace(row.provenance, call_keys=tuple(keys)),
    )


def _share(number: int, most: int) -> float:
    """0 for one, 1 for `most` or more."""
    return min(max(number, 1) - 1, most - 1) / (most - 1)


def _document_id(number: int, documents: Sequence[SourceDocument]) -> str:
    return documents[number - 1].id if number <= len(documents) else f"document {number}"


def _tool(number: int, documents: Sequence[SourceDocument]) -> str:
    return _TOOLS[documents[number - 1].kind] if number <= len(documents) else "General"
