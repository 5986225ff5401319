"""HotpotQA (Yang et al., 2018): questions with ten paragraphs, in the published shape and in the hub's.

    {"_id": "…", "question": "…", "answer": "…", "supporting_facts": [["Title", 0], …],
     "context": [["Title", ["Sentence.", " Sentence."]], …]}

The hub has `id`, `"context": {"title": ["Title", …], "sentences": [["Sentence."], …]}` and `"supporting_facts":
{"title": ["Title", …], "sent_id": [0, …]}`. A paragraph's id is its position. There is no decomposition to read; the
supporting facts name sentences of the documents that the answer rests on, and each of these documents is a hop. In the
fullwiki setting some of them are not among the paragraphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from trailforge.pipelines.sources.fields import Fields, expect
from trailforge.schemas import Document, InvalidInput, Question, SupportingDocument

NAME: str = "hotpotqa"
KEYS = frozenset({"question", "context", "supporting_facts"})


Context = Sequence[tuple[str, Sequence[str]]]
"""Title and sentences of each paragraph."""


def read(row: Fields) -> Question:
    """A row as a question. Raises `InvalidInput` naming the field."""
    context = read_context(row)
    supporting = read_supporting_facts(row, context)
    return Question(
        id=row.filled_text("_id" if "_id" in row else "id"),
        question=row.filled_text("question"),
        answer=row.filled_text("answer"),
        paragraphs=paragraphs_of(context, source=NAME),
        dataset=NAME,
        num_hops=len(supporting) or None,
        supporting=supporting,
    )


def read_context(row: Fields) -> Context:
    """The paragraphs in `context`. Raises `InvalidInput` when there is none."""
    context = row.value("context")
    pairs = _columns(Fields(context, "context")) if isinstance(context, dict) else _pairs(row.items("context"))
    paragraphs = [(title.strip(), [sentence.strip() for sentence in sentences]) for title, sentences in pairs]
    if not paragraphs:
        raise InvalidInput("empty list", field="context")
    return paragraphs


def paragraphs_of(context: Context, *, source: str) -> tuple[Document, ...]:
    """The paragraphs as documents, sentences joined by one space."""
    return tuple(
        Document(id=str(position), title=title, text=" ".join(filter(None, sentences)), source=source)
        for position, (title, sentences) in enumerate(context)
    )


def read_supporting_facts(row: Fields, context: Context) -> tuple[SupportingDocument, ...]:
    """The documents in `supporting_facts`, each once; of two paragraphs of one title the first is meant.

    Facts that name no sentence of theirs, as some do, are left out. Empty when the field is null or missing.
    """
    if row.values.get("supporting_facts") is None:
        return ()
    paragraphs = {title: (str(n), sentences) for n, (title, sentences) in reversed([*enumerate(context)])}
    facts: dict[str, dict[int, None]] = {}
    for title, number in _facts(row):
        facts.setdefault(title, {})[number] = None
    documents = []
    for title, numbers in facts.items():
        key, sentences = paragraphs.get(title, (None, ()))
        named = tuple(sentences[number] for number in numbers if 0 <= number < len(sentences) and sentences[number])
        documents.append(SupportingDocument(title=title, id=key, facts=named))
    return tuple(documents)


def _facts(row: Fields) -> Iterable[tuple[str, int]]:
    """Title and number of the sentence, in either shape."""
    name = "supporting_facts"
    if isinstance(row.values[name], dict):
        columns = Fields(row.values[name], name)
        titles, numbers = columns.texts("title"), columns.items("sent_id")
        if len(titles) != len(numbers):
            raise InvalidInput(f"{len(titles)} titles, but {len(numbers)} sentences", field=name)
        return [
            (t, expect(n, int, f"{name}.sent_id[{i}]")) for i, (t, n) in enumerate(zip(titles, numbers, strict=True))
        ]
    return [_fact(fact, f"{name}[{position}]") for position, fact in enumerate(row.items(name))]


def _fact(fact: Any, name: str) -> tuple[str, int]:
    if len(expect(fact, list, name)) != 2:
        raise InvalidInput(f"expected [title, sentence], found {len(fact)} items", field=name)
    return expect(fact[0], str, f"{name}[0]").strip(), expect(fact[1], int, f"{name}[1]")


def _pairs(context: list[Any]) -> Iterable[tuple[str, list[str]]]:
    """The published shape: a pair of title and sentences per paragraph."""
    for position, pair in enumerate(context):
        name = f"context[{position}]"
        if len(expect(pair, list, name)) != 2:
            raise InvalidInput(f"expected [title, sentences], found {len(pair)} items", field=name)
        yield expect(pair[0], str, f"{name}[0]"), _sentences(pair[1], f"{name}[1]")


def _columns(context: Fields) -> Iterable[tuple[str, list[str]]]:
    """The hub's shape: a list of titles and, as long, a list of sentence lists."""
    titles, texts = context.texts("title"), context.items("sentences")
    if len(titles) != len(texts):
        raise InvalidInput(f"{len(titles)} titles, but {len(texts)} paragraphs", field="context")
    return [(t, _sentences(s, f"context.sentences[{i}]")) for i, (t, s) in enumerate(zip(titles, texts, strict=True))]


def _sentences(value: Any, name: str) -> list[str]:
    return [expect(sentence, str, f"{name}[{i}]") for i, sentence in enumerate(expect(value, list, name))]
