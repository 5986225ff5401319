"""Collected documents, bundles of them that belong together, and the questions made of a bundle (R-Search)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trailforge.schemas.provenance import Provenance
from trailforge.schemas.question import AskedQuestion, Document, write_options
from trailforge.schemas.versions import Earlier, migration

SourceKind = Literal["news", "academic", "general"]
"""Which tool finds such documents: a search plan names News, Academic or General."""
BundleQuestionType = Literal["factual", "causal", "single_choice", "multiple_choice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDocument:
    """A document as a source gave it, normalised. The table `documents`."""

    STORED_AS: ClassVar[str] = "SourceDocument"
    SCHEMA_VERSION: ClassVar[str] = "1.1"
    EARLIER: ClassVar[Earlier] = {"1.0": migration()}  # without `is_own_source`

    id: str
    """`source:native id`; unique over all sources."""
    source: str
    """Name of the feed, archive or file it comes from: `wikinews`, `arxiv`, …"""
    kind: SourceKind
    title: str
    text: str
    url: str = ""
    published: str | None = None
    """ISO 8601 date; None when unknown."""
    language: str | None = None
    """ISO 639-1 code; None when unknown."""
    authors: tuple[str, ...] = ()
    licence: str = ""
    is_own_source: bool = False
    """It is independent of the others of its `source`: one archive holds what many report."""

    @property
    def origin(self) -> str:
        """What counts as one source: of all but papers and what is `is_own_source` the publisher or archive."""
        return self.id if self.is_own_source or self.kind == "academic" else self.source

    @property
    def document(self) -> Document:
        """As retrievers know it."""
        return Document(
            id=self.id,
            title=self.title,
            text=self.text,
            source=self.source,
            published=self.published,
            language=self.language,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentEmbedding:
    """A document's vector, of length 1. The table `embeddings`."""

    STORED_AS: ClassVar[str] = "DocumentEmbedding"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    document_id: str
    vector: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleLink:
    """Why two documents are together."""

    first: str
    """Id of a document."""
    second: str
    cosine: float
    """Of the documents' vectors as bundling compares them; with `bundles.is_centred` less what archives share."""
    names: tuple[str, ...] = ()
    """Named entities of both, case-folded, the most telling first."""
    days_apart: int | None = None
    """Between their dates; None when one is unknown."""
    shared: float | None = None
    """The sum over all names that both have, which `bundles.min_shared` asks for. None in rows of earlier versions."""
    copied: float | None = None
    """Share of the shorter document's text that the other holds, estimated, 0 to 1: from a half on they are copies,
    which no bundle holds. None in rows of earlier versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Two to four documents that belong together, of at least two origins (`SourceDocument.origin`)."""

    STORED_AS: ClassVar[str] = "Bundle"
    SCHEMA_VERSION: ClassVar[str] = "1.3"
    EARLIER: ClassVar[Earlier] = {"1.0": migration(), "1.1": migration(), "1.2": migration()}
    """Without `links`; `askable`; `retold`, `worth` and `origins`, and `shared` and `copied` of links."""

    uid: str
    """Hash of the sorted document ids."""
    document_ids: tuple[str, ...]
    sources: tuple[str, ...]
    """Of the documents, in their order."""
    cohesion: float
    """Mean cosine over all pairs."""
    theme: str
    """Words that its documents share and others rarely have, the most telling first."""
    links: tuple[BundleLink, ...] = ()
    """Each pair of documents once, in their order."""
    askable: int | None = None
    """How much each of its two best documents says of what both name and the other does not say, 0 to 8. None in rows
    of version 1.1 and before."""
    retold: float | None = None
    """How much of the one of them the other tells, too, 0 to 1: near 1 for two reports of one event. None in rows of
    version 1.2 and before."""
    worth: float | None = None
    """What can be asked about it: questions are asked of bundles in this order. From `askable` and `retold`, and higher
    where few documents name what both name. None in rows of version 1.2 and before."""
    origins: tuple[str, ...] = ()
    """What counted as each document's source when bundles were made (`SourceDocument.origin`), in their order: of a
    paper the paper, for its archive or conference holds what many report. Empty in rows of version 1.2 and before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleInput:
    """A bundle with its documents: what questions are made of."""

    STORED_AS: ClassVar[str] = "BundleInput"
    SCHEMA_VERSION: ClassVar[str] = "1.4"
    EARLIER: ClassVar[Earlier] = dict.fromkeys(("1.0", "1.1", "1.2", "1.3"), migration())

    id: str
    """The bundle's uid."""
    bundle: Bundle
    documents: tuple[SourceDocument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleHop:
    """What one document contributes to a question."""

    document_id: str
    evidence: str
    """Quoted from the document."""
    reasoning: str
    """How it joins the other hops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNode:
    """A search of an NL-DAG."""

    node_id: str
    query: str
    tool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEdge:
    """`dst` needs what `src` finds."""

    src: str
    dst: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterScore:
    """What one filter measured on a row."""

    name: str
    score: float
    passed: bool
    reason: str = ""
    """Why it did not pass; empty when it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleQuestion:
    """A multi-hop question over a bundle, with its gold search plan."""

    STORED_AS: ClassVar[str] = "BundleQuestion"
    SCHEMA_VERSION: ClassVar[str] = "1.2"
    EARLIER: ClassVar[Earlier] = {"1.0": migration(), "1.1": migration()}  # 1.0: without aliases, key_facts and as_of

    uid: str
    bundle_id: str
    question: str
    type: BundleQuestionType
    answer: str
    """The answer in words; for choices the texts of the correct options, joined by `; `."""
    options: tuple[str, ...]
    """Texts of the options in the order of their letters; empty for open questions."""
    correct_options: tuple[str, ...]
    """Letters of the correct options."""
    hops: tuple[BundleHop, ...]
    dag_text: str
    """The plan as an agent writes it into `<search>`."""
    dag_nodes: tuple[PlanNode, ...]
    dag_edges: tuple[PlanEdge, ...]
    filters: tuple[FilterScore, ...]
    complexity: float
    """0 (easy) to 1 (hard); see `generators.document_bundles`."""
    curriculum_stage: int
    """1 … S, easy first."""
    preset: str
    provenance: Provenance
    aliases: tuple[str, ...] = ()
    """Other wordings of the answer: names, number forms."""
    key_facts: tuple[str, ...] = ()
    """What an explanation has to say to be right, all of it; wordings of one fact are parted by `|`."""
    as_of: str = ""
    """ISO date of the youngest document that its hops quote: as of then the answer holds. Empty without dates."""

    def asked(self) -> AskedQuestion:
        """As training asks it: options as letters. Its hops are quotations, not questions."""
        return AskedQuestion(
            id=self.uid,
            text=write_options(self.question, self.options),
            golds=(", ".join(sorted(self.correct_options)),) if self.options else (self.answer, *self.aliases),
            options=self.options,
            correct_options=self.correct_options,
            num_hops=len(self.hops),
            support_ids=tuple(dict.fromkeys(hop.document_id for hop in self.hops)),
            plan=self.dag_text,
            curriculum=(self.curriculum_stage, self.complexity),
            source_id=self.provenance.source_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A document as one search returned it."""

    STORED_AS: ClassVar[str] = "Passage"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    id: str
    """The document's id."""
    title: str
    text: str
    score: float
    """The retriever's score, higher is better; cosine for the dense retriever. Rounded to 6 decimals."""
