"""Collect what a run holds on one bundle: its documents, its questions, why some were rejected, why it is a bundle; and
the figures by which people choose among all bundles.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trailforge.pipelines.runs import OpenRun
from trailforge.pipelines.search import quote, search_rows
from trailforge.pipelines.show import DataTable, Fold, Parts, ShortLine, StyledText
from trailforge.schemas import (
    Bundle,
    BundleInput,
    BundleLink,
    BundleQuestion,
    InvalidInput,
    RejectedRow,
    SourceDocument,
    from_payload,
)

_ASKING = ("write", "filter", "select")
"""Stages that reject a bundle for its questions, or one of these."""
_NEAR = 1.1
"""Times what is asked: below, a figure is told as one that nearly was too little."""
_ROUNDING = 1e-6
"""Of cosines."""
_MUCH_SHARED = 0.25
"""Of a document's text, in another one: half as much as makes it a copy."""

Fate = Literal["kept", "rejected", "candidate"]
"""What became of a question. `candidate`: the filters of its bundle pass it, and the run has not chosen yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionOutcome:
    """A question of a bundle, and whether it was kept, rejected or is undecided."""

    row: BundleQuestion
    fate: Fate
    rejected: RejectedRow | None = None


def documents_of(run: OpenRun, bundle_id: str, ids: Sequence[str] = ()) -> tuple[SourceDocument, ...]:
    """Return a bundle's documents in its order. For a run that does not store them together, those of its documents
    that the run has; `ids` names them where the run has no row of the bundle either.
    """
    number = run.find("bundle_inputs", bundle_id)
    if number is not None:
        item: BundleInput = run.record("bundle_inputs", number)
        return item.documents
    number = run.find("bundles", bundle_id)
    if number is not None:
        bundle: Bundle = run.record("bundles", number)
        ids = bundle.document_ids
    numbers = [run.find("documents", id) for id in dict.fromkeys(ids)]
    return tuple(run.record("documents", number) for number in numbers if number is not None)


def questions_of(run: OpenRun, bundle_id: str) -> list[QuestionOutcome]:
    """Return a bundle's questions, each once: kept ones, then rejected ones, then those on which nothing is decided
    yet."""
    found: dict[str, QuestionOutcome] = {}
    for row in _rows(run, "bundle_questions", bundle_id):
        found[row.uid] = QuestionOutcome(row=row, fate="kept")
    for rejected in rejections_of(run, bundle_id):
        row = question_in(rejected)
        if row is not None and row.bundle_id == bundle_id and row.uid not in found:
            found[row.uid] = QuestionOutcome(row=row, fate="rejected", rejected=rejected)
    for row in _rows(run, "candidates", bundle_id):
        found.setdefault(row.uid, QuestionOutcome(row=row, fate="candidate"))
    return list(found.values())


def rejections_of(run: OpenRun, bundle_id: str) -> list[RejectedRow]:
    """Return the rejected rows that name a bundle or one of its questions. In a large run only the first part of the
    rejected rows is searched, until `pipelines.search.search_on` continues.
    """
    if "rejected" not in run.tables:
        return []
    return [run.record("rejected", number) for number in search_rows(run, "rejected", quote(bundle_id)).rows]


def question_in(rejected: RejectedRow) -> BundleQuestion | None:
    """Return the bundle question in a rejected row; None when the row holds something else."""
    try:
        return from_payload(BundleQuestion, json.loads(rejected.payload))
    except (ValueError, InvalidInput):
        return None


def _rows(run: OpenRun, table: str, bundle_id: str) -> Iterator[BundleQuestion]:
    if table in run.tables:
        for number in run.table(table).matching("bundle_id", bundle_id):
            yield run.record(table, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """How strongly a bundle is connected, measured on the document with the weakest links."""

    cosine: float
    """The mean cosine of this document to the others."""
    shared: float | None
    """The sum over shared names that this document reaches with half of the others; None where the run did not store
    it."""
    copied: float | None
    """The largest share of a document's text that another one holds; None where the run did not store it."""

    @classmethod
    def of(cls, ids: Sequence[str], links: Sequence[BundleLink], min_cosine: float) -> Hold | None:
        """Measure a bundle by the ids of its documents and the links between them; None where a document has no link.
        Shared names count only between documents whose cosine reaches `min_cosine`.
        """
        of = {id: [link for link in links if id in (link.first, link.second)] for id in ids}
        if not links or not all(of.values()):
            return None
        shared = [
            sorted(
                (link.shared or 0.0 if link.cosine >= min_cosine - _ROUNDING else 0.0 for link in joined), reverse=True
            )
            for joined in of.values()
        ]
        copied = [link.copied for link in links if link.copied is not None]
        return cls(
            cosine=min(sum(link.cosine for link in joined) / len(joined) for joined in of.values()),
            shared=min(sums[(len(sums) - 1) // 2] for sums in shared) if links[0].shared is not None else None,
            copied=max(copied, default=None),
        )


def asked_of(run: OpenRun) -> tuple[float, float]:
    """Return the mean cosine and the sum of weights of shared names that this run's bundles had to reach; 0 where the
    run does not say.
    """
    bundling: Mapping[str, Any] = run.config.get("bundles") or {}
    return bundling.get("min_cosine") or 0.0, bundling.get("min_shared") or 0.0


def list_columns(run: OpenRun) -> Mapping[str, Sequence[Any]]:
    """Return the columns, by name, that the inspector's list of bundles shows beside those that the table stores."""
    table = run.table("bundles")
    names = [name for name in ("uid", "document_ids", "links") if name in table.schema.names]
    rows, min_cosine = table.select(names).to_pylist(), asked_of(run)[0]
    outcomes = outcomes_of(run)
    holds = [
        Hold.of(row["document_ids"], [BundleLink(**link) for link in row.get("links") or ()], min_cosine)
        for row in rows
    ]  # fmt: skip
    return {
        "outcome": [outcomes.get(row["uid"], "not asked") for row in rows],
        "least_cosine": [hold and hold.cosine for hold in holds],
        "shared_names": [hold and hold.shared for hold in holds],
        "shared_text": [hold and hold.copied for hold in holds],
    }


def outcomes_of(run: OpenRun) -> Mapping[str, str]:
    """Return by bundle's id what became of each bundle that questions were written about: `kept`, `waiting`, or why
    most of its questions were rejected.
    """
    return run.once(("outcomes",), lambda: _outcomes(run))


def _outcomes(run: OpenRun) -> dict[str, str]:
    reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)
    rejected = list(_rejected_for_questions(run))
    for row in rejected:
        reasons[_bundle_of(row["payload"]) or row["uid"]][row["reason"]] += 1
    outcomes = {id: min(found, key=lambda reason: (-found[reason], reason)) for id, found in reasons.items()}
    gone = {row["uid"] for row in rejected}
    for table, fate in (("candidates", "waiting"), ("bundle_questions", "kept")):
        if table in run.tables:
            known = run.table(table).select(["uid", "bundle_id"]).to_pylist()
            outcomes |= {row["bundle_id"]: fate for row in known if row["uid"] not in gone}
    return outcomes


def _rejected_for_questions(run: OpenRun) -> Iterator[dict[str, Any]]:
    """Only these rows are read whole: those of documents hold texts."""
    if "rejected" in run.tables:
        table = run.table("rejected")
        for number in sorted(number for stage in _ASKING for number in table.matching("stage", stage)):
            yield table.row(number)


def _bundle_of(payload: str) -> str:
    """The bundle that a rejected question is of; empty for what is no question."""
    try:
        content = json.loads(payload)
    except ValueError:
        return ""
    return content.get("bundle_id", "") if isinstance(content, dict) else ""


def meanings(run: OpenRun) -> Mapping[str, str]:
    """Return an explanation of each column of the inspector's list of bundles, by the column's name."""
    min_cosine, min_shared = asked_of(run)
    return {
        "outcome": "kept: a question of it is in the data set; waiting: its candidates are not chosen among yet; else "
        "why most of its questions were rejected",
        "least_cosine": "mean cosine to the others of the document that is least like them, as bundling compares them"
        + (f"; `bundles.min_cosine` asks for {min_cosine:g}" if min_cosine else ""),
        "shared_names": "sum over the names that the document with the least of them shares, by how rare they are"
        + (f"; `bundles.min_shared` asks for {min_shared:g}" if min_shared else ""),
        "shared_text": "largest share of a document's text that another one holds; 0.5 would be a copy",
        "worth": "what can be asked about it: bundles are asked in this order",
        "retold": "how much of the one of its two best documents the other tells, too: near 1 for two reports of one "
        "event",
        "askable": "what each of its two best documents says of what both name, and the other does not say, 0 to 8",
    }


def chips_of(run: OpenRun, row: Bundle) -> list[StyledText]:
    """Return short labels that say how strongly a bundle is connected, and how much can be asked about it."""
    (min_cosine, min_shared), told = asked_of(run), meanings(run)
    hold = Hold.of(row.document_ids, row.links, min_cosine)
    chips: list[StyledText] = []
    if hold is None:
        chips.append(StyledText(f"cohesion {row.cohesion:.2f}", "", "mean cosine over all pairs of its documents"))
    else:
        chips.append(_figure("cosine", hold.cosine, min_cosine, told["least_cosine"]))
    if hold is not None and hold.shared is not None:
        chips.append(_figure("names", hold.shared, min_shared, told["shared_names"]))
    if hold is not None and hold.copied is not None:
        kind = "warn" if hold.copied >= _MUCH_SHARED else ""
        chips.append(StyledText(f"shared text {hold.copied:.0%}", kind, told["shared_text"]))
    known = {"worth": row.worth, "askable": row.askable, "retold": row.retold}
    return [
        *chips,
        *(StyledText(f"{name} {value:.3g}", "", told[name]) for name, value in known.items() if value is not None),
    ]


def _figure(name: str, value: float, asked: float, meaning: str) -> StyledText:
    """A figure beside what is asked for, marked where it hardly reaches that."""
    text = f"{name} {value:.2f}" + (f" ≥ {asked:g}" if asked else "")
    return StyledText(text, "warn" if asked and value < _NEAR * asked else "", meaning)


def reasons_of(run: OpenRun, row: Bundle) -> Parts:
    """Explain in words, pair by pair, why the documents of a bundle are together."""
    min_cosine, min_shared = asked_of(run)
    place = {id: number for number, id in enumerate(row.document_ids, start=1)}
    pairs = [
        {
            "documents": f"{place.get(link.first, '?')} and {place.get(link.second, '?')}",
            "cosine": round(link.cosine, 2),
            "names": None if link.shared is None else round(link.shared, 2),
            "shared text": None if link.copied is None else f"{link.copied:.0%}",
            "days apart": link.days_apart,
            "both speak of": ", ".join(link.names) or "no name",
        }
        for link in row.links
    ]
    told = {
        "cosine": "how alike they are to bundling: with `is_centred`, less what their archives have in common; a "
        f"document's mean has to reach {min_cosine:g}",
        "names": f"sum over the names that both have, by how rare they are; {min_shared:g} with half of the others",
        "shared text": "share of the shorter one's text that the other holds; marked in the documents below",
        "days apart": "nothing where a date is unknown",
        "both speak of": "named entities of both documents, those that say most first",
    }
    return [Fold("Why they are together", [DataTable(pairs, told)], is_open=True)] if pairs else []


def brief(run: OpenRun, row: Bundle) -> Parts:
    """Show a bundle in a list of many in at most five lines, with the full date and source of each document."""
    figures = [piece for chip in chips_of(run, row) for piece in (" · ", chip)]
    names = ", ".join(dict.fromkeys(name for link in row.links for name in link.names)) or row.theme
    begin = (StyledText(row.uid, "strong"), f" {outcomes_of(run).get(row.uid, 'not asked')}", *figures[:4])
    known = {document.id: document for document in documents_of(run, row.uid)}
    documents = [
        ShortLine(
            (f"  {document.published or 'no date':10}  ", StyledText(document.source, "step")), f"  {document.title}"
        )
        if (document := known.get(id))
        else ShortLine(("  unknown     ", StyledText(source, "step")), f"  {id}")
        for id, source in zip(row.document_ids, row.sources, strict=True)
    ]
    return [ShortLine(begin, (*figures[4:], " · ", StyledText(names, "quiet"))), *documents]
