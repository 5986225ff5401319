"""Finds the documents of a question in the searched passages: by title, by id, and by their own words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from trailforge.pipelines.sources import AuditedDocument
from trailforge.retrieval import ngrams_of, split_sentences, words_of
from trailforge.retrieval.indexes import source_of
from trailforge.schemas import Document, Question, SupportingDocument

_RUN = 5
"""Words of a run, by which texts are compared: one word is in many texts, five in a row are in few others."""
_MOST_WORDS = 0.5
"""Share of a document's own words from which on a text is that document, in whatever version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedDocument:
    """A document (a title, an id or a text) from which a question is to be answered."""

    document: SupportingDocument
    text: str
    """Text of the document; empty where it is not known."""
    hops: tuple[int, ...] = ()
    """Numbers, from 1, of the hops that rest on the document; empty when that is not annotated."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return the sentences of the document's text; the facts stored with it, where the text is these joined."""
        has_paragraph = self.text != " ".join(self.document.facts)
        return tuple(split_sentences(self.text)) if has_paragraph else self.document.facts

    @property
    def is_unknown(self) -> bool:
        """Tell whether nothing identifies this document: the hop names none, although other hops of the question name
        theirs.
        """
        return not self.document.title and self.document.id is None


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A wanted document together with the passages of the corpus that were taken to be it, joined into one text."""

    wanted: WantedDocument
    audited: AuditedDocument
    """What the audit's table says of the document."""
    texts: tuple[Document, ...] = ()
    """The passages; empty where none was found."""


def wanted_documents(question: Question) -> tuple[WantedDocument, ...]:
    """Return the documents that a question rests on, in the order of the hops; empty where nothing says which.

    A hop without a document counts as one whose document is unknown, where the data set names those of other hops.
    """
    hops: dict[str, list[int]] = {}
    for number, hop in enumerate(question.decomposition[: question.num_hops or None], start=1):
        if hop.support_id is not None:
            hops.setdefault(hop.support_id, []).append(number)
    known = tuple(
        WantedDocument(
            document=each, text=question.support_text(each), hops=tuple(hops.get(each.id, ())) if each.id else ()
        )
        for each in question.supporting_documents
    )
    if question.supporting or not hops:
        return known
    found = {number for numbers in hops.values() for number in numbers}
    without = [n for n in range(1, len(question.decomposition[: question.num_hops or None]) + 1) if n not in found]
    missing = tuple(
        WantedDocument(document=SupportingDocument(title=""), text="", hops=(number,)) for number in without
    )
    return tuple(sorted((*known, *missing), key=lambda each: each.hops))


@dataclass(slots=True)
class Shelf:
    """The passages of a corpus that may be one of the wanted documents; of all others only the number is kept."""

    titles: dict[str, list[Document]] = field(default_factory=dict)
    """Passages by the words of their titles."""
    ids: dict[str, list[Document]] = field(default_factory=dict)
    """Passages by their id, and by the id of the document that they were cut from."""
    texts: dict[str, list[Document]] = field(default_factory=dict)
    passages: int = 0

    @classmethod
    def over(cls, passages: Iterable[Document], wanted: Iterable[WantedDocument]) -> Shelf:
        """Collect the passages that may be one of `wanted`."""
        shelf, asked = cls(), list(wanted)
        titles = {_key(each.document.title) for each in asked} - {""}
        ids = {each.document.id for each in asked if each.document.id is not None}
        texts = {_key(each.text) for each in asked if each.text}
        for passage in passages:
            shelf.passages += 1
            if (title := _key(passage.title)) in titles:
                shelf.titles.setdefault(title, []).append(passage)
            for id in ids & {passage.id, source_of(passage.id)}:
                shelf.ids.setdefault(id, []).append(passage)
            if texts and (text := _key(passage.text)) in texts:
                shelf.texts.setdefault(text, []).append(passage)
        return shelf

    @classmethod
    def of_paragraphs(cls, question: Question, wanted: Iterable[WantedDocument]) -> Shelf:
        """Collect those of a question's own paragraphs that may be one of `wanted`, by id or title."""
        return cls.over(question.paragraphs, (replace(each, text="") for each in wanted))

    def find(self, wanted: WantedDocument, *, ids_are_its_own: bool) -> FoundDocument:
        """Return the passages that are the wanted document.

        `ids_are_its_own` says that ids identify these passages, as with a question's own paragraphs; then a passage
        with the document's id is the document. Otherwise a passage with its title is, and where the document's text is
        known it must also have most of its own words.
        """
        document = wanted.document
        titled = self.titles.get(_key(document.title), []) if document.title else []
        named = self.ids.get(document.id, []) if document.id is not None else []
        its_own = [each for each in named if each.id == document.id] if ids_are_its_own else []
        if not wanted.text:
            taken = its_own or (titled if document.title else named)  # another corpus has the same ids for others
            return _found(wanted, taken, titled, named, by_words=None)
        alike = self.texts.get(_key(wanted.text), [])
        candidates = list({each.id: each for each in (*alike, *titled, *named)}.values())
        own = {run for sentence in wanted.sentences for run in ngrams_of(sentence, _RUN)}
        had = [(_runs(each, own), each) for each in candidates]
        whole = len(set().union(*(runs for runs, _ in had))) / max(1, len(own))
        taken = its_own or ([each for runs, each in had if runs] if whole >= _MOST_WORDS else [])
        return _found(wanted, taken, titled, named, by_words=round(whole, 3))


def take_for(found: FoundDocument) -> FoundDocument:
    """Return the document with every passage of its title taken for it, even those whose wording differs from the
    wanted text.
    """
    return replace(
        found, audited=replace(found.audited, is_there=True, passages=tuple(each.id for each in found.texts))
    )


def _found(
    wanted: WantedDocument,
    taken: Sequence[Document],
    titled: Sequence[Document],
    named: Sequence[Document],
    *,
    by_words: float | None,
) -> FoundDocument:
    audited = AuditedDocument(
        title=wanted.document.title,
        hops=wanted.hops,
        is_there=bool(taken),
        by_title=bool(titled),
        by_id=bool(named),
        by_words=by_words,
        passages=tuple(each.id for each in taken),
    )
    return FoundDocument(wanted, audited, tuple(taken) or tuple(titled))


@lru_cache(maxsize=65_536)
def _key(text: str) -> str:
    return " ".join(words_of(text))


def _runs(passage: Document, own: set[str]) -> set[str]:
    """Those of a document's runs of words that a passage has."""
    text = f" {_key(passage.text)} "
    return {run for run in own if f" {run} " in text}
