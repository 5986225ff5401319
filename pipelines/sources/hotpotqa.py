"""HotpotQA (Yang et al., 2018): questions with ten paragraphs, in the published shape and in the hub's.

    {"_id": "…", "question": "…", "answer": "…", "supporting_facts": [["Title", 0], …],
     "context": [["Title", ["Sentence.", " Sentence."]], …]}

The hub has `id`, and `"context": {"title": ["Title", …], "sentences": [["Sentence."], …]}`. A paragraph's id is its
position. There is no decomposition to read. Supporting facts are left out: they name sentences, not hops, and in the
fullwiki setting the paragraph often is not there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trailforge.pipelines.sources.fields import Fields, expect
from trailforge.schemas import Document, InvalidInput, Question

NAME: str = "hotpotqa"
KEYS = frozenset({"question", "context", "supporting_facts"})


def read(row: Fields) -> Question:
    """A row as a question. Raises `InvalidInput` naming the field."""
    return Question(
        id=row.filled_text("_id" if "_id" in row else "id"),
        question=row.filled_text("question"),
        answer=row.filled_text("answer"),
        paragraphs=context_paragraphs(row, source=NAME),
        dataset=NAME,
    )


def context_paragraphs(row: Fields, *, source: str) -> tuple[Document, ...]:
    """The paragraphs in `context`, sentences joined by one space. Raises `InvalidInput` when there is none."""
    context = row.value("context")
    pairs = _columns(Fields(context, "context")) if isinstance(context, dict) else _pairs(row.items("context"))
    paragraphs = [
        Document(id=str(position), title=title.strip(), text=_join(sentences), source=source)
        for position, (title, sentences) in enumerate(pairs)
    ]
    if not paragraphs:
        raise InvalidInput("empty list", field="context")
    return tuple(paragraphs)


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


def _join(sentences: list[str]) -> str:
    return " ".join(stripped for sentence in sentences if (stripped := sentence.strip()))
