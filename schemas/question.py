"""What goes in: multi-hop questions with their gold answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trailforge.schemas.bundle import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One step of a gold decomposition."""

    question: str
    """May refer to the answer of an earlier hop as `#k` (1-based)."""
    answer: str
    support_id: str | None = None
    """Id of the supporting document among the question's paragraphs; None when it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question with its gold answer and, where the data set gives them, decomposition and paragraphs."""

    STORED_AS: ClassVar[str] = "Question"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    id: str
    question: str
    answer: str
    answer_aliases: tuple[str, ...] = ()
    """Other accepted spellings, without `answer` itself."""
    decomposition: tuple[Hop, ...] = ()
    """Gold hops in topological order; empty when the data set has none."""
    paragraphs: tuple[Document, ...] = ()
    """The question's own retrieval scope; empty for questions over a corpus."""
    dataset: str = ""

    @property
    def golds(self) -> tuple[str, ...]:
        """The gold answer, then its aliases."""
        return (self.answer, *self.answer_aliases)
