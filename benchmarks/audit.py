"""What an audit finds in question sets, whether it finds what was taken out of a world, and how long it takes.

*Sets*: each question set with documents in the folder TRAILFORGE_DATA, over the questions' own paragraphs or the corpus
beside it; ten questions of each reason may be written out, by lot, to be read. *World*: a world of the sample graph,
whole, and without a tenth of its documents: what the audit sets aside, beside what lost a document. *Hops*: questions
with all their paragraphs, and without that of an earlier hop, both without annotations: how often a hop is said not to
be stated. *Time*: made-up passages of 100 words, and questions of two hops over them, by BM25 or dense.

    make bench B=audit                                         the world
    make bench B=audit ARGS="--data FOLDER --lots lots.md"     and the sets
    make bench B=audit ARGS="--data FOLDER --hops"             hops alone
    make bench B=audit ARGS="--passages 100000 --questions 100000"
    make bench B=audit ARGS="--passages 200 --questions 60 --backend dense"
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from benchmarks._zipf import make_passages
from trailforge.audit.run import AuditRequest, audit_questions, describe_request
from trailforge.generators.kg_questions.worlds import WorldConfig, make_world
from trailforge.pipelines.sources import read_questions
from trailforge.pipelines.sources.audited import AUDITED_TABLE, AuditedQuestion, AuditManifest
from trailforge.retrieval.indexes.store import build_index
from trailforge.retrieval.kg import build_kg, open_source
from trailforge.retrieval.words import words_of
from trailforge.schemas import Document, Hop, Question, SupportingDocument, read_rows, to_dict

SAMPLE = Path(__file__).resolve().parents[1] / "sample_data" / "kg"
_SETS: tuple[tuple[str, str], ...] = (
    ("musique/musique_original20.jsonl.gz", ""),
    ("musique/musique_original20.jsonl.gz", "musique/musique_passages.jsonl.gz"),
    ("musique/musique_reconstructed.jsonl.gz", ""),
    ("musique/musique_reconstructed.jsonl.gz", "musique/musique_passages.jsonl.gz"),
    ("musique/musique_partial.jsonl.gz", ""),
    ("musique/musique_partial.jsonl.gz", "musique/musique_passages.jsonl.gz"),
    ("hotpotqa/hotpotqa.jsonl.gz", ""),
    ("hotpotqa/hotpotqa_fullwiki_incomplete.jsonl.gz", ""),
    ("2wikimultihopqa/2wiki_context.jsonl.gz", ""),
    ("2wikimultihopqa/2wiki_questions.jsonl.gz", "2wikimultihopqa/2wiki_corpus.jsonl.gz"),
    ("qa_small/morehopqa_150.jsonl.gz", ""),
    ("qa_phantomwiki/questions.jsonl.gz", "qa_phantomwiki/corpus.jsonl.gz"),
)
"""Question file and corpus; empty: own paragraphs."""
_WITH_HOPS = (
    "musique/musique_original20.jsonl.gz",
    "musique/musique_reconstructed.jsonl.gz",
    "2wikimultihopqa/2wiki_context.jsonl.gz",
)
_LOT = 10
_SPAN = 12
"""Words of a passage that a made-up hop rests on."""


def main() -> None:
    """Run the audits that the options name, and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of question sets")
    parser.add_argument("--hops", action="store_true", help="of that folder, with and without an earlier hop's text")
    parser.add_argument("--only", default="", help="sets whose name holds this")
    parser.add_argument("--lots", type=Path, help="file for ten questions of each reason")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--passages", type=int, default=0)
    parser.add_argument("--questions", type=int, default=0)
    parser.add_argument("--backend", default="bm25", choices=("bm25", "dense"), help="with --passages")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        if options.passages:
            _time(Path(temporary), options.passages, options.questions or options.passages, options.backend)
        elif options.data and options.hops:
            _hops(Path(temporary), options.data, options.seed)
        elif options.data:
            _sets(Path(temporary), options.data, options.only, options.lots, options.seed)
        else:
            _world(Path(temporary), options.questions or 600, options.seed)


def audit(questions: Path, searched: Path | None, out: Path) -> tuple[AuditManifest, list[AuditedQuestion], float]:
    """Audit a question file over an index or passages; None searches the questions' own paragraphs. Returns the
    manifest, the rows and the seconds it took.
    """
    began = time.perf_counter()
    request = AuditRequest(questions=questions, searched=searched)
    manifest = asyncio.run(audit_questions(request, out, describe_request(request), None, lambda *_: None))
    seconds = time.perf_counter() - began
    return manifest, list(read_rows(sorted((out / AUDITED_TABLE).glob("*.parquet")), AuditedQuestion)), seconds


def _sets(place: Path, data: Path, only: str, lots: Path | None, seed: int) -> None:
    print("| questions | searched | rows | can be answered | reasons | s |\n|---|---|---:|---:|---|---:|")
    by_reason: dict[str, list[tuple[str, AuditedQuestion]]] = defaultdict(list)
    for number, (name, corpus) in enumerate(each for each in _SETS if only in each[0]):
        manifest, rows, seconds = audit(data / name, data / corpus if corpus else None, place / str(number))
        reasons = ", ".join(f"{each.reason} {each.count:,}" for each in manifest.counts)
        answered = sum(row.can_be_answered for row in rows)
        where = Path(corpus).name if corpus else "own paragraphs"
        print(f"| {Path(name).name} | {where} | {len(rows):,} | {answered:,} | {reasons} | {seconds:.0f} |", flush=True)
        for row in rows:
            by_reason[row.reason].append((Path(name).name, row))
    if lots is not None:
        dice = random.Random(seed)
        lots.write_text("\n".join(_lot(reason, rows, dice) for reason, rows in by_reason.items()))


def _hops(place: Path, data: Path, seed: int) -> None:
    dice = random.Random(seed)
    for name in _WITH_HOPS:
        asked = [each for each in read_questions(data / name) if isinstance(each, Question) and each.decomposition]
        lost = [each for each in (_without_a_hop(question, dice) for question in asked) if each is not None]
        for what, questions in (("whole", map(_bare, asked)), ("without a hop", map(_bare, lost))):
            file = place / f"{Path(name).name}-{what}.jsonl"
            file.write_text("".join(f"{json.dumps(to_dict(each))}\n" for each in questions))
            manifest, rows, _ = audit(file, None, file.with_suffix(""))
            counts = ", ".join(f"{each.reason} {each.count:,}" for each in manifest.counts)
            print(f"{Path(name).name}, {what}: {len(rows):,}: {counts}", flush=True)


def _bare(question: Question) -> Question:
    hops = tuple(replace(hop, support_id=None) for hop in question.decomposition)
    return replace(question, decomposition=hops, supporting=())


def _without_a_hop(question: Question, dice: random.Random) -> Question | None:
    """Without the paragraph of a hop that is looked up on the way; None where no paragraph is such a one's alone."""
    hops, count = question.decomposition, question.hop_count or 0
    last = hops[count - 1].support_id
    on_the_way = hops[: count if count < len(hops) else count - 1]
    ids = [hop.support_id for hop in on_the_way if hop.support_id not in (None, last)]
    if not ids:
        return None
    gone = dice.choice(ids)
    return replace(question, paragraphs=tuple(each for each in question.paragraphs if each.id != gone))


def _lot(reason: str, rows: list[tuple[str, AuditedQuestion]], dice: random.Random) -> str:
    lines = [f"## {reason}\n"]
    for name, row in dice.sample(rows, min(_LOT, len(rows))):
        lines.append(f"- [{name}] ({row.kind}) {row.question} | {row.golds} | {row.detail}")
        lines += [f"    - hop {n}: {quote}" for n, quote in enumerate(row.quotes, start=1)]
        for each in row.documents:
            ranks = [search.ranks[row.documents.index(each)] for search in row.searches]
            lines.append(f"    - document {each.title!r} there {each.is_there} {each.by_words} ranks {ranks}")
    return "\n".join(lines) + "\n"


def _world(place: Path, size: int, seed: int) -> None:
    build_kg(open_source(SAMPLE), place / "kg")
    config = WorldConfig(questions=size, hops=(1, 2, 3), comparisons=0.2, seed=seed)
    make_world(place / "kg", place / "world", config)
    questions, corpus = place / "world" / "questions.jsonl", place / "world" / "corpus.jsonl"
    manifest, _, seconds = audit(questions, corpus, place / "whole")
    print(f"whole: {[(each.reason, each.count) for each in manifest.counts]}, {seconds:.0f} s")
    documents = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]
    gone = set(random.Random(seed).sample(range(len(documents)), len(documents) // 10))
    titles = {each["title"] for number, each in enumerate(documents) if number in gone}
    rest = place / "rest.jsonl"
    rest.write_text("".join(f"{json.dumps(each)}\n" for n, each in enumerate(documents) if n not in gone))
    manifest, rows, seconds = audit(questions, rest, place / "less")
    asked = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()]
    hit = {each["id"] for each in asked if titles & {document["title"] for document in each["supporting"]}}
    found = {row.question_id for row in rows if not row.can_be_answered}
    print(f"less a tenth: {[(each.reason, each.count) for each in manifest.counts]}, {seconds:.0f} s")
    print(f"lost a document: {len(hit)}; set aside: {len(found)}; only one of both: {len(hit ^ found)}")


def _time(place: Path, passages: int, questions: int, backend: str) -> None:
    began = time.process_time()
    asyncio.run(build_index(_titled_passages(passages), place / "index", backend))
    print(f"index {backend}: {time.process_time() - began:.1f} s CPU", flush=True)
    file = place / "questions.jsonl"
    with file.open("w", encoding="utf-8") as lines:
        for each in islice(_make_questions(passages), questions):
            lines.write(f"{json.dumps(to_dict(each))}\n")
    began = time.process_time()
    manifest, rows, seconds = audit(file, place / "index", place / "out")
    searches = sum(len(row.searches) for row in rows)
    processor = time.process_time() - began
    reasons = [(each.reason, each.count) for each in manifest.counts]
    print(f"{passages:,} passages, {len(rows):,} questions, {searches:,} searches: ", end="")
    print(f"{seconds:.0f} s wall, {processor:.0f} s CPU; {reasons}")


def _titled_passages(number: int) -> Iterator[Document]:
    """Each with a title of its own."""
    return (replace(each, title=f"{each.title} {each.id}") for each in make_passages(number))


def _make_questions(passages: int) -> Iterator[Question]:
    """Of two hops, each resting on a run of words of a passage, whose last one is its answer."""
    held = list(_titled_passages(passages))
    dice = random.Random(0)
    for number in range(10**9):
        first, second = dice.choice(held), dice.choice(held)
        yield _make_question(number, first, second, dice)


def _make_question(number: int, first: Document, second: Document, dice: random.Random) -> Question:
    spans = []
    for document in (first, second):
        words = words_of(document.text)
        at = dice.randrange(len(words) - _SPAN)
        spans.append(words[at : at + _SPAN])
    hops = tuple(
        Hop(question=f"Which {' '.join(span[:6])}{' of #1' if place else ''}?", answer=" ".join(span[-3:]))
        for place, span in enumerate(spans)
    )
    supporting = tuple(
        SupportingDocument(title=document.title, facts=(" ".join(span),))
        for document, span in zip((first, second), spans, strict=True)
    )
    asked = f"Which {' '.join(spans[1][:6])} of {' '.join(spans[0][:4])}?"
    return Question(id=str(number), question=asked, answer=hops[-1].answer, decomposition=hops, supporting=supporting)


if __name__ == "__main__":
    main()
