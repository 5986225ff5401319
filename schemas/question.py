"""Documents, and multi-hop questions with their gold answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trailforge.schemas.versions import Earlier, migration


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text that can be retrieved."""

    STORED_AS: ClassVar[str] = "Document"
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
class Hop:
    """One step of a gold decomposition."""

    question: str
    """May refer to the answer of an earlier hop as `#k` (1-based)."""
    answer: str
    support_id: str | None = None
    """Id of the supporting document among the question's paragraphs; None when it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuestion:
    """A question as training asks it: what `asked` of each record gives that has questions to train on. Not stored."""

    id: str
    text: str
    """With its options, one a line."""
    golds: tuple[str, ...]
    """The gold answer, then its aliases."""
    source_id: str
    """See `Provenance.source_id`."""
    num_hops: int | None
    """None when the gold hops are not known."""
    hops: tuple[Hop, ...] = ()
    support_titles: tuple[str, ...] = ()
    """Of the documents that the hops rest on, where the row has their titles."""
    support_ids: tuple[str, ...] = ()
    """Of these documents, where their titles stand in the run's corpus."""
    options: tuple[str, ...] = ()
    correct_options: tuple[str, ...] = ()
    """Their letters."""
    plan: str = ""
    """The gold search plan."""
    curriculum: tuple[int, float] | None = None
    """Stage and difficulty; None: they follow from the number of hops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question with its gold answer and, where the data set gives them, decomposition and paragraphs."""

    STORED_AS: ClassVar[str] = "Question"
    SCHEMA_VERSION: ClassVar[str] = "1.1"
    EARLIER: ClassVar[Earlier] = {"1.0": migration()}

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
    answer_id: str | None = None
    """Id of the answer's entity in Wikidata (`Q142`); None when the data set does not name it."""

    @property
    def golds(self) -> tuple[str, ...]:
        """The gold answer, then its aliases."""
        return (self.answer, *self.answer_aliases)

    def asked(self) -> AskedQuestion:
        """As training asks it."""
        titles = {paragraph.id: paragraph.title for paragraph in self.paragraphs}
        supporting = (titles[hop.support_id] for hop in self.decomposition if hop.support_id in titles)
        return AskedQuestion(
            id=self.id,
            text=self.question,
            golds=self.golds,
            num_hops=len(self.decomposition) or None,
            hops=self.decomposition,
            support_titles=tuple(dict.fromkeys(supporting)),
            source_id=f"{self.dataset}:{self.id}",
        )
