"""Turn documents as they were read into documents worth bundling: cleaned, filtered, and each text only once.

    read -> normalise -> content -> exact duplicates -> near duplicates -> write by shard

Exact copies meet in a GroupByKey, so no worker holds all texts; for near copies the signatures of all documents, 1 KB
each, are in one place. What becomes of a document depends on no order in which a runner brings them. `normalise` and
what it calls are idempotent: what they return they leave as it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from trailforge.filters import first_rejection
from trailforge.generators.document_bundles.bundling.content import ContentConfig, judge_content
from trailforge.generators.document_bundles.bundling.duplicates import (
    DuplicateConfig,
    Order,
    exact_key,
    find_near_copies,
    order_of,
    signature,
)
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.inference import Usage
from trailforge.pipelines import StageRun
from trailforge.pipelines.engine import Receipt, Shard, Steps, missing_shards, rejected_row, write_receipt, write_table
from trailforge.pipelines.runs import stage
from trailforge.retrieval.papers import is_paper_heading
from trailforge.schemas import RejectedRow, SourceDocument, StageCount, Verdict, read_parquet, to_dict

if TYPE_CHECKING:
    from trailforge.pipelines.engine import Begin, Collection

NAME = "clean"
TABLE = "documents"
EXACT, NEAR = "exact_duplicate", "near_duplicate"
_STAGES = (("content", None), ("exact_duplicates", EXACT), ("near_duplicates", NEAR))
"""Of the books, in order, and the reason for which each rejects; the first has reasons of its own."""
_FEWEST_REPEATS, _LEAST_SHARE = 5, 0.05
"""Documents of its source that a line has to stand in to be the site's: see `repeated_lines`."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A document with the shard it was read from, its place there, and whether it is kept."""

    shard: str
    index: int
    document: SourceDocument
    rejection: Verdict | None = None
    """Why the document is rejected; None: it stays."""

    @property
    def order(self) -> Order:
        """Return the sort key by which one of several copies is kept, the smallest: the earliest date, then the
        smallest id.
        """
        return order_of(self.document.published, self.document.id)


Repeated: TypeAlias = Mapping[str, frozenset[str]]
"""For each source the keys of lines that belong to the site and not to its articles."""


def clean(run: StageRun) -> None:
    """Write the tables `documents` and `rejected` of a run, a file for each shard, unless all files are there. Raises
    what `beam_pipeline` raises.
    """
    missing = missing_shards(run.folder, run.shards)
    if not missing:
        return
    from trailforge.pipelines.engine import beam_pipeline

    names = frozenset(shard.name for shard in missing)
    folder, config = str(run.folder), run.config
    with beam_pipeline(run.folder, run.arguments, run.config.schedule.patience) as begin:
        steps = Steps(run.folder)
        read = begin.spread("Shards", run.shards).flat_map("Read", _read, folder, steps)
        outcomes = _outcomes(begin, read, config, steps)
        by_shard = outcomes.map("By shard", lambda outcome: (outcome.shard, outcome)).group("Of a shard")
        by_shard.filter("Missing", lambda group: group[0] in names).map("Write", _write, folder)


def next_shards(receipts: Sequence[Receipt], suffix: str) -> tuple[Shard, ...]:
    """Return the shards of the documents that cleaning kept, by its receipts, for the next stage. `suffix` is added to
    the names of the files that it makes from them.
    """
    shards: list[Shard] = []
    first = 0
    for receipt in receipts:
        for entry in receipt.files:
            if entry.path.startswith(f"{TABLE}/"):
                name, of = f"{receipt.shard}-{suffix}", entry.sha256
                shards.append(Shard(name=name, input=entry.path, first=first, rows=entry.rows, made_of=of))
                first += entry.rows
    return tuple(shards)


def _outcomes(begin: Begin, read: Collection, config: BundleRunConfig, steps: Steps) -> Collection:
    judged = read.map("Normalise and judge", _judge, _repeated(begin, read), config.content, steps)
    rejected = judged.filter("Unfit", lambda outcome: outcome.rejection is not None)
    fit = judged.filter("Fit", lambda outcome: outcome.rejection is None)
    once = _without(begin, fit, _exact_twins(fit), EXACT)
    twice = once.filter("Exact copies", lambda outcome: outcome.rejection is not None)
    single = once.filter("No exact copies", lambda outcome: outcome.rejection is None)
    rest = _without(begin, single, _near_twins(begin, single, config.duplicates, steps), NEAR)
    return begin.merge("All", rejected, twice, rest)


def _read(shard: Shard, folder: str, steps: Steps) -> Iterator[Placed]:
    for index, document in enumerate(read_parquet(Path(folder) / shard.input, SourceDocument)):
        yield Placed(shard.name, index, document)
        steps.count("read")


def _repeated(begin: Begin, read: Collection) -> Collection:
    """One mapping, of `Repeated`."""
    lines = (
        read.flat_map("Lines", lambda p: [((p.document.source, key), 1) for key in _line_keys(p.document)])
        .add_up("Line counts")
        .filter("Frequent", lambda item: item[1] >= _FEWEST_REPEATS)
    )
    totals = read.map("Sources", lambda p: (p.document.source, 1)).add_up("Documents of a source")
    return begin.gather("Repeated", _repeated_by_source, lines, totals)


def _line_keys(document: SourceDocument) -> set[str]:
    return line_keys(document.text, is_paper=document.kind == "academic")


def _repeated_by_source(lines: Iterable[tuple[tuple[str, str], int]], documents: Iterable[tuple[str, int]]) -> Repeated:
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (source, key), count in lines:
        counts[source][key] = count
    totals = dict(documents)
    return {source: repeated_lines(of_source, totals[source]) for source, of_source in counts.items()}


def _judge(placed: Placed, repeated: Repeated, config: ContentConfig, steps: Steps) -> Placed:
    document = normalise_document(placed.document, repeated.get(placed.document.source, frozenset()))
    steps.count("judged")
    return replace(placed, document=document, rejection=first_rejection(judge_content(document, config)))


def _exact_twins(fit: Collection) -> Collection:
    """(id of a copy, id of the document that stays)."""
    keyed = fit.map("Exact keys", lambda o: (exact_key(o.document.title, o.document.text), o.order))
    return keyed.group("Same text").flat_map("Exact twins", lambda group: _stars(sorted(group[1])))


def _stars(orders: Sequence[Order]) -> Iterator[tuple[str, str]]:
    return ((other[1], orders[0][1]) for other in orders[1:])


def _near_twins(begin: Begin, single: Collection, config: DuplicateConfig, steps: Steps) -> Collection:
    """(id of a near copy, id of the document that stays)."""
    signatures = single.map("Signatures", lambda o: (o.order, signature(o.document.text)))
    search = partial(_search_copies, config=config, steps=steps)
    return begin.gather("Near copies", search, signatures).flat_map("Near twins", dict.items)


def _search_copies(signed: list[tuple[Order, np.ndarray]], config: DuplicateConfig, steps: Steps) -> dict[str, str]:
    done = 0

    def show(share: float) -> None:
        nonlocal done
        steps.count("compared", int(share * len(signed)) - done, at_once=True)
        done = int(share * len(signed))

    return find_near_copies(dict(signed), config, show)


def _without(begin: Begin, outcomes: Collection, twins: Collection, reason: str) -> Collection:
    """The outcomes, those of copies rejected with the id of the kept twin."""
    by_id = outcomes.map(f"Ids, {reason}", lambda o: (o.document.id, o))
    found = begin.join(f"Twins, {reason}", outcome=by_id, twin=twins)
    return found.map(f"Rejected, {reason}", _with_twin, reason)


def _with_twin(group: tuple[str, Mapping[str, Sequence]], reason: str) -> Placed:
    _, found = group
    (outcome,) = found["outcome"]
    for twin in found["twin"]:
        return replace(outcome, rejection=Verdict(keep=False, reason=reason, score=1.0, detail=f"copy of {twin}"))
    return outcome


def _write(group: tuple[str, Iterable[Placed]], folder: str) -> str:
    shard, outcomes = group
    ordered = sorted(outcomes, key=lambda outcome: outcome.index)
    kept = [outcome.document for outcome in ordered if outcome.rejection is None]
    rejected = [_rejected(o.document, o.rejection) for o in ordered if o.rejection is not None]
    root = Path(folder)
    files = (
        write_table(root, TABLE, shard, SourceDocument, kept),
        write_table(root, "rejected", shard, RejectedRow, rejected),
    )
    write_receipt(
        root,
        Receipt(
            shard=shard,
            files=tuple(entry for entry in files if entry is not None),
            stages=tuple(_books(len(ordered), Counter((row.stage, row.reason) for row in rejected))),
            usage=Usage(),
        ),
    )
    return shard


def _rejected(document: SourceDocument, verdict: Verdict) -> RejectedRow:
    at = next((name for name, reason in _STAGES if reason == verdict.reason), _STAGES[0][0])
    return rejected_row(at, document.id, verdict, to_dict(document))


def _books(documents: int, rejected: Counter[tuple[str, str]]) -> Iterator[StageCount]:
    left = documents
    for name, _ in _STAGES:
        reasons = [reason for (at, reason), count in sorted(rejected.items()) if at == name for _ in range(count)]
        yield stage(name, inputs=left, accepted=left - len(reasons), rejected=reasons)
        left -= len(reasons)


_INVISIBLE = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b\u2060\ufeff\ufff9-\ufffb\ud800-\udfff]")
"""Control characters that are no white space, soft hyphens, zero-width spaces, byte order marks, lone surrogates.

Joiners and marks of direction stay: Persian, Indic scripts and Hebrew need them.
"""
_DIGITS = re.compile(r"\d+")

_MOST_BOILERPLATE_WORDS = 30
"""A longer line is a paragraph, which may well speak of cookies or newsletters."""
_SITES = r"(?:facebook|twitter|linkedin|whatsapp|reddit|pinterest|telegram|bluesky|e-?mail|print|copy link)"
_BOILERPLATE = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"^(?:©|\(c\)|copyright\b).*(?:\d{4}|reserved|limited|ltd|inc)\b",
        r"\ball rights reserved\b",
        rf"^(?:(?:share|tweet|pin|post|save|send|like|e-?mail)\b[\s:|,]*)?(?:(?:this|on|via|to|by|with|and|article|story|page)\b\s*)*"
        rf"(?:{_SITES}[\s:|,/·•]*)+$",
        r"^(?:share|tweet|pin it|share (?:this|the) (?:article|story|page|post)|share this:?|print this page)$",
        r"\b(?:we|site|website|page) uses? (?:\w+ ){0,3}cookies\b",
        r"^(?:accept|reject|manage|allow)(?: all| your)? cookies?\b|^cookie (?:policy|settings|notice|preferences)$",
        r"\b(?:sign up|subscribe|join)\b.*\b(?:newsletters?|inbox|mailing list|e-?mail updates)\b",
        r"^(?:follow|like|join|find) us (?:on|at)\b",
        r"^(?:advertisement|sponsored(?: content)?)$",
        r"^(?:skip to (?:main )?content|back to top|read more:?|continue reading)$",
        r"^(?:click|tap) here (?:to|for)\b",
        r"^(?:privacy policy|terms of (?:use|service)|contact us|about us|log ?in|sign in|menu|search)"
        r"(?:\s*+[|·•/]\s*+\w[\w ]*+)*+$",
        r"^(?:related|recommended|more|most read)(?: articles| stories| posts| news)$",
    )
]


def normalise(text: str, repeated: Container[str] = frozenset()) -> str:
    """Clean a text: NFC, one space between words, at most one empty line, no boilerplate.

    `repeated`: keys of lines to drop, of this document's source; see `repeated_lines`.
    """
    kept: list[str] = []
    for raw in text.splitlines():
        line = one_line(raw)
        if line and (is_boilerplate(line) or line_key(line) in repeated):
            continue
        if line or (kept and kept[-1]):  # no empty line at the start or after another
            kept.append(line)
    return "\n".join(kept).rstrip("\n")


def normalise_document(document: SourceDocument, repeated: Container[str] = frozenset()) -> SourceDocument:
    """Return the document with cleaned title and text."""
    return replace(document, title=one_line(document.title), text=normalise(document.text, repeated))


def one_line(text: str) -> str:
    """Clean a title or line: NFC, without invisible characters, with one space between words."""
    return " ".join(unicodedata.normalize("NFC", _INVISIBLE.sub("", text)).split())


def is_boilerplate(line: str) -> bool:
    """Tell whether a cleaned line is a site's own: share buttons, cookie notices, sign-ups, copyright, navigation."""
    return len(line.split()) <= _MOST_BOILERPLATE_WORDS and any(pattern.search(line) for pattern in _BOILERPLATE)


def line_key(line: str) -> str:
    """Return the key of a cleaned line, which ignores case and numbers, so that `Page 2` and `page 3` have one key."""
    return _DIGITS.sub("0", line.casefold())


def line_keys(text: str, *, is_paper: bool = False) -> set[str]:
    """Return the keys of a text's lines, each once, which are then counted per source for `repeated_lines`. Headings
    that all papers share are left out, since the parts of a paper are recognised by them.
    """
    lines = (line for line in normalise(text).split("\n") if line)
    return {line_key(line) for line in lines if not (is_paper and is_paper_heading(line))}


def repeated_lines(counts: Mapping[str, int], documents: int) -> frozenset[str]:
    """Return the keys of one source's lines that belong to the site and not to its articles.

    `counts` says in how many of the source's `documents` each key occurs. A key is returned when it is in at least five
    documents and in at least a twentieth of all: a source changes its page every few months, so a footer need not be in
    all.
    """
    least = max(_FEWEST_REPEATS, _LEAST_SHARE * documents)
    return frozenset(key for key, count in counts.items() if count >= least)
