"""Why a bundle's question is rejected: first for what can be seen, then for what a model has to be asked.

Measured filters ask a `DocumentReader`: a model that answers a question from given documents, or from memory. A reading
that was cut shows nothing, so a question that hangs on one is not taken.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Protocol

from trailforge.filters.base import count_faults, reject_known
from trailforge.protocols.nl_dag import SearchPlan, validate
from trailforge.rewards import cover_exact_match, f1, mentions, normalize_answer, option_f1
from trailforge.schemas import Bundle, BundleInput, BundleQuestion, SourceDocument, Verdict

if TYPE_CHECKING:
    import numpy as np

_NAMED = re.compile(r"(?<![A-Za-z])([A-H])(?![A-Za-z])")
_CAUSE_AGREES = 0.5
"""F1 from which two explanations are taken for the same: no more than a rule, where no judge is asked."""
_SHORTEST_QUOTE = 3
"""Words: a shorter quote shows nothing."""
_LONGEST_FACT, _LONGEST_CAUSE = 15, 80
"""Words of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFilterConfig:
    """What is asked of a bundle's question."""

    closed_book_samples: int = 4
    """Draws without documents; one right answer rejects."""
    since: str | None = None
    """ISO date: every document has to be as young. None: any date."""


class DocumentReader(Protocol):
    """Answers from documents; without any, from what the model knows."""

    async def answer(self, row: BundleQuestion, documents: Sequence[SourceDocument], sample: int) -> str | None:
        """`sample`: number of the draw. None when the reply was cut: it is no answer, right or wrong."""
        ...


async def judge_question(
    row: BundleQuestion, item: BundleInput, reader: DocumentReader, config: BundleFilterConfig
) -> list[Verdict]:
    """Verdicts up to the first that rejects among those that ask a model; all of those that do not.

    The calls of a reader are made only for questions that are sound to look at.
    """
    documents = {document.id: document for document in item.documents}
    verdicts = judge_unread(row, item.bundle, documents, since=config.since)
    used = [documents[name] for name in dict.fromkeys(hop.document_id for hop in row.hops) if name in documents]
    for ask in (
        lambda: not_answerable(row, used, reader),
        lambda: fewer_documents_suffice(row, used, reader),
        lambda: closed_book(row, reader, samples=config.closed_book_samples),
    ):
        if not all(verdict.keep for verdict in verdicts):
            break
        verdicts.append(await ask())
    return verdicts


def judge_unread(
    row: BundleQuestion, bundle: Bundle, documents: Mapping[str, SourceDocument], *, since: str | None
) -> list[Verdict]:
    """Verdicts of all filters that ask no model. `documents`: those of the bundle by id."""
    return [
        unsupported_quote(row, documents),
        too_few_documents(row, bundle),
        single_source(row, documents),
        bad_options(row),
        invalid_plan(row),
        answer_in_question(row),
        stale_document(row, documents, since=since),
    ]


def unsupported_quote(row: BundleQuestion, documents: Mapping[str, SourceDocument]) -> Verdict:
    """Evidence does not stand in its document, word for word, up to white space.

    Score: share of the hops whose quote, of three words or more, occurs in their document.
    """
    wrong = [hop for hop in row.hops if not _occurs(hop.evidence, documents.get(hop.document_id))]
    detail = "" if row.hops else "no hop has evidence"
    if wrong:
        detail = f"{wrong[0].document_id} does not say {wrong[0].evidence[:100]!r}"
    score = 1 - len(wrong) / len(row.hops) if row.hops else 0.0
    return Verdict(keep=not detail, reason="unsupported_quote", score=score, detail=detail)


def too_few_documents(row: BundleQuestion, bundle: Bundle) -> Verdict:
    """The hops do not join two documents of their bundle. Score: how many of its documents they quote."""
    used = {hop.document_id for hop in row.hops}
    strange = used - set(bundle.document_ids)
    detail = f"{sorted(strange)[0]} is not in the bundle" if strange else ""
    if not detail and len(used) < 2:
        detail = "all evidence is in one document" if used else "no hop has evidence"
    return Verdict(keep=not detail, reason="too_few_documents", score=float(len(used - strange)), detail=detail)


def single_source(row: BundleQuestion, documents: Mapping[str, SourceDocument]) -> Verdict:
    """All evidence is of one source. Score: how many sources the hops quote.

    Bundles mix sources so that a question has to join what different ones say (R-Search, 4.1); a bundle of only the
    documents that such a question rests on would not have been made. Fewer than two documents are for
    `too_few_documents` to reject.
    """
    quoted = [documents[name] for name in {hop.document_id for hop in row.hops} if name in documents]
    sources = {document.origin for document in quoted}
    keep = len(sources) > 1 or len(quoted) < 2
    detail = "" if keep else f"all evidence is of {quoted[0].source}"
    return Verdict(keep=keep, reason="single_source", score=float(len(sources)), detail=detail)


def bad_options(row: BundleQuestion) -> Verdict:
    """Options or answer do not have the form that the type asks for. Score: 1 for the right form, else 0.

    Single choice: four or five options, one of them right. Multiple choice: five to seven, three to five right, and at
    least one wrong (R-Search asks for three to five of about six). Open questions have no options, and an answer.
    """
    problem = _choice_problem(row) if row.type in ("single_choice", "multiple_choice") else _open_problem(row)
    return Verdict(keep=problem is None, reason="bad_options", score=float(problem is None), detail=problem or "")


def invalid_plan(row: BundleQuestion) -> Verdict:
    """The gold plan is no valid NL-DAG, or does not search once for each hop. Score: how many rules it breaks."""
    problems = [problem.message for problem in validate(SearchPlan(nodes=row.dag_nodes, edges=row.dag_edges))]
    if len(row.dag_nodes) != len(row.hops):
        problems.append(f"{len(row.dag_nodes)} searches for {len(row.hops)} hops")
    return count_faults("invalid_plan", problems, str)


def answer_in_question(row: BundleQuestion) -> Verdict:
    """Its own words, or a query of the gold plan, give the answer away. Score: how many of them mention it.

    Options are there to be chosen from.
    """
    texts = () if row.options else (row.question, *(node.query for node in row.dag_nodes))
    leaks = [text for text in texts if mentions(text, row.answer)]
    return count_faults("answer_in_question", leaks, lambda text: f"{row.answer!r} stands in {text!r}")


def stale_document(row: BundleQuestion, documents: Mapping[str, SourceDocument], *, since: str | None) -> Verdict:
    """It rests on a document from before a date: what a model may have read in training.

    Score: days from `since` (ISO date) to the oldest document; 0 when nothing is asked. No date is too old.
    """
    if since is None:
        return Verdict(keep=True, reason="stale_document", score=0.0)
    used = [documents[hop.document_id] for hop in row.hops if hop.document_id in documents]
    undated = [document.id for document in used if not document.published]
    if undated or not used:
        detail = f"{(undated or ['no document'])[0]} has no date"
        return Verdict(keep=False, reason="stale_document", score=0.0, detail=detail)
    oldest = min(used, key=lambda document: document.published or "")
    days = (date.fromisoformat((oldest.published or "")[:10]) - date.fromisoformat(since)).days
    detail = f"{oldest.id} is of {oldest.published}, before {since}" if days < 0 else ""
    return Verdict(keep=days >= 0, reason="stale_document", score=float(days), detail=detail)


async def not_answerable(row: BundleQuestion, documents: Sequence[SourceDocument], reader: DocumentReader) -> Verdict:
    """All documents that the hops quote do not give the answer. Score: 1 when they do, else 0."""
    whole = await reader.answer(row, documents, 0)
    if whole is not None and is_right(whole, row):
        return Verdict(keep=True, reason="not_answerable", score=1.0)
    gold = ", ".join(row.correct_options) if row.options else row.answer
    given = f"all documents give {whole!r} and not {gold!r}"
    detail = "no verdict: the reading of all documents was cut" if whole is None else given
    return Verdict(keep=False, reason="not_answerable", score=0.0, detail=detail)


async def fewer_documents_suffice(
    row: BundleQuestion, documents: Sequence[SourceDocument], reader: DocumentReader
) -> Verdict:
    """One document alone, or all but one, give the answer. Score: share of these smaller sets that do not."""
    smaller = smaller_sets(documents)
    answers = await asyncio.gather(*(reader.answer(row, part, 0) for part in smaller))
    read = list(zip(smaller, answers, strict=True))
    enough = [part for part, answer in read if answer is not None and is_right(answer, row)]
    cut = [part for part, answer in read if answer is None]
    detail = f"no verdict: the reading of {_join_ids(cut[0])} was cut" if cut else ""
    detail = f"{_join_ids(enough[0])} give it" if enough else detail
    score = 1 - (len(enough) + len(cut)) / len(smaller) if smaller else 0.0
    return Verdict(keep=not detail, reason="fewer_documents_suffice", score=score, detail=detail)


async def closed_book(row: BundleQuestion, reader: DocumentReader, *, samples: int) -> Verdict:
    """The model answers without any document (R-Search: such a question would not need a search).

    Score: how near the best of so many draws comes (`closeness`); any right one rejects.
    """
    return await reject_known(
        lambda sample: reader.answer(row, (), sample),
        samples,
        is_right=lambda answer: is_right(answer, row),
        closeness=lambda answer: closeness(answer, row),
    )


def duplicate_question(row: BundleQuestion, vector: np.ndarray, earlier: Sequence[BundleQuestion], vectors: np.ndarray,
                       *, most_alike: float) -> Verdict:  # fmt: skip
    """It asks what an accepted question asks already, in the same words or others, or finds out the same.

    Score: cosine with its twin, 1 for the same words, or with the nearest accepted question when it has no twin;
    `vectors`: theirs, of length 1, shape (len(earlier), dim).

    The same words are one question whatever the vectors say. With other words a twin has the same answer, and is as
    near as `most_alike` or ends on the same evidence: by its vector `Where was X born?` is `In which year was X born?`.
    """
    if not earlier:
        return Verdict(keep=True, reason="duplicate_question", score=0.0)
    cosines = vectors @ vector
    words = normalize_answer(row.question)
    twin, score = next((e for e in earlier if normalize_answer(e.question) == words), None), 1.0
    for place in () if twin else (-cosines).argsort(kind="stable"):
        other = earlier[place]
        if (cosines[place] >= most_alike or _ends_alike(row, other)) and is_same_answer(row, other):
            twin, score = other, float(cosines[place])
            break
    if twin is None:
        return Verdict(keep=True, reason="duplicate_question", score=round(float(cosines.max()), 6))
    detail = f"as {twin.uid}: {twin.question!r}"
    return Verdict(keep=False, reason="duplicate_question", score=round(score, 6), detail=detail)


def is_right(answer: str, row: BundleQuestion) -> bool:
    """Is this the answer? Choices: exactly the correct options. Facts: it says the whole answer (cover-EM)."""
    if row.options:
        return set(_NAMED.findall(answer)) == set(row.correct_options)
    if row.type == "causal":
        return f1(answer, [row.answer]) >= _CAUSE_AGREES
    return cover_exact_match(answer, [row.answer], word_boundary=True) > 0


def closeness(answer: str, row: BundleQuestion) -> float:
    """How near an answer comes, 0 to 1: F1 of the words, or of the options."""
    if not row.options:
        return f1(answer, [row.answer])
    return option_f1(_NAMED.findall(answer), row.correct_options)


def is_same_answer(row: BundleQuestion, other: BundleQuestion) -> bool:
    """Do two questions have one answer? One says the other in whole words; what is longer than a fact says about it."""
    if "factual" not in (row.type, other.type) and f1(row.answer, [other.answer]) >= _CAUSE_AGREES:
        return True
    answers = permutations((row.answer, other.answer))
    return any(cover_exact_match(one, [asked], word_boundary=True) > 0 for one, asked in answers)


def smaller_sets(documents: Sequence[SourceDocument]) -> list[tuple[SourceDocument, ...]]:
    """Every single document, and every set that lacks one: each once."""
    sizes = dict.fromkeys((1, len(documents) - 1))
    return [part for size in sizes if size >= 1 for part in combinations(documents, size) if size < len(documents)]


def _occurs(quote: str, document: SourceDocument | None) -> bool:
    if document is None or len(quote.split()) < _SHORTEST_QUOTE:
        return False
    return _single_spaced(quote) in _single_spaced(f"{document.title} {document.text}")


def _single_spaced(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _open_problem(row: BundleQuestion) -> str | None:
    words = len(row.answer.split())
    longest = _LONGEST_CAUSE if row.type == "causal" else _LONGEST_FACT
    if row.options or row.correct_options:
        return f"a {row.type} question has no options"
    if not normalize_answer(row.answer):
        return "no answer"
    return f"{words} words are no {row.type} answer" if words > longest else None


def _choice_problem(row: BundleQuestion) -> str | None:
    letters = [chr(ord("A") + n) for n in range(len(row.options))]
    right = len(row.correct_options)
    fewest, most = (4, 5) if row.type == "single_choice" else (5, 7)
    if not fewest <= len(row.options) <= most:
        return f"{len(row.options)} options; a {row.type} question has {fewest} to {most}"
    if len({normalize_answer(option) for option in row.options}) < len(row.options):
        return "two options say the same"
    if not set(row.correct_options) <= set(letters) or len(set(row.correct_options)) < right:
        return f"correct options {', '.join(row.correct_options)} of {letters[0]} to {letters[-1]}"
    if row.type == "single_choice":
        return None if right == 1 else f"{right} correct options; a single_choice question has one"
    is_form = 3 <= right <= 5 and right < len(row.options)
    return None if is_form else f"{right} of {len(row.options)} options are correct"


def _join_ids(documents: Sequence[SourceDocument]) -> str:
    return " and ".join(document.id for document in documents)


def _ends_alike(row: BundleQuestion, other: BundleQuestion) -> bool:
    """Do the last hops quote the same words of the same document?"""
    a, b = row.hops[-1], other.hops[-1]
    return a.document_id == b.document_id and normalize_answer(a.evidence) == normalize_answer(b.evidence)
