"""HotpotQA (Yang et al., 2018) and 2WikiMultiHopQA (Ho et al., 2020): a context of titled paragraphs in sentences.

Neither has a decomposition in words, so the oracle fallback has nothing to fall back on.
"""

from __future__ import annotations

from typing import Any

from pipelines.sources.rows import aliases_of, text_of
from schemas import Document, InvalidInput, Question


def recognises_twowiki(row: dict[str, Any]) -> bool:
    """Does the row look like 2WikiMultiHopQA?"""
    return "context" in row and ("evidences" in row or "evidences_id" in row)


def recognises_hotpotqa(row: dict[str, Any]) -> bool:
    """Does the row look like HotpotQA?"""
    return "context" in row and "supporting_facts" in row and not recognises_twowiki(row)


def parse_twowiki(row: dict[str, Any]) -> Question:
    """A row of 2WikiMultiHopQA as a question. Raises `InvalidInput` naming the field."""
    return _parse(row, "2wikimultihopqa")


def parse_hotpotqa(row: dict[str, Any]) -> Question:
    """A row of HotpotQA as a question. Raises `InvalidInput` naming the field."""
    return _parse(row, "hotpotqa")


def _parse(row: dict[str, Any], dataset: str) -> Question:
    answer = text_of(row, "answer")
    return Question(
        id=text_of(row, "_id" if "_id" in row else "id"),
        question=text_of(row, "question"),
        answer=answer,
        answer_aliases=aliases_of(row, "answer_aliases", answer),
        paragraphs=tuple(_paragraphs(row, dataset)),
        dataset=dataset,
    )


def _paragraphs(row: dict[str, Any], dataset: str) -> list[Document]:
    pairs = _pairs(row["context"])
    if not pairs:
        raise InvalidInput("has no paragraph", field="context")
    documents = []
    for number, pair in enumerate(pairs):
        title, sentences = pair if isinstance(pair, (list, tuple)) and len(pair) == 2 else (None, None)
        if not isinstance(title, str) or not isinstance(sentences, list):
            raise InvalidInput("each must be [title, [sentences]]", field=f"context[{number}]")
        if not all(isinstance(sentence, str) for sentence in sentences):
            raise InvalidInput("sentences must be texts", field=f"context[{number}]")
        text = " ".join(sentence.strip() for sentence in sentences if sentence.strip())
        if text:
            documents.append(Document(id=str(number), title=title.strip(), text=text, source=dataset))
    if not documents:
        raise InvalidInput("all paragraphs are empty", field="context")
    return documents


def _pairs(context: Any) -> list[Any]:
    """As published: a list of pairs. On the hub: parallel lists of titles and sentences."""
    if isinstance(context, dict):
        titles, sentences = context.get("title"), context.get("sentences")
        if not isinstance(titles, list) or not isinstance(sentences, list) or len(titles) != len(sentences):
            raise InvalidInput("needs lists `title` and `sentences` of one length", field="context")
        return list(zip(titles, sentences, strict=True))
    if not isinstance(context, list):
        raise InvalidInput("must be a list", field="context")
    return context
