"""How often does a search for a gold sub-question find the paragraph that answers it, by back end and passages read?

The corpus is every passage of MuSiQue under $TRAILFORGE_DATA (`musique/musique_passages.jsonl.gz`), the queries are
the gold sub-questions of its questions with published or reconstructed paragraphs, the answers of earlier hops put in.
A hop is found when one of the passages is its supporting paragraph, word for word; a chain when all its hops are. Those
whose paragraph is not in the corpus are left out and counted. `own` searches each question's own paragraphs.

    make bench B=hop_recall
    make bench B=hop_recall ARGS="--kinds bm25 hybrid --questions 200"
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
from collections.abc import Sequence
from pathlib import Path

from trailforge.mcts.plan import resolve
from trailforge.pipelines.sources import read_questions
from trailforge.retrieval import Retrieval, RetrievalConfig, open_retrieval
from trailforge.retrieval.corpus import read_corpus
from trailforge.retrieval.scope import over_documents
from trailforge.schemas import Question

SOURCES = ("musique_original20.jsonl.gz", "musique_reconstructed.jsonl.gz")
KS = (1, 2, 3, 4, 5, 8, 10)


def main() -> None:
    """Search and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=["bm25", "dense", "hybrid"], help="back ends")
    parser.add_argument("--questions", type=int, default=0, help="as many, drawn by chance (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = Path(os.environ["TRAILFORGE_DATA"]) / "musique"
    passages = list(read_corpus(folder / "musique_passages.jsonl.gz"))
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
        for over, retrieval in (("corpus", over_documents(passages, config)), ("own", open_retrieval(config))):
            places = asyncio.run(_places(retrieval, whole))
            of_hops = [place for of_one in places for place in of_one]
            shares = [sum(place < k for place in of_hops) / len(of_hops) for k in KS]
            chains = [sum(max(of_one) < k for of_one in places) / len(places) for k in KS]
            print(f"| {kind} | {over} | " + " | ".join(f"{share:.2f}" for share in (*shares, *chains)), flush=True)


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
