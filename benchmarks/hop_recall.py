"""Measure how often a search for a gold sub-question finds the paragraph that answers it, by back end and number of
passages.

The corpus is every passage of MuSiQue under $TRAILFORGE_DATA (`musique/musique_passages.jsonl.gz`), the queries are
the gold sub-questions of its questions with published or reconstructed paragraphs, the answers of earlier hops put in.
A hop is found when one of the passages is its supporting paragraph, word for word; a chain when all its hops are. Those
whose paragraph is not in the corpus are left out and counted. `own` searches each question's own paragraphs.
`--wordings` asks another question: how often a query as a model wrote it misses, and other words of its own mend that,
or lose what it found. Queries and wordings are those of recorded runs (`tests/recorded/wordings.json.gz`).

    make bench B=hop_recall
    make bench B=hop_recall ARGS="--kinds bm25 hybrid --questions 200"
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import random
from collections.abc import Sequence
from pathlib import Path

from trailforge.mcts.plan import resolve
from trailforge.pipelines.sources import read_questions
from trailforge.retrieval import Retrieval, RetrievalConfig, open_retrieval
from trailforge.retrieval.indexes.corpus import read_corpus
from trailforge.schemas import Document, Question

SOURCES = ("musique_original20.jsonl.gz", "musique_reconstructed.jsonl.gz")
KS = (1, 2, 3, 4, 5, 8, 10)
RECORDED = Path(__file__).parent.parent / "tests" / "recorded" / "wordings.json.gz"


def main() -> None:
    """Search and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=["bm25", "dense", "hybrid"], help="back ends")
    parser.add_argument("--questions", type=int, default=0, help="as many, drawn by chance (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--wordings", action="store_true", help="of recorded queries and their rewordings instead")
    options = parser.parse_args()
    folder = Path(os.environ["TRAILFORGE_DATA"]) / "musique"
    passages = list(read_corpus(folder / "musique_passages.jsonl.gz"))
    if options.wordings:
        asyncio.run(_compare_wordings(passages, options.kinds))
        return
    texts = {passage.text for passage in passages}
    asked = [q for name in SOURCES for q in read_questions(folder / name) if isinstance(q, Question)]
    whole = [q for q in asked if all(support in texts for support in _supports(q)) and len(_supports(q)) > 1]
    if options.questions:
        whole = random.Random(options.seed).sample(whole, options.questions)
    hops = sum(len(q.decomposition) for q in whole)
    print(f"{len(passages):,} passages, {len(whole)} questions of {len(asked)}, {hops} hops")
    print("| back end | over | " + " | ".join(f"hops@{k}" for k in KS) + " | " + " | ".join(f"all@{k}" for k in KS))
    for kind in options.kinds:
        config = RetrievalConfig(kind=kind)
        for over, retrieval in (("corpus", open_retrieval(config, passages)), ("own", open_retrieval(config))):
            places = asyncio.run(_places(retrieval, whole))
            of_hops = [place for of_one in places for place in of_one]
            shares = [sum(place < k for place in of_hops) / len(of_hops) for k in KS]
            chains = [sum(max(of_one) < k for of_one in places) / len(places) for k in KS]
            print(f"| {kind} | {over} | " + " | ".join(f"{share:.2f}" for share in (*shares, *chains)), flush=True)


async def _compare_wordings(passages: Sequence[Document], kinds: Sequence[str]) -> None:
    """How many recorded queries find a supporting passage, and what their rewordings change."""
    recorded = json.loads(gzip.decompress(RECORDED.read_bytes()))
    print("| back end | passages | queries that miss | mended by a rewording | queries that find | lost by one |")
    print("|---|---|---|---|---|---|")
    for kind in kinds:
        retrieval = open_retrieval(RetrievalConfig(kind=kind), passages)
        retriever = await retrieval.for_question(Question(id="any", question="Any?", answer="any"))
        for k in (1, 2, 3, 5):
            misses = mended = lost = 0
            for row in recorded:
                supporting = set(row["supporting"])
                found = [
                    bool(supporting & {passage.id for passage in await retriever.retrieve(query, k)})
                    for query in (row["query"], *row["wordings"])
                ]
                misses += not found[0]
                mended += not found[0] and any(found)
                lost += found[0] and not all(found)
            print(f"| {kind} | {k} | {misses} | {mended} | {len(recorded) - misses} | {lost} |", flush=True)


def _supports(question: Question) -> list[str]:
    """The texts of the supporting paragraphs, by hop; fewer where one is not known."""
    known = {paragraph.id: paragraph.text for paragraph in question.paragraphs}
    found = [known.get(hop.support_id or "") for hop in question.decomposition]
    return [text for text in found if text is not None] if None not in found else []


async def _places(retrieval: Retrieval, questions: Sequence[Question]) -> list[list[int]]:
    """Of each hop where its paragraph stands among the passages, from 0; the last k where it does not."""
    places = []
    for question in questions:
        retriever = await retrieval.for_question(question)
        answers = {number: hop.answer for number, hop in enumerate(question.decomposition, start=1)}
        of_one = []
        for hop, support in zip(question.decomposition, _supports(question), strict=True):
            found = [each.text for each in await retriever.retrieve(resolve(hop.question, answers), max(KS))]
            of_one.append(found.index(support) if support in found else max(KS))
        places.append(of_one)
    return places


if __name__ == "__main__":
    main()
