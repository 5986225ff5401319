"""Records of documents, and of multi-hop questions with their gold answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from trailforge.schemas.versions import Earlier, migration


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text that can be retrieved."""

    STORED_AS: ClassVar[str] = "Document"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    id: str
    """Id that is unique among a question's paragraphs, or in a corpus."""
    title: str
    text: str
    source: str = ""
    """Source of the document (`musique`, `arxiv`, a feed's name); empty when unknown."""
    published: str | None = None
    """ISO 8601 date of publication; None when unknown."""
    language: str | None = None
    """ISO 639-1 code; None when unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One step of a gold decomposition."""

    question: str
    """Question of this hop, which may refer to the answer of an earlier hop as `#k` (1-based)."""
    answer: str
    support_id: str | None = None
    """Id of the supporting document among the question's paragraphs; None when it is not known."""


_COMPARED = re.compile(r"(?:^|; )(.+?): (#\d+(?:, #\d+)*)(?=; |$)")


def word_comparison(asked: str, found: Mapping[str, Sequence[int]]) -> str:
    """Return the last hop of a comparison: the question, and in brackets what was found about each thing that it
    compares. `found` has the numbers (from 1) of the hops about each of them.
    """
    branches = (f"{name}: {', '.join(f'#{number}' for number in numbers)}" for name, numbers in found.items())
    return f"{asked} ({'; '.join(branches)})"


def compared_names(asked: str, hop: str) -> tuple[str, ...]:
    """Return the names that a hop made by `word_comparison` compares; none for any other hop."""
    rest = hop.removeprefix(asked)
    is_comparison = hop.startswith(asked) and rest.startswith(" (") and rest.endswith(")")
    return tuple(match[1] for match in _COMPARED.finditer(rest[2:-1])) if is_comparison else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportingDocument:
    """A document that the answer rests on, as the data set annotates it."""

    title: str
    id: str | None = None
    """Id of the document among the question's paragraphs; None when it is not one of them."""
    facts: tuple[str, ...] = ()
    """Sentences of the document that matter for the answer; empty where the data set names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuestion:
    """A question as training asks it, returned by `asked` of each record that has questions to train on; it is not
    stored.
    """

    id: str
    text: str
    """Text of the question, with its options one a line."""
    golds: tuple[str, ...]
    """The gold answer, then its aliases."""
    source_id: str
    """Id of the source; see `Provenance.source_id`."""
    num_hops: int | None
    """Number of facts to be looked up; see `Question.num_hops`. None when it is not known."""
    hops: tuple[Hop, ...] = ()
    support_titles: tuple[str, ...] = ()
    """Titles of the documents that the answer rests on; empty where the row does not have them."""
    support_texts: tuple[str, ...] = ()
    """Texts of the documents in `support_titles`, in the same order; an empty text where one is not known."""
    support_ids: tuple[str, ...] = ()
    """Ids of the documents that the answer rests on, where only the run's corpus has their titles."""
    options: tuple[str, ...] = ()
    correct_options: tuple[str, ...] = ()
    """Letters of the correct options."""
    plan: str = ""
    """The gold search plan; empty where there is none."""
    curriculum: tuple[int, float] | None = None
    """Stage and difficulty in a curriculum; None when they follow from the number of hops."""


QuestionKind = Literal["text", "options", "set"]
"""Kind of answer. `text`: one answer, in words. `options`: letters. `set`: several answers, all of which are asked
for."""


def write_options(question: str, options: Sequence[str]) -> str:
    """Return a question with its options by letter, one a line, or unchanged where it already has them."""
    lettered = "".join(f"\n{chr(ord('A') + place)}. {option}" for place, option in enumerate(options))
    return question if question.endswith(lettered) else question + lettered


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question with its gold answer and, where the data set gives them, its annotations and paragraphs."""

    STORED_AS: ClassVar[str] = "Question"
    SCHEMA_VERSION: ClassVar[str] = "1.2"
    EARLIER: ClassVar[Earlier] = dict.fromkeys(("1.0", "1.1"), migration())

    id: str
    question: str
    """Text of the question, with its options one a line."""
    answer: str
    """The gold answer: in words; the letters of the correct options; or, for a set of answers, all of them in one
    line."""
    answer_aliases: tuple[str, ...] = ()
    """Other accepted spellings, without `answer` itself."""
    decomposition: tuple[Hop, ...] = ()
    """Gold hops in topological order, the last one's answer being the question's; empty when the data set has none.

    A hop after the first `num_hops` is not searched for: it compares what the ones before it found.
    """
    paragraphs: tuple[Document, ...] = ()
    """Documents that this question is asked over; empty for questions over a corpus."""
    dataset: str = ""
    answer_id: str | None = None
    """Id of the answer's entity in Wikidata (`Q142`); None when the data set does not name it."""
    num_hops: int | None = None
    """Number of facts to be looked up, as the data set annotates it; None when it is the length of `decomposition`."""
    supporting: tuple[SupportingDocument, ...] = ()
    """Documents that the answer rests on, as the data set annotates them; when empty, those of the decomposition are
    taken."""
    options: tuple[str, ...] = ()
    """Texts of the options A, B, …; empty for an open question."""
    correct_options: tuple[str, ...] = ()
    """Letters of the correct options: one where only one may be chosen, or several."""
    answer_set: tuple[str, ...] = ()
    """All answers that are asked for, in any order; empty where one answer is asked for."""

    @property
    def kind(self) -> QuestionKind:
        """Return the kind of answer that the question asks for."""
        return "options" if self.correct_options else "set" if self.answer_set else "text"

    @property
    def golds(self) -> tuple[str, ...]:
        """Return the gold answer, then its aliases."""
        return (self.answer, *self.answer_aliases)

    @property
    def hop_count(self) -> int | None:
        """Return the number of facts to be looked up; None when it is not known."""
        return self.num_hops or len(self.decomposition) or None

    @property
    def supporting_documents(self) -> tuple[SupportingDocument, ...]:
        """Return the documents that the answer rests on, each once; from a decomposition only those among the
        paragraphs."""
        if self.supporting:
            return self.supporting
        titles = {paragraph.id: paragraph.title for paragraph in self.paragraphs}
        ids = dict.fromkeys(hop.support_id for hop in self.decomposition if hop.support_id in titles)
        return tuple(SupportingDocument(id=key, title=titles[key]) for key in ids if key is not None)

    def support_text(self, document: SupportingDocument) -> str:
        """Return the text of a supporting document: its paragraph, else its facts; empty when neither is known."""
        paragraph = next((each.text for each in self.paragraphs if each.id == document.id), "")
        return paragraph or " ".join(document.facts)

    def asked(self) -> AskedQuestion:
        """Return the question as training asks it."""
        supporting = self.supporting_documents
        return AskedQuestion(
            id=self.id,
            text=self.question,
            golds=self.golds,
            num_hops=self.hop_count,
            hops=self.decomposition,
            support_titles=tuple(document.title for document in supporting),
            support_texts=tuple(map(self.support_text, supporting)),
            source_id=f"{self.dataset}:{self.id}",
            options=self.options,
            correct_options=self.correct_options,
        )
