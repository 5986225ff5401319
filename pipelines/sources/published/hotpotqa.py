"""Read HotpotQA (Yang et al., 2018): questions with ten paragraphs, in the published form and in the hub's.

    {"_id": "…", "question": "…", "answer": "…", "supporting_facts": [["Title", 0], …],
     "context": [["Title", ["Sentence.", " Sentence."]], …]}

The hub has `id`, `"context": {"title": ["Title", …], "sentences": [["Sentence."], …]}` and `"supporting_facts":
{"title": ["Title", …], "sent_id": [0, …]}`. A paragraph's id is its position. There is no decomposition to read; the
supporting facts name sentences of the documents that the answer rests on, and each of these documents is a hop. In the
fullwiki setting some of them are not among the paragraphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trailforge.rows import Fields, expect, parsed
from trailforge.schemas import Document, InvalidInput, Question, SupportingDocument

NAME: str = "hotpotqa"
KEYS = frozenset({"question", "context", "supporting_facts"})


Context = Sequence[tuple[str, Sequence[str]]]
"""The title and the sentences of each paragraph."""


def read(row: Fields) -> Question:
    """Read a row as a question. Raises `InvalidInput` naming the field."""
    context = read_context(row) if row.has("context") else ()
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
    """Read the paragraphs in `context`. Raises `InvalidInput` when there is none."""
    pairs = _pairs(row, "context", "sentences", "sentences", "paragraphs")
    paragraphs = [(title, _sentences(sentences, name)) for title, sentences, name in pairs]
    if not paragraphs:
        raise InvalidInput("empty list; expected the paragraphs of the question", field="context")
    return paragraphs


def paragraphs_of(context: Context, *, source: str) -> tuple[Document, ...]:
    """Make paragraphs into documents, their sentences joined by one space. A document's id is its position; `source` is
    the data set's name, or empty.
    """
    return tuple(
        Document(id=str(position), title=title, text=" ".join(filter(None, sentences)), source=source)
        for position, (title, sentences) in enumerate(context)
    )


def read_supporting_facts(row: Fields, context: Context) -> tuple[SupportingDocument, ...]:
    """Read the documents in `supporting_facts`, each once; where two paragraphs have one title, the first is meant.

    Facts that name a sentence which does not exist, as some do, are left out. Empty when the field is null or
    missing.
    """
    if not row.has("supporting_facts"):
        return ()
    paragraphs = {title: (str(n), sentences) for n, (title, sentences) in reversed([*enumerate(context)])}
    facts: dict[str, dict[int, None]] = {}
    for title, number, name in _pairs(row, "supporting_facts", "sent_id", "sentence", "sentences"):
        facts.setdefault(title, {})[expect(number, int, name)] = None
    documents = []
    for title, numbers in facts.items():
        key, sentences = paragraphs.get(title, (None, ()))
        named = tuple(sentences[number] for number in numbers if 0 <= number < len(sentences) and sentences[number])
        documents.append(SupportingDocument(title=title, id=key, facts=named))
    return tuple(documents)


def _pairs(row: Fields, name: str, column: str, other: str, others: str) -> Iterator[tuple[str, Any, str]]:
    """Title, what is told of it, and the full name of that, in either shape.

    As published: a list of pairs. On the hub: a list of titles and, as long, the list `column`. `other`, `others`: what
    is told of one title, and of all, for messages.
    """
    value = row.value(name)
    value = parsed(value) if isinstance(value, str) else value
    if isinstance(value, dict):
        columns = Fields(value, name)
        titles, told = columns.texts("title"), columns.items(column)
        if len(titles) != len(told):
            raise InvalidInput(f"{len(titles)} titles, but {len(told)} {others}", field=name)
        for position, (title, each) in enumerate(zip(titles, told, strict=True)):
            yield title, each, f"{name}.{column}[{position}]"
        return
    for position, pair in enumerate(row.items(name)):
        at = f"{name}[{position}]"
        if len(expect(pair, list, at)) != 2:
            raise InvalidInput(f"expected [title, {other}], found {len(pair)} items", field=at)
        yield expect(pair[0], str, f"{at}[0]").strip(), pair[1], f"{at}[1]"


def _sentences(value: Any, name: str) -> list[str]:
    return [expect(sentence, str, f"{name}[{i}]").strip() for i, sentence in enumerate(expect(value, list, name))]
