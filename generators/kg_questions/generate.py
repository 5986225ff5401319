"""Let a model turn facts of a knowledge graph into a question, and answer it from memory.

The facts come from `paths`. A model puts them into words without being told what the bridges and the
answer are, so that it cannot name them; for a model too small to, rules do (`wording`). What a question
is worth is measured by `filters`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from trailforge.filters import scores_of
from trailforge.filters.kg import Objections
from trailforge.generators.kg_questions.wording import PERSON, PROMPTS, RELATIONS, UNKNOWN, Wording, compose, phrase_of
from trailforge.inference import Meter, Sampling, Style, fill, object_schema
from trailforge.pipelines.engine import RunContext
from trailforge.rewards import read_short_answer
from trailforge.schemas import FactChain, Hop, KgFact, KgNode, KgQuestion, Verdict

_READ_PROMPTS: dict[Style, str] = {"chat": "closed_book", "completion": "embedded_closed_book"}
_MOST_ALIASES = 3
"""Other names of a relation that the model is shown."""


CHECK_SCHEMA = object_schema(
    {
        "other_answers": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
        "doubtful": {"type": "string"},
        "unclear": {"type": "string"},
    }
)


NAME_SCHEMA = object_schema({"names": {"type": "array", "items": {"type": "string"}, "maxItems": 8}})


@dataclass(frozen=True, slots=True, kw_only=True)
class KgWriterConfig:
    """Settings of how questions are written and answered from memory."""

    kind: Literal["model", "templates"] = "model"
    """How questions are written. `model`: a model writes them. `templates`: rules do, and no model is asked."""
    temperature: float = 0.7
    top_p: float = 0.95
    write_max_tokens: int = 2048
    style: Style = "chat"
    """Whether the closed-book prompt is chat messages or a text that the model goes on with."""
    closed_book_temperature: float = 0.8
    closed_book_max_tokens: int = 256
    check_max_tokens: int = 2048
    """Most tokens of the reply to `check_question.txt` or `name_described.txt`, at the temperature of the closed-book
    prompt."""
    stop: tuple[str, ...] = ()
    max_answer_words: int = 12
    """Most words of an answer in the style `completion`. A longer reply is no short answer, and is cut."""

    @property
    def prompt_version(self) -> str:
        """Return a hash of the prompts and phrases that the writer uses."""
        writer = ["kg_question"] if self.kind == "model" else []
        prompts = PROMPTS.version((_READ_PROMPTS[self.style], "name_described", "check_question", *writer))
        phrases = repr(PROMPTS.phrases(RELATIONS)) if self.kind == "templates" else ""
        return hashlib.sha256(f"{prompts}{phrases}".encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class KgQuestionContext(RunContext):
    """What all questions of a run share when facts are put into words: model client, settings and the graph's date."""

    config: KgWriterConfig
    as_of: str
    """Date of the graph in ISO form."""
    graph: str = "kg"
    """Name of the graph; with the chain's id it is the row's source."""


@dataclass(slots=True)
class KgQuestionWork:
    """Writes and answers a question about one chain of facts. `meter` counts its calls."""

    item: FactChain
    context: KgQuestionContext
    meter: Meter = field(default_factory=Meter)

    async def write(self) -> KgQuestion:
        """Write the draft of the question, by the model or by rules as the configuration says. Raises `MalformedReply`
        and the kinds of `ProviderError`.
        """
        config = self.context.config
        if config.kind == "templates":
            return row_of(compose(self.item), self.item, self.context)
        sampling = Sampling(temperature=config.temperature, top_p=config.top_p, max_tokens=config.write_max_tokens)
        prompt, schema = writer_prompt(self.item), schema_for(self.item)
        reply = await self.context.asker(self.meter).json(prompt, schema, purpose="write", sampling=sampling)
        return row_of(wording_of(reply), self.item, self.context)

    async def answer(self, row: KgQuestion, sample: int) -> str | None:
        """Have the model answer the question from memory, in draw number `sample`; None when its reply was cut."""
        config = self.context.config
        sampling = Sampling(
            temperature=config.closed_book_temperature,
            top_p=config.top_p,
            max_tokens=config.closed_book_max_tokens,
            stop=config.stop,
        )
        prompt = fill(PROMPTS.text(_READ_PROMPTS[config.style]), question=row.question)
        asker = self.context.asker(self.meter, config.style)
        text = (await asker.text(prompt, purpose="closed_book", sampling=sampling, sample=sample)).answer
        if text is None or config.style == "chat":
            return text and text.strip()
        return read_short_answer(text, config.max_answer_words)

    async def name(self, question: str) -> tuple[str, ...]:
        """Have the model name from memory everything that it knows to fit a description, which is worded as a question.
        Raises `MalformedReply` and the kinds of `ProviderError`.
        """
        prompt = fill(PROMPTS.text("name_described"), question=question)
        return tuple((await self._judge(prompt, NAME_SCHEMA, "name_described"))["names"])

    async def check(self, row: KgQuestion) -> Objections:
        """Have the model compare the question with its facts and its answer, and return its objections. Raises
        `MalformedReply` and the kinds of `ProviderError`.
        """
        reply = await self._judge(check_prompt(row), CHECK_SCHEMA, "check")
        return Objections(
            other_answers=tuple(reply["other_answers"]),
            doubtful=reply["doubtful"].strip(),
            unclear=reply["unclear"].strip(),
        )

    async def _judge(self, prompt: str, schema: dict[str, Any], purpose: str) -> dict[str, Any]:
        """Ask once for what is wrong with a question, or a part of it."""
        config = self.context.config
        sampling = Sampling(
            temperature=config.closed_book_temperature, top_p=config.top_p, max_tokens=config.check_max_tokens
        )
        return await self.context.asker(self.meter).json(prompt, schema, purpose=purpose, sampling=sampling)


def writer_prompt(chain: FactChain) -> str:
    """Return the prompt for writing a question: intermediate entities and answer appear as placeholders with their
    kinds, never by name.
    """
    texts = {start.id: start.label for start in chain.starts} | _placeholders(chain)
    lines = [f"{texts[node.id]}: {_describe_kind(chain, node)}" for node in (*chain.found, *chain.starts)]
    return fill(
        PROMPTS.text("kg_question"),
        order=", ".join(_placeholders(chain).values()),
        placeholders="\n".join(lines),
        facts="\n".join(_line(fact, texts) for fact in chain.facts),
    )


def check_prompt(row: KgQuestion) -> str:
    """Return the prompt for checking a question: the answer and the facts appear by name."""
    return fill(
        PROMPTS.text("check_question"),
        as_of=f" of {row.as_of}" if row.as_of else "",
        question=row.question,
        answer=row.answer,
        aliases="; ".join(row.answer_aliases) or "-",
        facts="\n".join(f"- {text}" for text in row.path),
    )


def schema_for(chain: FactChain) -> dict[str, Any]:
    """Return the JSON schema of the model's reply to `writer_prompt`, with as many sub-questions as there are entities
    to find.
    """
    count = len(chain.found)
    sub_questions = {"type": "array", "items": {"type": "string"}, "minItems": count, "maxItems": count}
    return object_schema({"question": {"type": "string"}, "sub_questions": sub_questions})


def wording_of(reply: dict[str, Any]) -> Wording:
    """Return the wording in a reply, with the placeholders Xk written as references `#k` in its sub-questions."""
    return Wording(
        question=reply["question"].strip(),
        sub_questions=tuple(re.sub(r"\bX(\d+)\b", r"#\1", text).strip() for text in reply["sub_questions"]),
    )


def row_of(wording: Wording, chain: FactChain, context: KgQuestionContext) -> KgQuestion:
    """Turn a chain of facts in words into a row, unchecked: the filters judge it afterwards."""
    row = KgQuestion(
        uid="",
        question=wording.question,
        answer="",
        answer_aliases=(),
        decomposition=tuple(
            Hop(question=question, answer=node.label)
            for question, node in zip(wording.sub_questions, chain.found, strict=True)
        ),
        chain=chain,
        path=(),
        entities=(),
        relations=(),
        shape=chain.shape,
        hops=0,
        num_answers=0,
        fewest_left=0,
        as_of=context.as_of,
        writer=context.config.kind,
        filters=(),
        preset=context.preset,
        provenance=context.provenance(f"{context.graph}:{chain.id}", context.config.prompt_version),
    )
    return replace(row, **derive_fields(row))


def derive_fields(row: KgQuestion) -> dict[str, Any]:
    """Return the fields of a row that follow from its question and its chain of facts."""
    chain = row.chain
    triples = [fact.triple for fact in chain.facts]
    answers = [node.label for node in chain.found]
    return {
        "uid": hashlib.sha256(f"{chain.id} {row.question}".encode()).hexdigest()[:16],
        "answer": chain.answer.label,
        "answer_aliases": chain.answer.aliases,
        "decomposition": tuple(
            replace(hop, answer=answer) for hop, answer in zip(row.decomposition, answers, strict=True)
        ),
        "path": tuple(triple.text for triple in triples),
        "entities": tuple(node.id for node in (*chain.starts, *chain.found)),
        "relations": tuple(triple.relation for triple in triples),
        "shape": chain.shape,
        "hops": len(chain.facts),
        "num_answers": chain.answer.matches,
        "fewest_left": min(fact.left_without for fact in chain.facts),
    }


def with_scores(row: KgQuestion, verdicts: Sequence[Verdict], keys: Sequence[str]) -> KgQuestion:
    """Return the row with the scores of its filters and the keys of the model calls behind them."""
    return replace(row, filters=scores_of(verdicts), provenance=replace(row.provenance, call_keys=tuple(keys)))


def _placeholders(chain: FactChain) -> dict[str, str]:
    bridges = {node.id: f"X{number}" for number, node in enumerate(chain.bridges, start=1)}
    return {**bridges, chain.answer.id: "ANSWER"}


def _describe_kind(chain: FactChain, node: KgNode) -> str:
    """What it is; where the graph does not say, what tails of its relation are: a mother is a person, and so is who
    has one.
    """
    implied = [phrase_of(fact).kind for fact in chain.leading_to(node) if fact.is_forward]
    turned = (replace(fact, known=fact.found, found=fact.known) for fact in chain.facts if fact.known == node.id)
    implied += [kind for fact in turned if (kind := phrase_of(fact).kind) == PERSON]
    kind = node.kind or next((kind for kind in implied if kind != UNKNOWN), "")
    return ", ".join(filter(None, (kind, node.role))) or "kind not known"


def _line(fact: KgFact, texts: dict[str, str]) -> str:
    triple, aliases = fact.triple, fact.relation_aliases[:_MOST_ALIASES]
    also = f" (also: {', '.join(aliases)})" if aliases else ""
    return f"- {texts[triple.head]} | {triple.relation_label}{also} | {texts[triple.tail]}"
