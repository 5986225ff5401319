"""Records of collected documents, of bundles of related documents, and of the questions made of a bundle (R-Search)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trailforge.schemas.provenance import Provenance
from trailforge.schemas.question import AskedQuestion, Document, write_options
from trailforge.schemas.versions import Earlier, migration

SourceKind = Literal["news", "academic", "general"]
"""Kind of a source, which names the search tool that finds its documents: a search plan names News, Academic or
General."""
BundleQuestionType = Literal["factual", "causal", "single_choice", "multiple_choice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDocument:
    """A document from a source, normalised: one row of the table `documents`."""

    STORED_AS: ClassVar[str] = "SourceDocument"
    SCHEMA_VERSION: ClassVar[str] = "1.1"
    EARLIER: ClassVar[Earlier] = {"1.0": migration()}  # without `is_own_source`

    id: str
    """Unique id of the form `source:native id`."""
    source: str
    """Name of the feed, archive or file that the document comes from: `wikinews`, `arxiv`, …"""
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
    """Whether the document is independent of the others of its `source`, as in an archive that holds many publishers'
    reports."""

    @property
    def origin(self) -> str:
        """Return what counts as one source: the document itself for papers and where `is_own_source`, else its
        publisher or archive."""
        return self.id if self.is_own_source or self.kind == "academic" else self.source

    @property
    def document(self) -> Document:
        """Return the document in the form that retrievers index."""
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
    """A document's embedding vector, of length 1: one row of the table `embeddings`."""

    STORED_AS: ClassVar[str] = "DocumentEmbedding"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    document_id: str
    vector: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleLink:
    """The reasons why two documents are in one bundle."""

    first: str
    """Id of the first document."""
    second: str
    cosine: float
    """Cosine of the documents' vectors as bundling compares them; with `bundles.is_centred`, what all documents of an
    archive share is subtracted first."""
    names: tuple[str, ...] = ()
    """Named entities that both documents mention, case-folded, the most distinctive first."""
    days_apart: int | None = None
    """Days between the documents' dates; None when one date is unknown."""
    shared: float | None = None
    """Summed weight of all names that both documents have, which must reach `bundles.min_shared`. None in rows of
    earlier versions."""
    copied: float | None = None
    """Estimated share of the shorter document's text that the other one contains, 0 to 1. From one half on they count
    as copies, which no bundle holds. None in rows of earlier versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Two to four documents that belong together, of at least two origins (`SourceDocument.origin`)."""

    STORED_AS: ClassVar[str] = "Bundle"
    SCHEMA_VERSION: ClassVar[str] = "1.3"
    EARLIER: ClassVar[Earlier] = {"1.0": migration(), "1.1": migration(), "1.2": migration()}
    """Migrations of versions without `links`, without `askable`, and without `retold`, `worth`, `origins` and the
    fields `shared` and `copied` of links."""

    uid: str
    """Hash of the sorted document ids."""
    document_ids: tuple[str, ...]
    sources: tuple[str, ...]
    """Sources of the documents, in the order of the documents."""
    cohesion: float
    """Mean cosine over all pairs of documents."""
    theme: str
    """Words that the documents share and others rarely have, the most distinctive first."""
    links: tuple[BundleLink, ...] = ()
    """Reasons for each pair of documents, each pair once, in their order."""
    askable: int | None = None
    """How much each of the two best documents says, about what both name, that the other does not say, 0 to 8. None in
    rows of version 1.1 and before."""
    retold: float | None = None
    """Share of one document's content that the other also reports, 0 to 1: near 1 for two reports of one event. None in
    rows of version 1.2 and before."""
    worth: float | None = None
    """How much can be asked about the bundle; questions are asked of bundles in this order. It combines `askable` and
    `retold`, and is higher where few documents name what both name. None in rows of version 1.2 and before."""
    origins: tuple[str, ...] = ()
    """What counted as each document's source when bundles were made (`SourceDocument.origin`), in the order of the
    documents. A paper is its own origin, since its archive or conference holds many authors' work. Empty in rows of
    version 1.2 and before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleInput:
    """A bundle together with its documents, from which questions are made."""

    STORED_AS: ClassVar[str] = "BundleInput"
    SCHEMA_VERSION: ClassVar[str] = "1.4"
    EARLIER: ClassVar[Earlier] = dict.fromkeys(("1.0", "1.1", "1.2", "1.3"), migration())

    id: str
    """The bundle's uid."""
    bundle: Bundle
    documents: tuple[SourceDocument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleHop:
    """The part of a question that one document answers."""

    document_id: str
    evidence: str
    """Sentences quoted from the document as evidence."""
    reasoning: str
    """How this hop connects to the other hops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNode:
    """One search in the plan of a question, a directed acyclic graph in natural language (NL-DAG)."""

    node_id: str
    query: str
    tool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEdge:
    """A dependency in a search plan: node `dst` needs what node `src` finds."""

    src: str
    dst: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterScore:
    """The score that one filter gave a row, with the reason where it rejects."""

    name: str
    score: float
    passed: bool
    reason: str = ""
    """Why the row did not pass the filter; empty when it passed."""


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
    """The search plan as an agent writes it into `<search>`."""
    dag_nodes: tuple[PlanNode, ...]
    dag_edges: tuple[PlanEdge, ...]
    filters: tuple[FilterScore, ...]
    complexity: float
    """Complexity of the question from 0 (easy) to 1 (hard); see `generators.document_bundles`."""
    curriculum_stage: int
    """Stage of the curriculum, from 1 for the easiest questions."""
    preset: str
    provenance: Provenance
    aliases: tuple[str, ...] = ()
    """Other wordings of the answer, such as names and number forms."""
    key_facts: tuple[str, ...] = ()
    """Facts that an explanation has to state, all of them, to be right; alternative wordings of one fact are separated
    by `|`."""
    as_of: str = ""
    """ISO date of the youngest document that the hops quote: the answer holds as of that date. Empty without dates."""

    def asked(self) -> AskedQuestion:
        """Return the question as training asks it, with its options by letter. The hops are left out, since they hold
        quotations and not questions.
        """
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
