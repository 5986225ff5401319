"""What is searched: documents, and the passages a search returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text that can be retrieved."""

    SCHEMA_VERSION: ClassVar[str] = "1.0"

    id: str
    """Unique within its scope: a question's paragraphs, or a corpus."""
    title: str
    text: str
    source: str = ""
    """Where it comes from (`musique`, `arxiv`, a feed's name); empty when unknown."""
    published: str | None = None
    """ISO 8601 date; None when unknown."""
    language: str | None = None
    """ISO 639-1 code; None when unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A document as one search returned it."""

    SCHEMA_VERSION: ClassVar[str] = "1.0"

    id: str
    """The document's id."""
    title: str
    text: str
    score: float
    """The retriever's score, higher is better; cosine for the dense retriever. Rounded to 6 decimals."""
